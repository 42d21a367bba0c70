// Search for plans in which buffers are placed in the order of their offsets.
//
// Every plan that is pushed down can be written as a sequence of buffers with offsets that never
// go down, each at the lowest offset it can have when its turn comes; equal offsets are taken in
// the order of rank. So a node knows that what is left lies at or above the last offset. A buffer
// that could be lower than that has to be lifted by one that is not placed yet. The next buffer
// begins below every top that a buffer left could have: otherwise that one could slide beneath it.
// Where the buffers left fall into parts that never meet in time, each part is searched alone.
#include <algorithm>
#include <limits>
#include <numeric>

#include "search.h"

namespace tilewright::planning {
namespace {

constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();

std::uint64_t mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15ull;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
  return value ^ (value >> 31);
}

class Canonical {
 public:
  Canonical(const Problem& problem, const Parameters& parameters)
      : items(problem.items), capacity(problem.capacity), sections(problem.sections),
        parameters(parameters) {
    const int count = static_cast<int>(items.size());
    live.resize(sections);
    meets.resize(count);
    for (int i = 0; i < count; ++i) {
      for (int s = items[i].first; s < items[i].last; ++s) live[s].push_back(i);
      for (int j = 0; j < count; ++j)
        if (i != j && items[i].first < items[j].last && items[j].first < items[i].last)
          meets[i].push_back(j);
    }
    waiting.assign(count, true);
    lowest.resize(count);
    rank.resize(count);
    stamp.assign(sections, 0);
    cover.assign(sections + 1, 0);
    for (int i = 0; i < count; ++i) lowest[i] = align(i, items[i].lowest);
  }

  Outcome run() {
    Outcome outcome{Status::limit, {}, 0, 0, 0};
    std::vector<int> members(items.size());
    std::iota(members.begin(), members.end(), 0);
    const std::vector<std::int64_t> start = lowest;
    for (outcome.restarts = 0;; ++outcome.restarts) {
      order(members, outcome.restarts);
      budget = std::min(parameters.node_limit,
                        nodes + (parameters.restart_nodes << (outcome.restarts / 3)));
      outcome.status = solve(members, 0, -1);
      if (outcome.status != Status::limit) break;
      if (nodes >= parameters.node_limit || work >= parameters.work_limit) break;
      std::fill(waiting.begin(), waiting.end(), true);
      lowest = start;
      trail.clear();
    }
    outcome.nodes = nodes;
    outcome.work = work;
    if (outcome.status == Status::solved) outcome.offsets = lowest;
    return outcome;
  }

 private:
  const std::vector<Item>& items;
  const std::int64_t capacity;
  const int sections;
  const Parameters parameters;
  std::vector<std::vector<int>> live, meets;
  std::vector<char> waiting;
  std::vector<std::int64_t> lowest;
  std::vector<int> rank;
  std::vector<int> stamp, cover;
  int now = 0;
  std::int64_t nodes = 0, work = 0, budget = 0;
  struct Change {
    int item;
    std::int64_t old;
  };
  std::vector<Change> trail;
  std::vector<std::pair<std::int64_t, std::int64_t>> scratch;

  std::int64_t align(int i, std::int64_t value) const {
    const std::int64_t step = items[i].alignment;
    return step == 1 ? value : (value + step - 1) / step * step;
  }

  // Orders of preference: by what is live beside a buffer, its duration, its area; then disturbed.
  void order(std::vector<int>& members, std::int64_t restart) {
    const std::size_t count = items.size();
    std::vector<std::int64_t> total(sections, 0), most(count, 0), wide(count), area(count);
    for (std::size_t i = 0; i < count; ++i)
      for (int s = items[i].first; s < items[i].last; ++s) total[s] += items[i].size;
    for (std::size_t i = 0; i < count; ++i) {
      for (int s = items[i].first; s < items[i].last; ++s) most[i] = std::max(most[i], total[s]);
      wide[i] = items[i].last - items[i].first;
      area[i] = wide[i] * items[i].size;
    }
    const std::vector<std::int64_t>* keys[3][3] = {
        {&most, &wide, &area}, {&most, &area, &wide}, {&wide, &area, &most}};
    const int which = static_cast<int>(restart % 3);
    std::vector<std::int64_t> noise(count, 1000);
    if (restart >= 3)
      for (std::size_t i = 0; i < count; ++i)
        noise[i] = 800 + static_cast<std::int64_t>(
                             mix(parameters.seed * 7919 + restart * 104729 + i) % 401);
    std::sort(members.begin(), members.end());
    std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
      for (const auto* key : keys[which]) {
        const std::int64_t x = (*key)[a] * noise[a], y = (*key)[b] * noise[b];
        if (x != y) return x > y;
      }
      return false;
    });
    for (std::size_t k = 0; k < members.size(); ++k) rank[members[k]] = static_cast<int>(k);
  }

  void undo(std::size_t mark) {
    while (trail.size() > mark) {
      const Change& last = trail.back();
      if (last.item < 0) {
        waiting[~last.item] = true;
      } else {
        lowest[last.item] = last.old;
      }
      trail.pop_back();
    }
  }

  // Whether what is left of a section, at or above `last`, still ends below the capacity: one
  // machine with release times.
  bool fits(int s, std::int64_t last) {
    scratch.clear();
    std::int64_t sum = 0, first = none;
    for (int i : live[s])
      if (waiting[i]) {
        const std::int64_t release = std::max(lowest[i], last);
        scratch.emplace_back(release, items[i].size);
        sum += items[i].size;
        first = std::min(first, release);
      }
    work += static_cast<std::int64_t>(live[s].size());
    if (scratch.empty()) return true;
    if (first + sum > capacity) return false;
    if (scratch.size() < 3) return true;
    std::sort(scratch.begin(), scratch.end());
    std::int64_t end = 0;
    for (const auto& [release, size] : scratch) end = std::max(end, release) + size;
    return end <= capacity;
  }

  // The members of each stretch of time, the fullest stretch first.
  std::vector<std::vector<int>> parts(const std::vector<int>& members) {
    int first = sections, last = 0;
    for (int i : members) {
      first = std::min(first, items[i].first);
      last = std::max(last, items[i].last);
    }
    std::fill(cover.begin() + first, cover.begin() + last + 1, 0);
    // cover[s]: members live both in s - 1 and in s.
    for (int i : members) {
      if (items[i].last - items[i].first > 1) {
        ++cover[items[i].first + 1];
        --cover[items[i].last];
      }
    }
    std::vector<int> group(last - first, 0);
    int groups = 0;
    for (int s = first, open = 0; s < last; ++s) {
      open += cover[s];
      if (s > first && open == 0) ++groups;
      group[s - first] = groups;
    }
    work += last - first + static_cast<std::int64_t>(members.size());
    std::vector<std::vector<int>> result(groups + 1);
    for (int i : members) result[group[items[i].first - first]].push_back(i);
    std::erase_if(result, [](const std::vector<int>& part) { return part.empty(); });
    if (result.size() > 1)
      std::stable_sort(result.begin(), result.end(),
                       [](const auto& a, const auto& b) { return a.size() < b.size(); });
    return result;
  }

  Status solve(const std::vector<int>& members, std::int64_t last, int last_rank) {
    if (members.empty()) return Status::solved;
    std::vector<std::vector<int>> pieces = parts(members);
    if (pieces.size() > 1) {
      for (const auto& piece : pieces) {
        const Status status = next(piece, last, last_rank);
        if (status != Status::solved) return status;
      }
      return Status::solved;
    }
    return next(members, last, last_rank);
  }

  // Tries every buffer that can come next.
  Status next(const std::vector<int>& members, std::int64_t last, int last_rank) {
    if (++nodes > budget || work > parameters.work_limit) return Status::limit;
    work += static_cast<std::int64_t>(members.size());
    std::int64_t height = none;
    for (int i : members)
      if (lowest[i] > last || (lowest[i] == last && rank[i] > last_rank))
        height = std::min(height, lowest[i] + items[i].size);
    std::vector<int> choices;
    for (int i : members)
      if (lowest[i] < height && (lowest[i] > last || (lowest[i] == last && rank[i] > last_rank)))
        choices.push_back(i);
    std::stable_sort(choices.begin(), choices.end(),
                     [&](int a, int b) { return lowest[a] < lowest[b]; });
    std::vector<int> rest(members.size() - 1);
    for (int i : choices) {
      const std::size_t mark = trail.size();
      if (place(i, members)) {
        std::remove_copy(members.begin(), members.end(), rest.begin(), i);
        const Status status = solve(rest, lowest[i], rank[i]);
        if (status != Status::infeasible) return status;
      }
      undo(mark);
    }
    return Status::infeasible;
  }

  bool place(int i, const std::vector<int>& members) {
    waiting[i] = false;
    trail.push_back({~i, 0});
    const std::int64_t offset = lowest[i], top = offset + items[i].size;
    ++now;
    touched.clear();
    work += static_cast<std::int64_t>(meets[i].size());
    for (int s = items[i].first; s < items[i].last; ++s) touch(s);
    for (int j : meets[i])
      if (waiting[j] && lowest[j] < top) {
        trail.push_back({j, lowest[j]});
        lowest[j] = align(j, top);
        if (lowest[j] > items[j].highest) return false;
        for (int s = items[j].first; s < items[j].last; ++s) touch(s);
      }
    for (int s : touched)
      if (!fits(s, offset)) return false;
    // What can no longer come next has to be lifted by something that is left.
    for (int j : members) {
      if (j == i || lowest[j] > offset || (lowest[j] == offset && rank[j] > rank[i])) continue;
      bool lifted = false;
      for (int k : meets[j]) {
        ++work;
        if (waiting[k]) {
          lifted = true;
          break;
        }
      }
      if (!lifted) return false;
    }
    return true;
  }

  void touch(int s) {
    if (stamp[s] == now) return;
    stamp[s] = now;
    touched.push_back(s);
  }

  std::vector<int> touched;
};

}  // namespace

Outcome canonical_search(const Problem& problem, const Parameters& parameters) {
  return Canonical(problem, parameters).run();
}

}  // namespace tilewright::planning
