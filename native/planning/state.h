// What is known on the current path of the search: which buffers are placed, the lowest offset each
// of the others can still have, and what follows from that.
//
// Every step is written to a trail and can be taken back. After a step the lowest offsets are
// raised until nothing changes; a contradiction is reported by returning false.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "random.h"
#include "search.h"

namespace tilewright::planning {

constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();

// 128 bits, so that two different states meeting in one key can be ruled out in practice.
struct Key {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  bool operator==(const Key&) const = default;
  void toggle(const Key& other) {
    high ^= other.high;
    low ^= other.low;
  }
};

struct KeyHash {
  std::size_t operator()(const Key& key) const { return key.low; }
};

struct Range {
  int first;
  int last;
};

class State {
 public:
  explicit State(const Problem& problem)
      : items(problem.items), capacity(problem.capacity), sections(problem.sections) {
    const int count = static_cast<int>(items.size());
    live.resize(sections);
    begins.resize(sections);
    meets.resize(count);
    for (int i = 0; i < count; ++i) {
      begins[items[i].first].push_back(i);
      for (int s = items[i].first; s < items[i].last; ++s) live[s].push_back(i);
      for (int j = 0; j < count; ++j)
        if (i != j && items[i].first < items[j].last && items[j].first < items[i].last) meets[i].push_back(j);
    }
    lowest.assign(count, 0);
    waiting.assign(count, true);
    floating.assign(count, false);
    witness.assign(count, -1);
    twin.assign(count, -1);
    remaining.assign(sections, 0);
    crossing.assign(sections + 1, 0);
    candidates.assign(sections, 0);
    floor.assign(sections, 0);
    stamp.assign(sections, 0);
    keys.assign(sections, {});
    weight.assign(sections, 1);
    for (int i = 0; i < count; ++i) {
      lowest[i] = align(i, items[i].lowest);
      keys[items[i].first].toggle(key(i));
      for (int s = items[i].first; s < items[i].last; ++s) remaining[s] += items[i].size;
      for (int s = items[i].first + 1; s < items[i].last; ++s) ++crossing[s];
    }
  }

  const std::vector<Item>& items;
  const std::int64_t capacity;
  const int sections;
  std::vector<std::vector<int>> live;    // section -> items
  std::vector<std::vector<int>> begins;  // section -> items live in it and not before
  std::vector<std::vector<int>> meets;   // item -> items live at the same time

  std::vector<std::int64_t> lowest;  // offset when placed, lower bound when waiting
  std::vector<char> waiting;
  std::vector<char> floating;           // waiting, and known to rest on an item not yet placed
  std::vector<int> floaters;            // every item that has floated on the current path
  std::vector<std::int64_t> remaining;  // section -> bytes of waiting items
  std::vector<int> crossing;            // section -> waiting items also live in the one before
  std::vector<int> candidates;          // section -> waiting items that may come next in it
  std::vector<std::int64_t> floor;      // section -> lowest offset a waiting item can have
  std::vector<std::int64_t> weight;     // section -> failures seen there, plus one
  std::int64_t work = 0;

  // What follows before anything is placed.
  bool begin() {
    find_twins();
    begin_step();
    touch(0, sections);
    for (std::size_t i = 0; i < items.size(); ++i)
      if (lowest[i] > items[i].highest) return false;
    return propagate();
  }

  std::size_t mark() const { return trail.size(); }

  Key key(Range range) const {
    Key sum;
    for (int s = range.first; s < range.last; ++s) sum.toggle(keys[s]);
    return sum;
  }

  bool place(int i) {
    begin_step();
    keys[items[i].first].toggle(key(i));
    waiting[i] = false;
    const std::int64_t top = lowest[i] + items[i].size;
    for (int s = items[i].first; s < items[i].last; ++s) remaining[s] -= items[i].size;
    for (int s = items[i].first + 1; s < items[i].last; ++s) --crossing[s];
    touch(items[i].first, items[i].last);
    work += static_cast<std::int64_t>(meets[i].size());
    for (int j : meets[i])
      if (waiting[j] && (lowest[j] < top || (floating[j] && lowest[j] == align(j, top))))
        if (!raise(j, top, false)) return false;
    return propagate();
  }

  void take_back(int i) {
    waiting[i] = true;
    keys[items[i].first].toggle(key(i));
    for (int s = items[i].first; s < items[i].last; ++s) remaining[s] += items[i].size;
    for (int s = items[i].first + 1; s < items[i].last; ++s) ++crossing[s];
  }

  void undo(std::size_t mark) {
    while (trail.size() > mark) {
      const Change change = trail.back();
      trail.pop_back();
      if (change.item < 0) {
        floor[~change.item] = change.old;
        candidates[~change.item] = change.other;
      } else {
        assign(change.item, change.old, static_cast<char>(change.other));
      }
    }
  }

  // Item i rests on an item not yet placed.
  bool float_(int i) {
    floaters.push_back(i);
    begin_step();
    const std::int64_t bound = support(i);
    return bound != none && raise(i, bound, true) && propagate();
  }

 private:
  // Sums are looked at in sections with at most this many items left: beyond it nearly every
  // sum can be reached.
  static constexpr std::size_t most_filled = 8;

  std::vector<int> twin;     // item -> the next one equal to it in every respect
  std::vector<int> witness;  // a hint for `support`
  std::vector<Key> keys;     // section -> key of the waiting items that begin there
  struct Change {
    int item;  // or ~section for a change of `floor` and `candidates`
    std::int64_t old;
    int other;  // old `floating` or `candidates`
  };
  std::vector<Change> trail;
  std::vector<int> touched;
  std::vector<int> stamp;
  int now = 0;
  std::vector<int> above, others;
  std::vector<std::int64_t> sums;

  std::int64_t align(int i, std::int64_t value) const {
    const std::int64_t step = items[i].alignment;
    return step == 1 ? value : (value + step - 1) / step * step;
  }

  Key key(int i) const {
    const std::uint64_t basis = mix(static_cast<std::uint64_t>(lowest[i]) * 2 + floating[i]) +
                                static_cast<std::uint64_t>(i) * 0x2545f4914f6cdd1dull;
    return {mix(basis), mix(basis ^ 0xd6e8feb86659fd93ull)};
  }

  void touch(int first, int last) {
    for (int s = first; s < last; ++s)
      if (stamp[s] != now) {
        stamp[s] = now;
        touched.push_back(s);
      }
  }

  void assign(int i, std::int64_t value, char floats) {
    Key& sum = keys[items[i].first];
    sum.toggle(key(i));
    lowest[i] = value;
    floating[i] = floats;
    sum.toggle(key(i));
  }

  void begin_step() {
    ++now;
    touched.clear();
  }

  // Raises the lower bound of a waiting item, and of its later twins.
  bool raise(int i, std::int64_t value, char floats) {
    value = align(i, value);
    trail.push_back({i, lowest[i], floating[i]});
    assign(i, value, floats);
    touch(items[i].first, items[i].last);
    if (value > items[i].highest) return false;
    const int next = twin[i];
    if (next >= 0 && lowest[next] < value + items[i].size) return raise(next, value + items[i].size, floating[next]);
    return true;
  }

  // The lowest top a waiting item could give item i to rest on.
  std::int64_t support(int i) {
    std::int64_t best = none;
    work += static_cast<std::int64_t>(meets[i].size());
    for (int j : meets[i])
      if (waiting[j] && lowest[j] + items[j].size < best) {
        best = lowest[j] + items[j].size;
        witness[i] = j;
      }
    return best;
  }

  // One machine, release times `lowest`, lengths `size`: can it end by the capacity? It cannot
  // when an item is released at r, more than `latest` above the bytes that can go beneath r.
  bool check(int s) {
    above.clear();
    std::int64_t first = none, below = 0;
    int count = 0;
    const std::int64_t latest = capacity - remaining[s];
    for (int i : live[s])
      if (waiting[i]) {
        first = std::min(first, lowest[i]);
        if (lowest[i] <= latest) {
          ++count;
          below += items[i].size;
        } else {
          above.push_back(i);
        }
      }
    work += static_cast<std::int64_t>(live[s].size());
    if (first == none) return true;
    if (count == 0) return false;
    if (floor[s] != first || candidates[s] != count) {
      trail.push_back({~s, floor[s], candidates[s]});
      floor[s] = first;
      candidates[s] = count;
    }
    if (above.empty()) return true;
    std::sort(above.begin(), above.end(), [&](int a, int b) { return lowest[a] < lowest[b]; });
    for (int i : above) {
      if (lowest[i] - below > latest) return false;
      below += items[i].size;
    }
    return first < latest || fill(s, first);
  }

  // The items left in section s fill it from `first` to the capacity without a gap, so what lies
  // beneath an item adds up to its offset. Items without a gap between them can be put in the order
  // of their lowest offsets, so sums are built in that order.
  bool fill(int s, std::int64_t first) {
    others.clear();
    for (int i : live[s])
      if (waiting[i]) others.push_back(i);
    if (others.size() > most_filled) return true;
    std::sort(others.begin(), others.end(), [&](int a, int b) { return lowest[a] < lowest[b]; });
    for (int i : above) {
      const std::int64_t wanted = lowest[i] - first;
      std::int64_t best = none;
      sums.assign(1, 0);
      for (int j : others) {
        if (j == i) continue;
        const std::int64_t size = items[j].size, release = lowest[j] - first;
        const std::size_t known = sums.size();
        for (std::size_t k = 0; k < known; ++k) {
          if (sums[k] < release) continue;
          const std::int64_t sum = sums[k] + size;
          if (sum >= wanted)
            best = std::min(best, sum);
          else
            sums.push_back(sum);
        }
        work += static_cast<std::int64_t>(known);
        if (best == wanted) break;
      }
      if (best == none) return false;
      // A raise changes the order of the items; it has this section looked at again.
      if (best > wanted) return raise(i, first + best, floating[i]);
    }
    return true;
  }

  bool lift_floaters() {
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t k = 0; k < floaters.size(); ++k) {
        const int i = floaters[k];
        if (!waiting[i] || !floating[i]) continue;
        const int hint = witness[i];
        if (hint >= 0 && waiting[hint] && lowest[hint] + items[hint].size <= lowest[i]) continue;
        const std::int64_t bound = support(i);
        if (bound == none) return false;
        if (bound > lowest[i]) {
          if (!raise(i, bound, true)) return false;
          changed = true;
        }
      }
    }
    return true;
  }

  bool propagate() {
    while (lift_floaters()) {
      const std::size_t before = trail.size();
      for (std::size_t k = 0; k < touched.size(); ++k) {
        const int s = touched[k];
        stamp[s] = now - 1;
        if (!check(s)) {
          ++weight[s];
          return false;
        }
      }
      touched.clear();
      if (trail.size() == before || floaters.empty()) return true;
    }
    return false;
  }

  void find_twins() {
    for (int i = 0; i < static_cast<int>(items.size()); ++i)
      for (int j : meets[i])
        if (j > i && twin[i] < 0 && items[i].first == items[j].first && items[i].last == items[j].last &&
            items[i].size == items[j].size && items[i].alignment == items[j].alignment &&
            items[i].lowest == items[j].lowest && items[i].highest == items[j].highest)
          twin[i] = j;
    for (int i = 0; i < static_cast<int>(items.size()); ++i)
      if (twin[i] >= 0 && lowest[twin[i]] < lowest[i] + items[i].size)
        assign(twin[i], align(twin[i], lowest[i] + items[i].size), false);
  }
};

}  // namespace tilewright::planning
