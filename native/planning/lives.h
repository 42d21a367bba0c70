// Independent runs of the search with different ways to choose. What one run proved is known to
// the next; what it preferred is not.
#pragma once

#include <memory>

#include "search.h"

namespace tilewright::planning {

enum class Choice {
  section,         // work on the section with the fewest choices for its failures
  lowest,          // place in the order of offsets, equal ones in a fixed order
  learned_lowest,  // the same, equal ones by the failures seen where they are live
};

struct Policy {
  Choice choice;
  std::int64_t noise;          // preferences are disturbed by so many thousandths
  std::int64_t restart_nodes;  // nodes in the shortest run between two restarts
};

class Lives {
 public:
  Lives(const Problem& problem, std::uint64_t seed, std::int64_t table_limit);
  ~Lives();
  // Runs for `work` steps; adds what was done to `outcome`, and the offsets when solved.
  Status next(const Policy& policy, std::int64_t work, Outcome& outcome);

 private:
  class Search;
  std::unique_ptr<Search> search;
};

}  // namespace tilewright::planning
