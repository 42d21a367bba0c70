// The algorithm published as MiniMalloc: buffers are placed in the order of their offsets.
//
// A plan that is pushed down is a sequence of buffers whose offsets never go down, each as low as
// those before it allow; equal offsets come in the order of rank. So everything not yet placed
// lies at or above the last offset. In a section the bytes not yet placed lie above the lowest
// offset one of them can have; when they do not fit below the capacity the node fails. The next
// buffer begins below the lowest top any other could have, or that one could slide beneath it.
// Buffers that fall into parts that never meet in time are placed part by part, and a part that
// fails ends all of them; a buffer with nothing left above it is such a part.
//
// Ranks follow three orders of preference in turn, each run with more nodes than the one before.
#include <algorithm>
#include <limits>
#include <numeric>

#include "search.h"

namespace tilewright::planning {
namespace {

constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();

class Canonical {
 public:
  Canonical(const Problem& problem, std::int64_t work_limit)
      : items(problem.items), capacity(problem.capacity), sections(problem.sections),
        work_limit(work_limit) {
    const int count = static_cast<int>(items.size());
    live.resize(sections);
    meets.resize(count);
    total.assign(sections, 0);
    floor.assign(sections, 0);
    stamp.assign(sections, 0);
    cover.assign(sections + 1, 0);
    waiting.assign(count, true);
    lowest.resize(count);
    rank.resize(count);
    for (int i = 0; i < count; ++i) {
      lowest[i] = align(i, items[i].lowest);
      for (int s = items[i].first; s < items[i].last; ++s) {
        live[s].push_back(i);
        total[s] += items[i].size;
      }
      for (int j = 0; j < count; ++j)
        if (i != j && items[i].first < items[j].last && items[j].first < items[i].last)
          meets[i].push_back(j);
    }
  }

  Outcome run() {
    Outcome outcome{Status::limit, {}, 0, 0, 0, ""};
    std::vector<int> members(items.size());
    std::iota(members.begin(), members.end(), 0);
    for (int i : members)
      if (lowest[i] > items[i].highest) return {Status::infeasible, {}, 0, 0, 0, ""};
    for (;; ++outcome.restarts) {
      order(members, outcome.restarts);
      budget = nodes + (first_nodes << std::min<std::int64_t>(outcome.restarts / orders, 40));
      outcome.status = solve(members, 0, -1);
      if (outcome.status != Status::limit) break;
      undo(0);
      if (work >= work_limit) break;
    }
    outcome.nodes = nodes;
    outcome.work = work;
    if (outcome.status == Status::solved) outcome.offsets = lowest;
    return outcome;
  }

 private:
  static constexpr int orders = 3;
  static constexpr std::int64_t first_nodes = 1000;  // in the first run of each order
  const std::vector<Item>& items;
  const std::int64_t capacity;
  const int sections;
  const std::int64_t work_limit;
  std::vector<std::vector<int>> live, meets;
  std::vector<char> waiting;
  std::vector<std::int64_t> lowest;        // offset when placed, lower bound when waiting
  std::vector<std::int64_t> total, floor;  // section -> of the waiting items
  std::vector<int> rank;
  std::vector<int> stamp, touched, cover, group;
  int now = 0;
  std::int64_t nodes = 0, work = 0, budget = 0;
  struct Change {
    int item;  // or ~item for a placement
    std::int64_t old;
  };
  std::vector<Change> trail;

  std::int64_t align(int i, std::int64_t value) const {
    const std::int64_t step = items[i].alignment;
    return step == 1 ? value : (value + step - 1) / step * step;
  }

  // By duration, area and the bytes live beside a buffer, in three orders of importance.
  void order(std::vector<int>& members, std::int64_t run) {
    const std::size_t count = items.size();
    std::vector<std::int64_t> beside(count, 0), wide(count), area(count);
    for (std::size_t i = 0; i < count; ++i) {
      for (int s = items[i].first; s < items[i].last; ++s)
        beside[i] = std::max(beside[i], total[s]);
      wide[i] = items[i].last - items[i].first;
      area[i] = wide[i] * items[i].size;
    }
    const std::vector<std::int64_t>* keys[orders][3] = {
        {&wide, &area, &beside}, {&beside, &area, &wide}, {&beside, &wide, &area}};
    const auto& chosen = keys[run % orders];
    std::sort(members.begin(), members.end());
    std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
      for (const auto* key : chosen)
        if ((*key)[a] != (*key)[b]) return (*key)[a] > (*key)[b];
      return false;
    });
    for (std::size_t k = 0; k < members.size(); ++k) rank[members[k]] = static_cast<int>(k);
  }

  void undo(std::size_t mark) {
    while (trail.size() > mark) {
      const Change& last = trail.back();
      if (last.item < 0) {
        const Item& item = items[~last.item];
        waiting[~last.item] = true;
        for (int s = item.first; s < item.last; ++s) total[s] += item.size;
      } else {
        lowest[last.item] = last.old;
      }
      trail.pop_back();
    }
  }

  // The members of each stretch of time, members in the order they came.
  std::vector<std::vector<int>> parts(const std::vector<int>& members) {
    int first = sections, last = 0;
    for (int i : members) {
      first = std::min(first, items[i].first);
      last = std::max(last, items[i].last);
    }
    // cover[s]: members live both in s - 1 and in s, as differences.
    std::fill(cover.begin() + first, cover.begin() + last + 1, 0);
    for (int i : members)
      if (items[i].last - items[i].first > 1) {
        ++cover[items[i].first + 1];
        --cover[items[i].last];
      }
    group.assign(last - first, 0);
    int groups = 0;
    for (int s = first, open = 0; s < last; ++s) {
      open += cover[s];
      if (s > first && open == 0) ++groups;
      group[s - first] = groups;
    }
    work += last - first + static_cast<std::int64_t>(members.size());
    if (groups == 0) return {};
    std::vector<std::vector<int>> result(groups + 1);
    for (int i : members) result[group[items[i].first - first]].push_back(i);
    std::erase_if(result, [](const std::vector<int>& part) { return part.empty(); });
    std::stable_sort(result.begin(), result.end(),
                     [](const auto& a, const auto& b) { return a.size() < b.size(); });
    return result;
  }

  Status solve(const std::vector<int>& members, std::int64_t last, int last_rank) {
    if (members.empty()) return Status::solved;
    const std::vector<std::vector<int>> pieces = parts(members);
    if (pieces.size() < 2) return next(members, last, last_rank);
    for (const auto& piece : pieces) {
      const Status status = next(piece, last, last_rank);
      if (status != Status::solved) return status;
    }
    return Status::solved;
  }

  // Tries every buffer that can come next, the lowest first.
  Status next(const std::vector<int>& members, std::int64_t last, int last_rank) {
    if (++nodes > budget || work > work_limit) return Status::limit;
    work += static_cast<std::int64_t>(members.size());
    std::int64_t height = none;
    int first = sections, end = 0;
    for (int i : members) {
      height = std::min(height, lowest[i] + items[i].size);
      first = std::min(first, items[i].first);
      end = std::max(end, items[i].last);
    }
    // Everything left lies at or above the next offset, in every section.
    std::int64_t most = 0;
    for (int s = first; s < end; ++s) most = std::max(most, total[s]);
    height = std::min(height, capacity - most + 1);
    work += end - first;
    std::vector<int> choices;
    for (int i : members)
      if (lowest[i] < height && (lowest[i] > last || (lowest[i] == last && rank[i] > last_rank)))
        choices.push_back(i);
    std::stable_sort(choices.begin(), choices.end(),
                     [&](int a, int b) { return lowest[a] < lowest[b]; });
    std::vector<int> rest(members.size() - 1);
    for (int i : choices) {
      const std::size_t mark = trail.size();
      if (place(i)) {
        std::remove_copy(members.begin(), members.end(), rest.begin(), i);
        const Status status = solve(rest, lowest[i], rank[i]);
        if (status != Status::infeasible) return status;
      }
      undo(mark);
    }
    return Status::infeasible;
  }

  bool place(int i) {
    waiting[i] = false;
    trail.push_back({~i, 0});
    const std::int64_t offset = lowest[i], top = offset + items[i].size;
    ++now;
    touched.clear();
    for (int s = items[i].first; s < items[i].last; ++s) total[s] -= items[i].size;
    touch(items[i]);
    work += static_cast<std::int64_t>(meets[i].size());
    for (int j : meets[i])
      if (waiting[j] && lowest[j] < top) {
        trail.push_back({j, lowest[j]});
        lowest[j] = align(j, top);
        if (lowest[j] > items[j].highest) return false;
        touch(items[j]);
      }
    for (int s : touched) {
      if (total[s] == 0) continue;
      std::int64_t least = none;
      for (int j : live[s])
        if (waiting[j]) least = std::min(least, lowest[j]);
      work += static_cast<std::int64_t>(live[s].size());
      if (least + total[s] > capacity) return false;
    }
    return true;
  }

  void touch(const Item& item) {
    for (int s = item.first; s < item.last; ++s)
      if (stamp[s] != now) {
        stamp[s] = now;
        touched.push_back(s);
      }
  }
};

}  // namespace

Outcome canonical_search(const Problem& problem, std::int64_t work_limit) {
  return Canonical(problem, work_limit).run();
}

}  // namespace tilewright::planning
