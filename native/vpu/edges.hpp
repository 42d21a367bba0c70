// Edges that addresses demand: RAW, WAR and WAW between tasks in one order.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace tilewright::vpu {

struct Range {
  int space;
  std::int64_t address, bytes, count, stride;
};

struct Access {
  std::vector<Range> reads, writes;
};

enum Kind : int { kRaw = 0, kWar = 1, kWaw = 2 };

// Per task its (earlier task, kind) edges, sorted by task; of several kinds the first counts.
std::vector<std::vector<std::pair<int, int>>> address_edges(const std::vector<Access>& accesses, int spaces);

}  // namespace tilewright::vpu
