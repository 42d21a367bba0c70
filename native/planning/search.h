// Exact memory planning: give every buffer an offset below a capacity, or prove that none exists.
#pragma once

#include <cstdint>
#include <vector>

namespace tilewright::planning {

// One buffer. It is live in the sections [first, last) and may start at any multiple of
// `alignment` in [lowest, highest].
struct Item {
  int first;
  int last;
  std::int64_t size;
  std::int64_t alignment;
  std::int64_t lowest;
  std::int64_t highest;
};

struct Problem {
  std::vector<Item> items;
  int sections;
  std::int64_t capacity;
};

// The search is deterministic: the same problem and parameters give the same outcome.
struct Parameters {
  std::uint64_t seed;
  std::int64_t restart_nodes;  // nodes in the shortest run between two restarts
  std::int64_t node_limit;
  std::int64_t work_limit;   // elementary steps, a stand-in for time that does not depend on it
  std::int64_t table_limit;  // failed states remembered
};

enum class Status { solved, infeasible, limit };

struct Outcome {
  Status status;
  std::vector<std::int64_t> offsets;  // one per item when solved
  std::int64_t nodes;
  std::int64_t work;
  std::int64_t restarts;
};

Outcome search(const Problem& problem, const Parameters& parameters);
Outcome canonical_search(const Problem& problem, const Parameters& parameters);

}  // namespace tilewright::planning
