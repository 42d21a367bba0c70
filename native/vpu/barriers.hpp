// Physical barriers for the compiler's lists: strict reuse, merges and added edges.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "clocks.hpp"

namespace tilewright::vpu {

struct Signal {
  std::vector<int> producers, consumers;  // sorted
};

// Tasks in the order of their planned starts.
struct Entries {
  std::vector<std::vector<int>> queues;  // per entry
  std::vector<int> engines_behind;       // per queue
  std::vector<int> slots;
  std::vector<int> engines;  // per entry: a number
  std::vector<std::int64_t> starts, ends;
};

struct Limits {
  int side;                      // slots of producers, and of consumers
  std::vector<int> consecutive;  // per engine: tasks in a row that may post a barrier; empty: any
};

struct Assignment {
  std::vector<Signal> signals;
  std::vector<int> physical;
  std::vector<std::vector<int>> edges;  // reduced
  bool changed = false;
};

// Keeps every edge by itself, within a pool of barriers; nothing if that does not work.
std::optional<Assignment> assign_by_edges(const Entries& entries, std::vector<std::vector<int>> edges, int pool,
                                          const Limits& limits, int rounds, int merging_round);

}  // namespace tilewright::vpu
