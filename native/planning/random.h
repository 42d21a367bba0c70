// splitmix64: the same numbers on every machine.
#pragma once

#include <cstdint>

namespace tilewright::planning {

inline std::uint64_t mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15ull;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
  return value ^ (value >> 31);
}

struct Random {
  std::uint64_t state;
  std::uint64_t next() {
    const std::uint64_t value = mix(state);
    state += 0x9e3779b97f4a7c15ull;
    return value;
  }
};

}  // namespace tilewright::planning
