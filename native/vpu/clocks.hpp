// What is over when a task starts: happens-before as one clock per queue.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace tilewright::vpu {

// Clocks of tasks that are added in an order in which every predecessor comes first. A queue with
// one engine is a chain; behind several engines only starts are one, so ends are a prefix and
// single indices above it.
class Clocks {
 public:
  explicit Clocks(const std::vector<int>& engines);

  // Add the next task of some queues; returns the predecessors (latest first) that say something
  // new, which is the transitive reduction.
  std::vector<int> add(const std::vector<int>& queues, const std::vector<int>& predecessors);

  bool ended(int first, int second) const;    // first has ended when second starts
  bool started(int first, int second) const;  // first has started when second starts

 private:
  void merge(int task, int before);
  void learn_end(int task, int before);
  void merge_ends(int task, int queue, int prefix, const std::vector<int>& above);
  int& starts(int task, int queue) { return starts_[task * count_ + queue]; }
  int& ends(int task, int queue) { return ends_[task * count_ + queue]; }
  std::vector<int>& above(int task, int queue) { return above_[task * several_count_ + rank_[queue]]; }

  std::int64_t count_, several_count_ = 0;
  std::vector<int> rank_;  // among the queues with several engines; -1: one engine
  std::vector<int> lengths_, last_;
  std::vector<std::vector<std::pair<int, int>>> places_;  // per task: (queue, index)
  std::vector<int> starts_, ends_;                        // task major
  std::vector<std::vector<int>> above_;                   // ends known above the prefix, sorted
  std::vector<int> merged_;
};

}  // namespace tilewright::vpu
