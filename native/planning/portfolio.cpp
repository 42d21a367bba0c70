// Searches with different habits take turns with growing amounts of work.
//
// The time one search takes on one instance varies by orders of magnitude with its preferences,
// so many short lives with different ones find a plan sooner than a long one. Each round gives
// every member twice the work of the round before; the first answer counts.
#include <algorithm>
#include <stdexcept>

#include "lives.h"
#include "random.h"

namespace tilewright::planning {
namespace {

constexpr std::int64_t first_round = 2'000'000;  // steps of work, about 20 ms
// The steps of the canonical searches are simpler; they get as many more.
constexpr std::int64_t canonical_steps = 4;
// They call themselves for every buffer they place, so they leave large problems to the others.
constexpr std::size_t canonical_items = 2000;

struct Member {
  const char* name;
  Policy policy;
};

// These two search without memory, so each turn is a new search.
constexpr const char* canonical_members[] = {"minimalloc", "jumping"};
constexpr Member lives_members[] = {
    {"lowest", {Choice::lowest, 0, 1000}},
    {"sections", {Choice::section, 200, 300}},
    {"learned", {Choice::learned_lowest, 50, 1000}},
    {"dives", {Choice::section, 200, 1000}},
};

}  // namespace

Outcome portfolio(const Problem& problem, const Parameters& parameters) {
  const auto takes_part = [&](const std::string& name) {
    return std::find(parameters.members.begin(), parameters.members.end(), name) != parameters.members.end();
  };
  const auto is_canonical = [](const std::string& name) {
    return std::find(std::begin(canonical_members), std::end(canonical_members), name) != std::end(canonical_members);
  };
  for (const std::string& name : parameters.members)
    if (!is_canonical(name) && std::none_of(std::begin(lives_members), std::end(lives_members),
                                            [&](const Member& member) { return name == member.name; }))
      throw std::invalid_argument("no member " + name);
  if (parameters.members.empty()) throw std::invalid_argument("a portfolio needs a member");
  Outcome outcome{Status::limit, {}, 0, 0, 0, ""};
  const bool small = problem.items.size() <= canonical_items;
  if (!small && std::all_of(parameters.members.begin(), parameters.members.end(), is_canonical)) return outcome;
  Lives lives(problem, parameters.seed, parameters.table_limit);
  for (std::int64_t share = first_round, round = 0;; share *= 2, ++round) {
    for (const char* name : canonical_members) {
      if (outcome.work >= parameters.work_limit) return outcome;
      if (!takes_part(name) || !small) continue;
      // Alone it has nobody to take turns with.
      const std::int64_t left = parameters.work_limit - outcome.work;
      const std::int64_t work = parameters.members.size() == 1 ? left : std::min(left, share * canonical_steps);
      const Outcome found = name == canonical_members[0] ? canonical_search(problem, work)
                                                         : jumping_search(problem, work, mix(parameters.seed) + round);
      outcome.nodes += found.nodes;
      outcome.work += found.work;
      outcome.restarts += found.restarts;
      if (found.status != Status::limit) {
        outcome.status = found.status;
        outcome.offsets = found.offsets;
        outcome.member = name;
        return outcome;
      }
    }
    for (const Member& member : lives_members) {
      if (outcome.work >= parameters.work_limit) return outcome;
      if (!takes_part(member.name)) continue;
      const std::int64_t work = std::min(share, parameters.work_limit - outcome.work);
      outcome.status = lives.next(member.policy, work, outcome);
      if (outcome.status != Status::limit) {
        outcome.member = member.name;
        return outcome;
      }
    }
    if (outcome.work >= parameters.work_limit) return outcome;
  }
}

}  // namespace tilewright::planning
