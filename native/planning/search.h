// Exact memory planning: give every buffer an offset below a capacity, or prove that none exists.
#pragma once

#include <cstdint>
#include <string>
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
  std::int64_t duration;  // steps of the program, of which a section may stand for many
};

struct Problem {
  std::vector<Item> items;
  int sections;
  std::int64_t capacity;
};

enum class Status { solved, infeasible, limit };

struct Outcome {
  Status status;
  std::vector<std::int64_t> offsets;  // one per item when solved
  std::int64_t nodes;
  std::int64_t work;  // elementary steps, a stand-in for time that does not depend on it
  std::int64_t restarts;
  std::string member;  // who found the answer
};

// The algorithm published as MiniMalloc. It knows no chance.
Outcome canonical_search(const Problem& problem, std::int64_t work_limit);

// The same with disturbed orders, restarts and jumps back to what a failure is about.
Outcome jumping_search(const Problem& problem, std::int64_t work_limit, std::uint64_t seed);

struct Parameters {
  std::uint64_t seed;
  std::int64_t work_limit;
  std::int64_t table_limit;          // failed states remembered
  std::vector<std::string> members;  // of the portfolio, see portfolio.cpp
};

// Several searches in turn. The same problem and parameters give the same outcome.
Outcome portfolio(const Problem& problem, const Parameters& parameters);

}  // namespace tilewright::planning
