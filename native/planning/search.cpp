// How the search works; docs/memory-planning.md says why each rule is sound.
//
// A plan can be pushed down until every buffer rests on address 0, on its lowest allowed offset,
// or on the top of another one. Only such plans are looked for. A node picks a buffer nothing else
// fits beneath and tries
//   left:  it lies exactly at its lowest offset; everything it meets in time lies above it;
//   right: it does not; then it rests on a buffer not yet placed, which raises its lowest offset.
// When the buffers not yet placed fall into parts that never meet in time, each part is solved by
// itself. States that failed are remembered, for all runs. Runs are short and restart with other
// preferences; sections that failed often count more.
#include <algorithm>
#include <unordered_set>

#include "lives.h"
#include "luby.h"
#include "state.h"

namespace tilewright::planning {
class Lives::Search : public State {
 public:
  Search(const Problem& problem, std::uint64_t seed, std::int64_t table_limit)
      : State(problem), random{seed}, table_limit(table_limit) {
    priority.assign(items.size(), 0);
    beside.assign(items.size(), 0);
    for (std::size_t i = 0; i < items.size(); ++i)
      for (int s = items[i].first; s < items[i].last; ++s) beside[i] = std::max(beside[i], remaining[s]);
    possible = begin();
    base = mark();
  }

  // One life: nothing learned before but the failed states, restarts until the work is done.
  Status live_once(const Policy& chosen, std::int64_t work_limit, std::int64_t& restarts) {
    if (!possible) return Status::infeasible;
    policy = chosen;
    for (auto& values : weights) values.assign(sections, 1);
    for (std::int64_t run = 0;; ++run, ++restarts) {
      const int order = static_cast<int>(run % orders);
      set_priorities(order);
      weight.swap(weights[order]);
      const std::int64_t limit = nodes + policy.restart_nodes * luby(run / orders);
      const Status status = descend(limit, work_limit);
      weight.swap(weights[order]);
      if (status != Status::limit) return status;
      unwind(0);
      undo(base);
      if (work >= work_limit) return status;
    }
  }

  std::int64_t nodes = 0;

 private:
  Random random;
  const std::int64_t table_limit;
  Policy policy{};
  bool possible = true;
  std::size_t base = 0;  // of the trail: what holds before the first step
  std::vector<std::int64_t> priority;
  std::vector<std::int64_t> beside;  // item -> the most bytes live at one time it is live
  static constexpr int orders = 4;
  std::vector<std::int64_t> weights[orders];  // each order of preference learns its own

  enum class Kind { place, split, solved };
  struct Frame {
    Kind kind;
    int item;                  // place
    bool right;                // place: the left branch has failed
    std::size_t trail;         // place
    Range range;               // place: the part of time being solved
    Key key;                   // place
    std::size_t target;        // solved: index of the split this part belongs to
    std::vector<Range> parts;  // split: still to solve
  };
  std::vector<Frame> frames;
  std::unordered_set<Key, KeyHash> failed;

  int choose(Range range) { return policy.choice == Choice::section ? choose_in_section(range) : choose_lowest(range); }

  // The lowest item of all, so that offsets never go down along a path. Of several, the one
  // preferred, or of those the one live where most failures were.
  int choose_lowest(Range range) {
    int best = -1;
    __int128 best_value = 0;
    for (int s = range.first; s < range.last; ++s)
      for (int i : begins[s]) {
        if (!waiting[i] || (best >= 0 && lowest[i] > lowest[best])) continue;
        std::int64_t most = 1;
        if (policy.choice == Choice::learned_lowest)
          for (int t = items[i].first; t < items[i].last; ++t) most = std::max(most, weight[t]);
        const __int128 value = static_cast<__int128>(priority[i]) * most;
        if (best < 0 || lowest[i] < lowest[best] || value > best_value) {
          best = i;
          best_value = value;
        }
      }
    work += 2 * (range.last - range.first);
    return best;
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
    return static_cast<std::int64_t>(static_cast<__int128>(priority[i]) * area / (area + 3 * waste));
  }

  // From the section with the fewest choices for its failures, the lowest item nothing fits
  // beneath.
  int choose_in_section(Range range) {
    int section = -1;
    for (int s = range.first; s < range.last; ++s)
      if (remaining[s] > 0 && (section < 0 || candidates[s] * weight[section] < candidates[section] * weight[s]))
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
        if (waiting[j] && lowest[j] + items[j].size <= lowest[fallback] && (below < 0 || lowest[j] < lowest[below]))
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
    const std::uint64_t spread = 2 * policy.noise + 1;
    for (std::size_t i = 0; i < items.size(); ++i) {
      const std::int64_t duration = items[i].last - items[i].first, size = items[i].size;
      const std::int64_t wide = (duration << 20) / sections, large = (size << 20) / capacity;
      std::int64_t value = 0;
      if (policy.choice == Choice::section) {
        if (order == 0) value = (wide * large) >> 20;
        if (order == 1) value = wide;
        if (order == 2) value = large;
        if (order == 3) value = wide + large / 5;
      } else {
        // Ten bits each, the first decides.
        const std::int64_t w = wide >> 10, area = (wide * large) >> 30;
        const std::int64_t total = (beside[i] << 10) / capacity;
        if (order == 0) value = (w << 20) + (area << 10) + total;
        if (order == 1) value = (total << 20) + (area << 10) + w;
        if (order == 2) value = (total << 20) + (w << 10) + area;
        if (order == 3) value = (w << 20) + (total << 10) + area;
      }
      priority[i] = value * (1000 - policy.noise + static_cast<std::int64_t>(random.next() % spread));
    }
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
  Status descend(std::int64_t limit, std::int64_t work_limit) {
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
          std::stable_sort(pending.begin(), pending.end(),
                           [&](Range a, Range b) { return difficulty(a) < difficulty(b); });
          const Range next = pending.back();
          pending.pop_back();
          frames.push_back({Kind::split, -1, false, 0, {}, {}, 0, pending});
          pending = {next};
          continue;
        }
        const Range range = pending.front();
        if (++nodes > limit || work > work_limit) return Status::limit;
        const Key state = key(range);
        if (failed.contains(state)) {
          forward = false;
          continue;
        }
        const int item = choose(range);
        frames.push_back({Kind::place, item, false, mark(), range, state, 0, {}});
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
        if (static_cast<std::int64_t>(failed.size()) < table_limit) failed.insert(frame.key);
        frames.pop_back();
        continue;
      }
      take_back(frame.item);
      frame.right = true;
      if (float_(frame.item)) {
        forward = true;
        pending = {frame.range};
      }
    }
  }
};

Lives::Lives(const Problem& problem, std::uint64_t seed, std::int64_t table_limit)
    : search(std::make_unique<Search>(problem, seed, table_limit)) {}

Lives::~Lives() = default;

Status Lives::next(const Policy& policy, std::int64_t work, Outcome& outcome) {
  const std::int64_t nodes = search->nodes, before = search->work;
  const Status status = search->live_once(policy, before + work, outcome.restarts);
  outcome.nodes += search->nodes - nodes;
  outcome.work += search->work - before;
  if (status == Status::solved) outcome.offsets = search->lowest;
  return status;
}

}  // namespace tilewright::planning
