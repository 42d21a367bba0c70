// How the search works; docs/memory-planning.md says why each rule is sound.
//
// A plan can be pushed down until every buffer rests on address 0, on its lowest allowed offset,
// or on the top of another one. Only such plans are looked for. The state is, for every buffer
// not yet placed, the lowest offset it can still have. A node picks a buffer nothing else fits
// beneath and tries
//   left:  it lies exactly at its lowest offset; everything it meets in time lies above it;
//   right: it does not; then it rests on a buffer not yet placed, which raises its lowest offset.
// In every section the buffers not yet placed form a one-machine scheduling problem with release
// times; when even its relaxation ends beyond the capacity the state fails. When the buffers not
// yet placed fall into parts that never meet in time, each part is solved by itself. States that
// failed are remembered. Runs are short and restart with other preferences; sections that failed
// often are tried first.
#include "search.h"

#include <algorithm>
#include <limits>
#include <unordered_set>

namespace tilewright::planning {
namespace {

constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();

std::uint64_t mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15ull;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
  return value ^ (value >> 31);
}

// splitmix64.
struct Random {
  std::uint64_t state;
  std::uint64_t next() {
    const std::uint64_t value = mix(state);
    state += 0x9e3779b97f4a7c15ull;
    return value;
  }
};

std::int64_t luby(std::int64_t index) {
  for (std::int64_t i = index + 1;;) {
    int bits = 1;
    while (((std::int64_t{1} << bits) - 1) < i) ++bits;
    if (((std::int64_t{1} << bits) - 1) == i) return std::int64_t{1} << (bits - 1);
    i -= (std::int64_t{1} << (bits - 1)) - 1;
  }
}

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

class Search {
 public:
  Search(const Problem& problem, const Parameters& parameters)
      : items(problem.items), capacity(problem.capacity), parameters(parameters),
        random{parameters.seed}, sections(problem.sections) {
    const int count = static_cast<int>(items.size());
    live.resize(sections);
    meets.resize(count);
    for (int i = 0; i < count; ++i) {
      for (int s = items[i].first; s < items[i].last; ++s) live[s].push_back(i);
      for (int j = 0; j < count; ++j)
        if (i != j && items[i].first < items[j].last && items[j].first < items[i].last)
          meets[i].push_back(j);
    }
    lowest.assign(count, 0);
    waiting.assign(count, true);
    floating.assign(count, false);
    witness.assign(count, -1);
    twin.assign(count, -1);
    priority.assign(count, 0);
    remaining.assign(sections, 0);
    crossing.assign(sections + 1, 0);
    candidates.assign(sections, 0);
    floor.assign(sections, 0);
    stamp.assign(sections, 0);
    keys.assign(sections, {});
    for (auto& values : weights) values.assign(sections, 1);
    weight.assign(sections, 1);
    for (int i = 0; i < count; ++i) {
      lowest[i] = align(i, items[i].lowest);
      keys[items[i].first].toggle(key(i));
      for (int s = items[i].first; s < items[i].last; ++s) remaining[s] += items[i].size;
      for (int s = items[i].first + 1; s < items[i].last; ++s) ++crossing[s];
    }
  }

  Outcome run() {
    Outcome outcome{Status::limit, {}, 0, 0, 0};
    outcome.status = solve(outcome.restarts);
    outcome.nodes = nodes;
    outcome.work = work;
    if (outcome.status == Status::solved) outcome.offsets = lowest;
    return outcome;
  }

 private:
  const std::vector<Item>& items;
  const std::int64_t capacity;
  const Parameters parameters;
  Random random;
  const int sections;

  std::vector<std::vector<int>> live;   // section -> items
  std::vector<std::vector<int>> meets;  // item -> items live at the same time
  std::vector<int> twin;                // item -> the next one equal to it in every respect

  std::vector<std::int64_t> lowest;  // offset when placed, lower bound when waiting
  std::vector<char> waiting;
  std::vector<char> floating;  // waiting, and known to rest on an item not yet placed
  std::vector<int> witness;    // a hint for `support`
  std::vector<int> floaters;   // every item that has floated on the current path
  std::vector<std::int64_t> remaining;   // section -> bytes of waiting items
  std::vector<int> crossing;             // section -> waiting items also live in the one before
  std::vector<int> candidates;           // section -> waiting items that may come next in it
  std::vector<Key> keys;                 // section -> key of the waiting items that begin there
  std::vector<std::int64_t> weight;      // section -> failures seen there, plus one
  std::vector<std::int64_t> floor;       // section -> lowest offset a waiting item can have
  std::vector<std::int64_t> priority;
  static constexpr int orders = 4;
  std::vector<std::int64_t> weights[orders];  // each order of preference learns its own

  struct Change {
    int item;  // or ~section for a change of `floor` and `candidates`
    std::int64_t old;
    int other;  // old `floating` or `candidates`
  };
  std::vector<Change> trail;
  std::vector<int> touched;
  std::vector<int> stamp;
  int now = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> scratch;

  enum class Kind { place, split, solved };
  struct Frame {
    Kind kind;
    int item;            // place
    bool right;          // place: the left branch has failed
    std::size_t trail;   // place
    Range range;         // place: the part of time being solved
    Key key;             // place
    std::size_t target;  // solved: index of the split this part belongs to
    std::vector<Range> parts;  // split: still to solve
  };
  std::vector<Frame> frames;
  std::unordered_set<Key, KeyHash> failed;
  std::int64_t nodes = 0;
  std::int64_t work = 0;

  std::int64_t align(int i, std::int64_t value) const {
    const std::int64_t step = items[i].alignment;
    return step == 1 ? value : (value + step - 1) / step * step;
  }

  Key key(int i) const {
    const std::uint64_t basis = mix(static_cast<std::uint64_t>(lowest[i]) * 2 + floating[i]) +
                                static_cast<std::uint64_t>(i) * 0x2545f4914f6cdd1dull;
    return {mix(basis), mix(basis ^ 0xd6e8feb86659fd93ull)};
  }

  Key key(Range range) const {
    Key sum;
    for (int s = range.first; s < range.last; ++s) sum.toggle(keys[s]);
    return sum;
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

  // Raises the lower bound of a waiting item, and of its later twins.
  bool raise(int i, std::int64_t value, char floats) {
    value = align(i, value);
    trail.push_back({i, lowest[i], floating[i]});
    assign(i, value, floats);
    touch(items[i].first, items[i].last);
    if (value > items[i].highest) return false;
    const int next = twin[i];
    if (next >= 0 && lowest[next] < value + items[i].size)
      return raise(next, value + items[i].size, floating[next]);
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

  // One machine, release times `lowest`, lengths `size`: can it end by the capacity?
  bool check(int s) {
    scratch.clear();
    std::int64_t first = none;
    for (int i : live[s])
      if (waiting[i]) {
        scratch.emplace_back(lowest[i], items[i].size);
        first = std::min(first, lowest[i]);
      }
    work += static_cast<std::int64_t>(live[s].size());
    if (scratch.empty()) return true;
    const std::int64_t latest = capacity - remaining[s];
    if (first > latest) return false;
    int count = 0;
    for (const auto& entry : scratch) count += entry.first <= latest;
    trail.push_back({~s, floor[s], candidates[s]});
    floor[s] = first;
    candidates[s] = count;
    if (scratch.size() == 1) return true;
    std::sort(scratch.begin(), scratch.end());
    std::int64_t end = 0;
    for (const auto& [release, size] : scratch) end = std::max(end, release) + size;
    return end <= capacity;
  }

  bool propagate() {
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
    for (int s : touched)
      if (!check(s)) {
        ++weight[s];
        return false;
      }
    return true;
  }

  void begin_step() {
    ++now;
    touched.clear();
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

  bool blocked(int i) {
    work += static_cast<std::int64_t>(meets[i].size());
    for (int j : meets[i])
      if (waiting[j] && lowest[j] + items[j].size <= lowest[i]) return true;
    return false;
  }

  // Preference for an item: its priority, less the more space it would waste beneath it.
  std::int64_t score(int i) const {
    std::int64_t waste = 0;
    for (int s = items[i].first; s < items[i].last; ++s) waste += lowest[i] - floor[s];
    const std::int64_t area = (items[i].last - items[i].first) * items[i].size;
    return static_cast<std::int64_t>(static_cast<__int128>(priority[i]) * area /
                                     (area + 3 * waste));
  }

  // The item to branch on: from the section with the fewest choices for its failures, the
  // lowest one nothing fits beneath.
  int choose(Range range) {
    int section = -1;
    for (int s = range.first; s < range.last; ++s)
      if (remaining[s] > 0 && (section < 0 || candidates[s] * weight[section] <
                                                  candidates[section] * weight[s]))
        section = s;
    int best = -1, fallback = -1;
    std::int64_t best_score = 0;
    const std::int64_t latest = capacity - remaining[section];
    for (int i : live[section]) {
      if (!waiting[i] || lowest[i] > latest) continue;
      if (best >= 0 && lowest[i] > lowest[best]) continue;
      const std::int64_t value = score(i);
      if (best >= 0 && lowest[i] == lowest[best] && value <= best_score) continue;
      if (blocked(i)) {
        if (fallback < 0) fallback = i;
      } else {
        best = i;
        best_score = value;
      }
    }
    if (best >= 0) return best;
    for (;;) {
      int below = -1;
      for (int j : meets[fallback])
        if (waiting[j] && lowest[j] + items[j].size <= lowest[fallback] &&
            (below < 0 || lowest[j] < lowest[below]))
          below = j;
      if (below < 0) return fallback;
      fallback = below;
    }
  }

  // The stretches of time in `range` that still hold waiting items, no item in two of them.
  std::vector<Range> parts(Range range) const {
    std::vector<Range> result;
    for (int s = range.first; s < range.last; ++s) {
      if (remaining[s] == 0) continue;
      if (crossing[s] == 0 || result.empty() || s == range.first)
        result.push_back({s, s + 1});
      else
        result.back().last = s + 1;
    }
    return result;
  }

  std::int64_t difficulty(Range range) const {
    std::int64_t most = 0;
    for (int s = range.first; s < range.last; ++s) most = std::max(most, weight[s]);
    return most;
  }

  void set_priorities(int order) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      const std::int64_t duration = items[i].last - items[i].first, size = items[i].size;
      std::int64_t value = 0;
      const std::int64_t long_ = (duration << 20) / sections, large = (size << 20) / capacity;
      if (order == 0) value = (long_ * large) >> 20;
      if (order == 1) value = long_;
      if (order == 2) value = large;
      if (order == 3) value = long_ + large / 5;
      priority[i] = value * (800 + static_cast<std::int64_t>(random.next() % 401));
    }
  }

  Status solve(std::int64_t& restarts) {
    find_twins();
    begin_step();
    touch(0, sections);
    for (std::size_t i = 0; i < items.size(); ++i)
      if (lowest[i] > items[i].highest) return Status::infeasible;
    if (!propagate()) return Status::infeasible;
    const std::size_t base = trail.size();
    for (restarts = 0;; ++restarts) {
      const int order = static_cast<int>(restarts % orders);
      set_priorities(order);
      weight.swap(weights[order]);
      const std::int64_t limit = nodes + parameters.restart_nodes * luby(restarts / orders);
      const Status status = descend(std::min(limit, parameters.node_limit));
      weight.swap(weights[order]);
      if (status != Status::limit) return status;
      if (nodes >= parameters.node_limit || work >= parameters.work_limit) return status;
      unwind(0);
      undo(base);
    }
  }

  void find_twins() {
    for (int i = 0; i < static_cast<int>(items.size()); ++i)
      for (int j : meets[i])
        if (j > i && twin[i] < 0 && items[i].first == items[j].first &&
            items[i].last == items[j].last && items[i].size == items[j].size &&
            items[i].alignment == items[j].alignment && items[i].lowest == items[j].lowest &&
            items[i].highest == items[j].highest)
          twin[i] = j;
    for (int i = 0; i < static_cast<int>(items.size()); ++i)
      if (twin[i] >= 0 && lowest[twin[i]] < lowest[i] + items[i].size)
        assign(twin[i], align(twin[i], lowest[i] + items[i].size), false);
  }

  // Takes frames back until `size` are left.
  void unwind(std::size_t size) {
    while (frames.size() > size) pop_frame();
  }

  void pop_frame() {
    const Frame& frame = frames.back();
    if (frame.kind == Kind::place) {
      undo(frame.trail);
      if (frame.right)
        floaters.pop_back();
      else
        take_back(frame.item);
    }
    frames.pop_back();
  }

  // The innermost split with parts still to solve, or -1.
  std::ptrdiff_t open_split() const {
    for (std::ptrdiff_t k = static_cast<std::ptrdiff_t>(frames.size()) - 1; k >= 0; --k) {
      if (frames[k].kind == Kind::solved) k = static_cast<std::ptrdiff_t>(frames[k].target);
      if (frames[k].kind == Kind::split && !frames[k].parts.empty()) return k;
    }
    return -1;
  }

  // One run of depth-first search. Leaves the solution in `lowest` when solved.
  Status descend(std::int64_t limit) {
    bool forward = true;
    std::vector<Range> pending = parts({0, sections});
    for (;;) {
      if (forward) {
        // `pending` are the parts left after the last step.
        if (pending.empty()) {
          // This part is done: go on with the next part of the innermost open split.
          const std::ptrdiff_t split = open_split();
          if (split < 0) return Status::solved;
          pending = {frames[split].parts.back()};
          frames[split].parts.pop_back();
          frames.push_back({Kind::solved, -1, false, 0, {}, {}, static_cast<std::size_t>(split), {}});
          continue;
        }
        if (pending.size() > 1) {
          std::stable_sort(pending.begin(), pending.end(), [&](Range a, Range b) {
            return difficulty(a) < difficulty(b);
          });
          const Range next = pending.back();
          pending.pop_back();
          frames.push_back({Kind::split, -1, false, 0, {}, {}, 0, pending});
          pending = {next};
          continue;
        }
        const Range range = pending.front();
        if (++nodes > limit || work > parameters.work_limit) return Status::limit;
        const Key state = key(range);
        if (failed.contains(state)) {
          forward = false;
          continue;
        }
        const int item = choose(range);
        frames.push_back({Kind::place, item, false, trail.size(), range, state, 0, {}});
        forward = place(item);
        if (forward) pending = parts(range);
        continue;
      }
      if (frames.empty()) return Status::infeasible;
      Frame& frame = frames.back();
      if (frame.kind == Kind::solved) {
        // The part after it failed by itself, so other solutions of this part do not help.
        const std::size_t target = frame.target;
        unwind(target + 1);
        pop_frame();
        continue;
      }
      if (frame.kind == Kind::split) {
        pop_frame();
        continue;
      }
      undo(frame.trail);
      if (frame.right) {
        floaters.pop_back();
        if (static_cast<std::int64_t>(failed.size()) < parameters.table_limit)
          failed.insert(frame.key);
        frames.pop_back();
        continue;
      }
      take_back(frame.item);
      frame.right = true;
      floaters.push_back(frame.item);
      begin_step();
      const std::int64_t bound = support(frame.item);
      if (bound != none && raise(frame.item, bound, true) && propagate()) {
        forward = true;
        pending = {frame.range};
      }
    }
  }
};

}  // namespace

Outcome search(const Problem& problem, const Parameters& parameters) {
  return Search(problem, parameters).run();
}

}  // namespace tilewright::planning
