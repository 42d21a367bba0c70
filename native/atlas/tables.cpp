#include "tables.hpp"

#include <cmath>
#include <memory>
#include <mutex>

#include "numbers.hpp"

namespace atlas {
namespace {

// Round a double to bf16 once: the step through float rounds to odd, so that an inexact value
// never looks like a tie to the rounding that follows.
uint16_t bf16_of_double(double value) {
  float narrow = static_cast<float>(value);
  uint32_t bits = bits_of_float(narrow);
  double back = narrow;
  if (back != value && value == value) {
    if (std::fabs(back) > std::fabs(value)) --bits;
    bits |= 1;
  }
  return round_bf16(float_of_bits(bits));
}

double evaluate(Unary function, double x) {
  switch (function) {
    case Unary::recip:
      return 1.0 / x;
    case Unary::exp:
      return std::exp(x);
    case Unary::exp2:
      return std::exp2(x);
    case Unary::sin:
      return std::sin(x);
    case Unary::cos:
      return std::cos(x);
    case Unary::tanh:
      return std::tanh(x);
    case Unary::log2:
      return std::log2(x);
    default:
      return std::sqrt(x);
  }
}

}  // namespace

const uint16_t* unary_table(Unary function) {
  constexpr int count = static_cast<int>(Unary::count);
  static std::unique_ptr<uint16_t[]> tables[count];
  static std::once_flag built[count];
  const int which = static_cast<int>(function);
  std::call_once(built[which], [&] {
    auto table = std::make_unique<uint16_t[]>(65536);
    for (uint32_t pattern = 0; pattern < 65536; ++pattern) {
      double x = widen(static_cast<uint16_t>(pattern));
      table[pattern] = x != x ? kNan16 : bf16_of_double(evaluate(function, x));
    }
    tables[which] = std::move(table);
  });
  return tables[which].get();
}

const uint8_t* fp8_of_bf16() {
  static uint8_t table[65536];
  static std::once_flag built;
  std::call_once(built, [] {
    for (uint32_t pattern = 0; pattern < 65536; ++pattern) {
      const uint8_t sign = (pattern >> 8) & 0x80;
      const double magnitude = std::fabs(double(widen(static_cast<uint16_t>(pattern))));
      if (magnitude != magnitude) {
        table[pattern] = kNan8;
      } else if (magnitude >= 448) {
        table[pattern] = sign | 0x7E;
      } else if (magnitude < 0.015625) {  // multiples of 2^-9; 8 of them is the first normal
        table[pattern] = sign | static_cast<uint8_t>(std::nearbyint(magnitude * 512));
      } else {
        int exponent;
        const double fraction = std::frexp(magnitude, &exponent);           // 0.5 <= fraction < 1
        const int steps = static_cast<int>(std::nearbyint(fraction * 16));  // 8..16
        table[pattern] = sign | static_cast<uint8_t>((exponent + 5) * 8 + steps);
      }
    }
  });
  return table;
}

void unpack_table(float scale, uint16_t* out) {
  for (int code = 0; code < 256; ++code) out[code] = round_bf16(decode_fp8(static_cast<uint8_t>(code)) / scale);
}

uint16_t bf16_of_integer(int32_t value) { return bf16_of_double(value); }

}  // namespace atlas
