// The algorithm published as MiniMalloc: buffers are placed in the order of their offsets.
//
// A plan that is pushed down is a sequence of buffers whose offsets never go down, each as low as
// those before it allow; equal offsets come in the order of rank. So everything not yet placed
// lies at or above the last offset. In a section the bytes not yet placed lie above the lowest
// offset one of them can have; when they do not fit below the capacity the node fails. The next
// buffer begins below the lowest top any other could have, or that one could slide beneath it.
//
// When the buffers left fall into parts that never meet in time, each part begins anew: it is
// ranked by the bytes it still holds, and its offsets may begin below the last one. Plans that
// are not in the order of offsets are found that way too, and a part that fails has no plan at
// all beside what is placed, so it ends all of them.
//
// Ranks follow three orders of preference in turn, each run with twice the nodes of the one before.
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
    crossing.assign(sections + 1, 0);
    floor.assign(sections, {0, -1});
    stamp.assign(sections, 0);
    waiting.assign(count, true);
    lowest.resize(count);
    levels.resize(count + 1);
    choices.resize(count + 1);
    for (int i = 0; i < count; ++i) {
      lowest[i] = align(i, items[i].lowest);
      for (int s = items[i].first; s < items[i].last; ++s) {
        live[s].push_back(i);
        total[s] += items[i].size;
        if (s > items[i].first) ++crossing[s];
      }
      for (int j = 0; j < count; ++j)
        if (i != j && items[i].first < items[j].last && items[j].first < items[i].last)
          meets[i].push_back(j);
    }
  }

  Outcome run() {
    Outcome outcome{Status::limit, {}, 0, 0, 0, ""};
    std::vector<Member> members(items.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      members[i].item = static_cast<int>(i);
      if (lowest[i] > items[i].highest) return {Status::infeasible, {}, 0, 0, 0, ""};
    }
    for (std::int64_t share = 2 * static_cast<std::int64_t>(items.size());; ++outcome.restarts) {
      preference = static_cast<int>(outcome.restarts % orders);
      budget = nodes + share;
      outcome.status = split(members, {0, sections}, 0, sections);
      if (outcome.status != Status::limit) break;
      undo(0);
      if (work >= work_limit) break;
      if (preference == orders - 1) share *= 2;
    }
    outcome.nodes = nodes;
    outcome.work = work;
    if (outcome.status == Status::solved) outcome.offsets = lowest;
    return outcome;
  }

 private:
  struct Range {
    int first, last;
  };
  struct Member {
    int item;
    int rank;
  };
  struct Floor {
    std::int64_t offset;  // a lower bound for all waiting items, exact while the witness has it
    int witness;
  };
  struct Change {
    enum { placed, lifted, floor } kind;
    int index, witness;
    std::int64_t old;
  };
  static constexpr int orders = 3;
  const std::vector<Item>& items;
  const std::int64_t capacity;
  const int sections;
  const std::int64_t work_limit;
  std::vector<std::vector<int>> live, meets;
  std::vector<char> waiting;
  std::vector<std::int64_t> lowest;  // offset when placed, lower bound when waiting
  std::vector<std::int64_t> total;   // section -> bytes of the waiting items
  std::vector<int> crossing;         // section -> waiting items also live in the one before
  std::vector<Floor> floor;          // section -> of the waiting items
  std::vector<int> stamp, touched;
  std::vector<std::vector<Member>> levels;  // depth -> members left
  std::vector<std::vector<Member>> choices;
  int depth = 0;
  int now = 0, preference = 0;
  std::int64_t nodes = 0, work = 0, budget = 0;
  std::vector<Change> trail;

  std::int64_t align(int i, std::int64_t value) const {
    const std::int64_t step = items[i].alignment;
    return step == 1 ? value : (value + step - 1) / step * step;
  }

  // By duration, area and the bytes still to be placed beside a buffer, in three orders of
  // importance.
  void rank(std::vector<Member>& members) {
    struct Sorted {
      std::int64_t keys[3];
      int item;
    };
    std::vector<Sorted> sorted;
    sorted.reserve(members.size());
    for (const Member& member : members) {
      const Item& item = items[member.item];
      std::int64_t beside = 0;
      for (int s = item.first; s < item.last; ++s) beside = std::max(beside, total[s]);
      work += item.last - item.first;
      const std::int64_t wide = item.duration, area = item.duration * item.size;
      if (preference == 0) sorted.push_back({{wide, area, beside}, member.item});
      if (preference == 1) sorted.push_back({{beside, area, wide}, member.item});
      if (preference == 2) sorted.push_back({{beside, wide, area}, member.item});
    }
    std::sort(sorted.begin(), sorted.end(), [](const Sorted& a, const Sorted& b) {
      for (int k = 0; k < 3; ++k)
        if (a.keys[k] != b.keys[k]) return a.keys[k] > b.keys[k];
      return a.item < b.item;
    });
    for (std::size_t k = 0; k < sorted.size(); ++k)
      members[k] = {sorted[k].item, static_cast<int>(k)};
  }

  void undo(std::size_t mark) {
    while (trail.size() > mark) {
      const Change& last = trail.back();
      if (last.kind == Change::placed) {
        const Item& item = items[last.index];
        waiting[last.index] = true;
        for (int s = item.first; s < item.last; ++s) {
          total[s] += item.size;
          if (s > item.first) ++crossing[s];
        }
      } else if (last.kind == Change::lifted) {
        lowest[last.index] = last.old;
      } else {
        floor[last.index] = {last.old, last.witness};
      }
      trail.pop_back();
    }
  }

  // Solves each part of `members` that meets no other, cuts looked for from `first` to `last`.
  Status split(const std::vector<Member>& members, Range range, int first, int last) {
    std::vector<int> cuts{range.first};
    for (int s = first + 1; s < last; ++s)
      if (crossing[s] == 0) cuts.push_back(s);
    cuts.push_back(range.last);
    std::vector<Member> part;
    for (std::size_t k = 0; k + 1 < cuts.size(); ++k) {
      part.clear();
      for (const Member& member : members)
        if (waiting[member.item] && items[member.item].first >= cuts[k] &&
            items[member.item].first < cuts[k + 1])
          part.push_back(member);
      work += static_cast<std::int64_t>(members.size());
      if (part.empty()) continue;
      rank(part);
      const Status status = next(part, {cuts[k], cuts[k + 1]}, 0, -1);
      if (status != Status::solved) return status;
    }
    return Status::solved;
  }

  // Tries every buffer that can come next, the lowest first.
  Status next(const std::vector<Member>& members, Range range, std::int64_t last, int last_rank) {
    if (++nodes > budget || work > work_limit) return Status::limit;
    if (members.empty()) return Status::solved;
    work += static_cast<std::int64_t>(members.size());
    std::int64_t height = none;
    for (const auto& member : members)
      height = std::min(height, lowest[member.item] + items[member.item].size);
    // Everything left lies at or above the next offset, in every section.
    std::int64_t most = 0;
    for (int s = range.first; s < range.last; ++s) most = std::max(most, total[s]);
    height = std::min(height, capacity - most + 1);
    work += range.last - range.first;
    std::vector<Member>& candidates = choices[depth];
    candidates.clear();
    for (const Member& member : members) {
      const std::int64_t offset = lowest[member.item];
      if (offset < height && (offset > last || (offset == last && member.rank > last_rank)))
        candidates.push_back(member);
    }
    std::stable_sort(candidates.begin(), candidates.end(), [&](const Member& a, const Member& b) {
      return lowest[a.item] < lowest[b.item];
    });
    for (std::size_t k = 0; k < candidates.size(); ++k) {
      const Member chosen = candidates[k];
      const std::size_t mark = trail.size();
      if (place(chosen.item)) {
        const Status status = descend(members, range, chosen);
        if (status != Status::infeasible) return status;
      }
      undo(mark);
    }
    return Status::infeasible;
  }

  Status descend(const std::vector<Member>& members, Range range, Member chosen) {
    const Item& item = items[chosen.item];
    bool falls_apart = false;
    for (int s = item.first + 1; s < item.last && !falls_apart; ++s)
      falls_apart = crossing[s] == 0;
    ++depth;
    Status status;
    if (falls_apart) {
      status = split(members, range, item.first, item.last);
    } else {
      std::vector<Member>& rest = levels[depth];
      rest.clear();
      for (const Member& member : members)
        if (member.item != chosen.item) rest.push_back(member);
      status = next(rest, range, lowest[chosen.item], chosen.rank);
    }
    --depth;
    return status;
  }

  bool place(int i) {
    waiting[i] = false;
    trail.push_back({Change::placed, i, 0, 0});
    const std::int64_t top = lowest[i] + items[i].size;
    ++now;
    touched.clear();
    for (int s = items[i].first; s < items[i].last; ++s) {
      total[s] -= items[i].size;
      if (s > items[i].first) --crossing[s];
    }
    touch(items[i]);
    work += static_cast<std::int64_t>(meets[i].size());
    for (int j : meets[i])
      if (waiting[j] && lowest[j] < top) {
        trail.push_back({Change::lifted, j, 0, lowest[j]});
        lowest[j] = align(j, top);
        if (lowest[j] > items[j].highest) return false;
        touch(items[j]);
      }
    for (int s : touched) {
      if (total[s] == 0) continue;
      const Floor old = floor[s];
      if (old.witness < 0 || !waiting[old.witness] || lowest[old.witness] != old.offset) {
        Floor least{none, -1};
        for (int j : live[s])
          if (waiting[j] && lowest[j] < least.offset) least = {lowest[j], j};
        work += static_cast<std::int64_t>(live[s].size());
        trail.push_back({Change::floor, s, old.witness, old.offset});
        floor[s] = least;
      }
      if (floor[s].offset + total[s] > capacity) return false;
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
