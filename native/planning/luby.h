// The Luby sequence 1 1 2 1 1 2 4 …: how long runs between restarts should be when nothing is known.
#pragma once

#include <cstdint>

namespace tilewright::planning {

inline std::int64_t luby(std::int64_t index) {
  for (std::int64_t i = index + 1;;) {
    int bits = 1;
    while (((std::int64_t{1} << bits) - 1) < i) ++bits;
    if (((std::int64_t{1} << bits) - 1) == i) return std::int64_t{1} << (bits - 1);
    i -= (std::int64_t{1} << (bits - 1)) - 1;
  }
}

}  // namespace tilewright::planning
