// Numbers of any width as text.
#pragma once

#include <string>

namespace atlas {

inline std::string digits_of(unsigned __int128 value, unsigned base) {
  char text[40];  // 2^128 has 39 decimal digits
  char* const end = text + sizeof text;
  char* at = end;
  do {
    *--at = "0123456789abcdef"[static_cast<unsigned>(value % base)];
    value /= base;
  } while (value);
  return {at, end};
}

inline std::string decimal(__int128 value) {
  const unsigned __int128 magnitude = value < 0 ? -static_cast<unsigned __int128>(value) : value;
  const std::string digits = digits_of(magnitude, 10);
  return value < 0 ? "-" + digits : digits;
}

inline std::string hexadecimal(__int128 value) {
  const unsigned __int128 magnitude = value < 0 ? -static_cast<unsigned __int128>(value) : value;
  const std::string digits = digits_of(magnitude, 16);
  return value < 0 ? "-0x" + digits : "0x" + digits;
}

}  // namespace atlas
