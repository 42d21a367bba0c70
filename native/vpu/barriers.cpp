#include "barriers.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

namespace tilewright::vpu {
namespace {

using Tasks = std::vector<int>;

// Consecutive pieces whose slots stay within the limit.
std::vector<Tasks> parts(const Tasks& tasks, const std::vector<int>& slots, int limit) {
  std::vector<Tasks> found;
  int used = 0;
  for (int task : tasks) {
    if (found.empty() || used + slots[task] > limit) {
      found.emplace_back();
      used = 0;
    }
    found.back().push_back(task);
    used += slots[task];
  }
  return found;
}

// Pieces in which no engine posts more often than its descriptor storage allows.
std::vector<Tasks> stored(const Tasks& producers, const std::vector<int>& engines, const Limits& limits) {
  if (limits.consecutive.empty()) return {producers};
  std::vector<Tasks> pieces(1);
  std::vector<int> counts(limits.consecutive.size(), 0);
  for (int task : producers) {
    if (++counts[engines[task]] > limits.consecutive[engines[task]]) {
      pieces.emplace_back();
      std::fill(counts.begin(), counts.end(), 0);
      counts[engines[task]] = 1;
    }
    pieces.back().push_back(task);
  }
  return pieces;
}

// One barrier for every set of producers that some tasks wait for, in the order of first producers.
std::vector<Signal> signals(const std::vector<Tasks>& reduced, const Entries& entries, const Limits& limits) {
  std::map<Tasks, std::size_t> places;
  std::vector<Signal> groups;
  for (std::size_t consumer = 0; consumer < reduced.size(); ++consumer) {
    if (reduced[consumer].empty()) continue;
    Tasks producers = reduced[consumer];
    std::sort(producers.begin(), producers.end());
    auto [place, fresh] = places.try_emplace(producers, groups.size());
    if (fresh) groups.push_back({std::move(producers), {}});
    groups[place->second].consumers.push_back(static_cast<int>(consumer));
  }
  std::vector<Signal> found;
  for (const Signal& group : groups)
    for (const Tasks& consumers : parts(group.consumers, entries.slots, limits.side))
      for (const Tasks& part : parts(group.producers, entries.slots, limits.side))
        for (const Tasks& piece : stored(part, entries.engines, limits)) found.push_back({piece, consumers});
  std::stable_sort(found.begin(), found.end(), [](const Signal& left, const Signal& right) {
    return std::tuple(left.producers[0], left.consumers[0]) < std::tuple(right.producers[0], right.consumers[0]);
  });
  return found;
}

Tasks together(const Tasks& left, const Tasks& right) {
  Tasks found;
  std::set_union(left.begin(), left.end(), right.begin(), right.end(), std::back_inserter(found));
  return found;
}

struct Merge {
  std::int64_t delay;
  int barrier;
};

struct Reuse {
  std::int64_t delay;
  int physical;
  std::vector<std::pair<int, int>> edges;
};

// One pass over barriers in programming order.
class Scan {
 public:
  Scan(const Entries& entries, const Clocks& clocks, int pool, const Limits& limits, bool merging)
      : entries_(entries), clocks_(clocks), pool_(pool), limits_(limits), merging_(merging) {}

  bool run(const std::vector<Signal>& found) {
    for (const Signal& signal : found) {
      if (free_id(signal)) continue;
      const auto merge = cheapest_merge(signal);
      std::optional<Reuse> reuse;
      if (!merge || (merge->delay && !merging_)) reuse = cheapest_reuse(signal);
      if (!merge && !reuse) return false;
      if (!reuse || (merge && merge->delay <= reuse->delay)) {
        merged = true;
        Signal& into = kept[merge->barrier];
        into = {together(into.producers, signal.producers), together(into.consumers, signal.consumers)};
      } else {
        added.insert(added.end(), reuse->edges.begin(), reuse->edges.end());
        put(signal, reuse->physical);
      }
    }
    return true;
  }

  std::vector<Signal> kept;
  std::vector<int> physical;
  std::vector<std::pair<int, int>> added;
  bool merged = false;

 private:
  void put(const Signal& signal, int id) {
    const int barrier = static_cast<int>(kept.size());
    if (id == static_cast<int>(current_.size())) {
      before_.push_back(-1);
      current_.push_back(barrier);
    } else {
      before_.push_back(current_[id]);
      current_[id] = barrier;
    }
    kept.push_back(signal);
    physical.push_back(id);
  }

  bool free_id(const Signal& signal) {
    for (std::size_t id = 0; id < current_.size(); ++id)
      if (passed(current_[id], signal.producers)) {
        put(signal, static_cast<int>(id));
        return true;
      }
    if (static_cast<int>(current_.size()) >= pool_) return false;
    put(signal, static_cast<int>(current_.size()));
    return true;
  }

  // Whether everyone who waits for a barrier has started before any of the producers.
  bool passed(int barrier, const Tasks& producers) const {
    const Tasks& consumers = kept[barrier].consumers;
    if (consumers.back() >= producers.front()) return false;
    for (int consumer : consumers)
      for (int producer : producers)
        if (!clocks_.started(consumer, producer)) return false;
    return true;
  }

  std::optional<Merge> cheapest_merge(const Signal& signal) const {
    std::optional<Merge> best;
    for (int barrier : current_) {
      const Signal& other = kept[barrier];
      if (std::max(other.producers.back(), signal.producers.back()) >=
          std::min(other.consumers.front(), signal.consumers.front()))
        continue;
      const Tasks producers = together(other.producers, signal.producers);
      const Tasks consumers = together(other.consumers, signal.consumers);
      if (!within(producers, consumers)) continue;
      const int before = before_[barrier];
      if (before >= 0 && !passed(before, signal.producers)) continue;
      const std::int64_t delay = delay_of(producers, consumers);
      if (!best || std::tuple(delay, barrier) < std::tuple(best->delay, best->barrier)) best = {delay, barrier};
    }
    return best;
  }

  bool within(const Tasks& producers, const Tasks& consumers) const {
    for (const Tasks* side : {&producers, &consumers}) {
      int slots = 0;
      for (int task : *side) slots += entries_.slots[task];
      if (slots > limits_.side) return false;
    }
    if (limits_.consecutive.empty()) return true;
    std::vector<int> counts(limits_.consecutive.size(), 0);
    for (int producer : producers)
      if (++counts[entries_.engines[producer]] > limits_.consecutive[entries_.engines[producer]]) return false;
    return true;
  }

  std::int64_t delay_of(const Tasks& producers, const Tasks& consumers) const {
    std::int64_t ready = 0, delay = 0;
    for (int producer : producers) ready = std::max(ready, entries_.ends[producer]);
    for (int consumer : consumers) delay = std::max(delay, ready - entries_.starts[consumer]);
    return delay;
  }

  std::optional<Reuse> cheapest_reuse(const Signal& signal) const {
    std::optional<Reuse> best;
    for (std::size_t id = 0; id < current_.size(); ++id) {
      const Tasks& consumers = kept[current_[id]].consumers;
      if (consumers.back() >= signal.producers.front()) continue;
      Reuse found{0, static_cast<int>(id), {}};
      for (int consumer : consumers)
        for (int producer : signal.producers)
          if (!clocks_.started(consumer, producer)) {
            found.edges.emplace_back(consumer, producer);
            found.delay = std::max(found.delay, entries_.ends[consumer] - entries_.starts[producer]);
          }
      if (!best || std::tuple(found.delay, found.edges.size(), found.physical) <
                       std::tuple(best->delay, best->edges.size(), best->physical))
        best = std::move(found);
    }
    return best;
  }

  const Entries& entries_;
  const Clocks& clocks_;
  int pool_;
  const Limits& limits_;
  bool merging_;
  std::vector<int> current_;  // per id: the barrier it stands for
  std::vector<int> before_;   // per barrier: the one before it on its id, or -1
};

}  // namespace

std::optional<Assignment> assign_by_edges(const Entries& entries, std::vector<std::vector<int>> edges, int pool,
                                          const Limits& limits, int rounds, int merging_round) {
  bool changed = false;
  for (int round = 0; round < rounds; ++round) {
    Clocks clocks(entries.engines_behind);
    std::vector<Tasks> reduced;
    reduced.reserve(edges.size());
    for (std::size_t entry = 0; entry < edges.size(); ++entry) {
      Tasks& wanted = edges[entry];
      std::sort(wanted.rbegin(), wanted.rend());
      wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
      reduced.push_back(clocks.add(entries.queues[entry], wanted));
    }
    Scan scan(entries, clocks, pool, limits, round >= merging_round);
    if (!scan.run(signals(reduced, entries, limits))) return std::nullopt;
    changed = changed || scan.merged || !scan.added.empty();
    if (scan.added.empty())
      return Assignment{std::move(scan.kept), std::move(scan.physical), std::move(reduced), changed};
    for (const auto& [first, second] : scan.added) edges[second].push_back(first);
  }
  return std::nullopt;
}

}  // namespace tilewright::vpu
