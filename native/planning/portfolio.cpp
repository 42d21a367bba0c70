// Searches with different habits take turns with growing amounts of work.
//
// The time one search takes on one instance varies by orders of magnitude with its preferences,
// so many short lives with different ones find a plan sooner than a long one. Each round gives
// every member twice the work of the round before; the first answer counts.
#include <algorithm>
#include <stdexcept>

#include "lives.h"

namespace tilewright::planning {
namespace {

constexpr std::int64_t first_round = 2'000'000;  // steps of work, about 20 ms
// The steps of the canonical search are simpler; it gets as many more.
constexpr std::int64_t canonical_steps = 4;
// It calls itself for every buffer it places, so it leaves large problems to the others.
constexpr std::size_t canonical_items = 2000;

struct Member {
  const char* name;
  Policy policy;
};

constexpr const char* canonical_name = "minimalloc";
constexpr Member lives_members[] = {
    {"lowest", {Choice::lowest, 0, 1000}},
    {"sections", {Choice::section, 200, 300}},
    {"learned", {Choice::learned_lowest, 50, 1000}},
    {"dives", {Choice::section, 200, 1000}},
};

}  // namespace

Outcome portfolio(const Problem& problem, const Parameters& parameters) {
  const auto takes_part = [&](const char* name) {
    return std::find(parameters.members.begin(), parameters.members.end(), name) !=
           parameters.members.end();
  };
  for (const std::string& name : parameters.members)
    if (name != canonical_name &&
        std::none_of(std::begin(lives_members), std::end(lives_members),
                     [&](const Member& member) { return name == member.name; }))
      throw std::invalid_argument("no member " + name);
  if (parameters.members.empty()) throw std::invalid_argument("a portfolio needs a member");
  Outcome outcome{Status::limit, {}, 0, 0, 0, ""};
  const bool canonical =
      takes_part(canonical_name) && problem.items.size() <= canonical_items;
  if (!canonical && parameters.members.size() == 1 && takes_part(canonical_name)) return outcome;
  Lives lives(problem, parameters.seed, parameters.table_limit);
  for (std::int64_t share = first_round;; share *= 2) {
    if (canonical) {
      // Alone it has nobody to take turns with.
      const std::int64_t left = parameters.work_limit - outcome.work;
      const std::int64_t work =
          parameters.members.size() == 1 ? left : std::min(left, share * canonical_steps);
      const Outcome found = canonical_search(problem, work);
      outcome.nodes += found.nodes;
      outcome.work += found.work;
      outcome.restarts += found.restarts;
      if (found.status != Status::limit) {
        outcome.status = found.status;
        outcome.offsets = found.offsets;
        outcome.member = canonical_name;
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
