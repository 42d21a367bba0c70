// The algorithm published as MiniMalloc: buffers are placed in the order of their offsets.
//
// A plan that is pushed down is a sequence of buffers whose offsets never go down, each as low as
// those before it allow; equal offsets come in the order of rank. So everything not yet placed
// lies at or above the last offset. In a section the bytes not yet placed lie above the lowest
// offset one of them can have; when they do not fit below the capacity the node fails. The next
// buffer begins below the lowest top any other could have, or that one could slide beneath it.
//
// When the buffers left fall into parts that never meet in time, each part begins anew: it is
// ranked by the bytes it still holds, and its offsets may begin below the last one. A part that
// fails has no plan at all beside what is placed, so it ends all of them.
//
// Ranks follow three orders of preference in turn, each with more nodes than in the turn before.
//
// The second habit is not part of the published algorithm. Ranks are disturbed at random, runs
// follow the Luby sequence, and a failure jumps back. Buffers that lie far apart in time are placed
// between each other, so the last one placed often has nothing to do with a failure, and what is
// tried in its place fails again. A failure therefore names the buffers that pushed up the ones
// it is about; a node none of whose buffers are named is left at once. The order of offsets also
// hides choices, which is not counted as a reason, so such a run can miss plans. When one ends
// without an answer the next runs do not jump, and only they say that there is no plan.
#include <algorithm>
#include <limits>
#include <numeric>

#include "luby.h"
#include "random.h"
#include "search.h"

namespace tilewright::planning {
namespace {

constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();

// Some of the items.
class Set {
 public:
  explicit Set(std::size_t count) : words((count + 63) / 64, 0) {}
  void clear() { std::fill(words.begin(), words.end(), 0); }
  void add(int i) {
    if (i >= 0) words[i / 64] |= std::uint64_t{1} << (i % 64);
  }
  void remove(int i) { words[i / 64] &= ~(std::uint64_t{1} << (i % 64)); }
  bool has(int i) const { return words[i / 64] >> (i % 64) & 1; }
  void add(const Set& other) {
    for (std::size_t k = 0; k < words.size(); ++k) words[k] |= other.words[k];
  }

 private:
  std::vector<std::uint64_t> words;
};

class Canonical {
 public:
  Canonical(const Problem& problem, std::int64_t work_limit, bool jumps, std::uint64_t seed)
      : items(problem.items),
        capacity(problem.capacity),
        sections(problem.sections),
        work_limit(work_limit),
        disturbed(jumps),
        jumping(jumps),
        random{seed},
        conflict(problem.items.size()) {
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
    reason.assign(count, -1);
    factor.assign(count, {1, 1});
    named.assign(count + 1, conflict);
    for (int i = 0; i < count; ++i) {
      lowest[i] = align(i, items[i].lowest);
      for (int s = items[i].first; s < items[i].last; ++s) {
        live[s].push_back(i);
        total[s] += items[i].size;
        if (s > items[i].first) ++crossing[s];
      }
      for (int j = 0; j < count; ++j)
        if (i != j && items[i].first < items[j].last && items[j].first < items[i].last) meets[i].push_back(j);
    }
  }

  Outcome run() {
    Outcome outcome{Status::limit, {}, 0, 0, 0, ""};
    std::vector<Member> members(items.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      members[i].item = static_cast<int>(i);
      if (lowest[i] > items[i].highest) return {Status::infeasible, {}, 0, 0, 0, ""};
    }
    const std::int64_t share = 2 * static_cast<std::int64_t>(items.size());
    for (;; ++outcome.restarts) {
      const std::int64_t turn = outcome.restarts / orders;
      preference = static_cast<int>(outcome.restarts % orders);
      budget = nodes + (share << std::min<std::int64_t>(turn, 40));
      if (disturbed) {
        disturb();
        budget = nodes + disturbed_nodes * luby(outcome.restarts);
      }
      jumped = false;
      outcome.status = split(members, {0, sections}, 0, sections, -1);
      if (outcome.status == Status::infeasible && jumped) {
        outcome.status = Status::limit;
        jumping = false;
      }
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
    int index;
    int other;  // old reason of an item, old witness of a section
    std::int64_t old;
  };
  struct Factor {
    std::int64_t wide, area;
  };
  static constexpr int orders = 3;
  static constexpr std::int64_t disturbed_nodes = 1000;  // in the shortest run
  static constexpr std::int64_t noise = 200;             // thousandths
  const std::vector<Item>& items;
  const std::int64_t capacity;
  const int sections;
  const std::int64_t work_limit;
  const bool disturbed;
  bool jumping, jumped = false;
  Random random;
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
  std::vector<int> reason;     // item -> the placed item that gave it its lowest offset, or -1
  std::vector<Factor> factor;  // item -> how its rank is disturbed
  Set conflict;                // the placed items that explain the last failure
  std::vector<Set> named;      // depth -> those of all choices of the node

  std::int64_t align(int i, std::int64_t value) const {
    const std::int64_t step = items[i].alignment;
    return step == 1 ? value : (value + step - 1) / step * step;
  }

  void disturb() {
    const auto draw = [&] { return 1000 - noise + static_cast<std::int64_t>(random.next() % (2 * noise + 1)); };
    for (Factor& values : factor) values = {draw(), draw()};
    preference = static_cast<int>(random.next() % orders);
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
      const std::int64_t wide = item.duration * factor[member.item].wide;
      const std::int64_t area = item.duration * item.size * factor[member.item].area;
      if (preference == 0) sorted.push_back({{wide, area, beside}, member.item});
      if (preference == 1) sorted.push_back({{beside, area, wide}, member.item});
      if (preference == 2) sorted.push_back({{beside, wide, area}, member.item});
    }
    std::sort(sorted.begin(), sorted.end(), [](const Sorted& a, const Sorted& b) {
      for (int k = 0; k < 3; ++k)
        if (a.keys[k] != b.keys[k]) return a.keys[k] > b.keys[k];
      return a.item < b.item;
    });
    for (std::size_t k = 0; k < sorted.size(); ++k) members[k] = {sorted[k].item, static_cast<int>(k)};
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
        reason[last.index] = last.other;
      } else {
        floor[last.index] = {last.old, last.other};
      }
      trail.pop_back();
    }
  }

  // Solves each part of `members` that meets no other, cuts looked for from `first` to `last`;
  // `placed` was placed last.
  Status split(const std::vector<Member>& members, Range range, int first, int last, int placed) {
    std::vector<int> cuts{range.first};
    for (int s = first + 1; s < last; ++s)
      if (crossing[s] == 0) cuts.push_back(s);
    cuts.push_back(range.last);
    std::vector<Member> part;
    for (std::size_t k = 0; k + 1 < cuts.size(); ++k) {
      part.clear();
      for (const Member& member : members)
        if (waiting[member.item] && items[member.item].first >= cuts[k] && items[member.item].first < cuts[k + 1])
          part.push_back(member);
      work += static_cast<std::int64_t>(members.size());
      if (part.empty()) continue;
      rank(part);
      const Status status = next(part, {cuts[k], cuts[k + 1]}, 0, -1, placed);
      if (status != Status::solved) return status;
    }
    return Status::solved;
  }

  // Tries every buffer that can come next, the lowest first.
  Status next(const std::vector<Member>& members, Range range, std::int64_t last, int last_rank, int placed) {
    if (++nodes > budget || work > work_limit) return Status::limit;
    if (members.empty()) return Status::solved;
    work += static_cast<std::int64_t>(members.size());
    std::int64_t height = none;
    for (const auto& member : members) height = std::min(height, lowest[member.item] + items[member.item].size);
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
    std::stable_sort(candidates.begin(), candidates.end(),
                     [&](const Member& a, const Member& b) { return lowest[a.item] < lowest[b.item]; });
    Set& all = named[depth];
    all.clear();
    if (candidates.empty()) all.add(placed);
    for (std::size_t k = 0; k < candidates.size(); ++k) {
      const Member chosen = candidates[k];
      const std::size_t mark = trail.size();
      if (place(chosen.item)) {
        const Status status = descend(members, range, chosen);
        if (status != Status::infeasible) return status;
      }
      undo(mark);
      if (!jumping) continue;
      if (!conflict.has(chosen.item)) {
        jumped = true;
        return Status::infeasible;
      }
      all.add(conflict);
      all.remove(chosen.item);
      all.add(reason[chosen.item]);
    }
    conflict = all;
    return Status::infeasible;
  }

  Status descend(const std::vector<Member>& members, Range range, Member chosen) {
    const Item& item = items[chosen.item];
    bool falls_apart = false;
    for (int s = item.first + 1; s < item.last && !falls_apart; ++s) falls_apart = crossing[s] == 0;
    ++depth;
    Status status;
    if (falls_apart) {
      status = split(members, range, item.first, item.last, chosen.item);
    } else {
      std::vector<Member>& rest = levels[depth];
      rest.clear();
      for (const Member& member : members)
        if (member.item != chosen.item) rest.push_back(member);
      status = next(rest, range, lowest[chosen.item], chosen.rank, chosen.item);
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
        trail.push_back({Change::lifted, j, reason[j], lowest[j]});
        lowest[j] = align(j, top);
        reason[j] = i;
        if (lowest[j] > items[j].highest) return explain(i, -1);
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
      if (floor[s].offset + total[s] > capacity) return explain(i, s);
    }
    return true;
  }

  // Placing item i failed in section s, or at an item it pushed up. Returns false.
  bool explain(int i, int s) {
    if (!jumping) return false;
    conflict.clear();
    conflict.add(i);
    if (s >= 0)
      for (int j : live[s])
        if (waiting[j]) conflict.add(reason[j]);
    return false;
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
  return Canonical(problem, work_limit, false, 0).run();
}

Outcome jumping_search(const Problem& problem, std::int64_t work_limit, std::uint64_t seed) {
  return Canonical(problem, work_limit, true, seed).run();
}

}  // namespace tilewright::planning
