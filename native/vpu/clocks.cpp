#include "clocks.hpp"

#include <algorithm>
#include <iterator>

namespace tilewright::vpu {

Clocks::Clocks(const std::vector<int>& engines)
    : count_(static_cast<std::int64_t>(engines.size())),
      rank_(engines.size(), -1),
      lengths_(engines.size(), 0),
      last_(engines.size(), -1) {
  for (std::size_t queue = 0; queue < engines.size(); ++queue)
    if (engines[queue] > 1) rank_[queue] = static_cast<int>(several_count_++);
}

std::vector<int> Clocks::add(const std::vector<int>& queues, const std::vector<int>& predecessors) {
  const int task = static_cast<int>(places_.size());
  starts_.resize(starts_.size() + count_, 0);
  ends_.resize(ends_.size() + count_, 0);
  above_.resize(above_.size() + several_count_);
  std::vector<std::pair<int, int>> places;
  for (int queue : queues) {
    places.emplace_back(queue, lengths_[queue]++);
    const int before = last_[queue];
    last_[queue] = task;
    if (before < 0) continue;
    merge(task, before);
    if (rank_[queue] >= 0)
      starts(task, queue) = std::max(starts(task, queue), lengths_[queue] - 1);
    else
      learn_end(task, before);
  }
  places_.push_back(std::move(places));
  std::vector<int> kept;
  for (int before : predecessors) {
    if (ended(before, task)) continue;
    merge(task, before);
    learn_end(task, before);
    kept.push_back(before);
  }
  return kept;
}

bool Clocks::ended(int first, int second) const {
  if (first == second) return false;
  const auto [queue, index] = places_[first][0];
  if (index < ends_[second * count_ + queue]) return true;
  if (rank_[queue] < 0) return false;
  const auto& above = above_[second * several_count_ + rank_[queue]];
  return std::binary_search(above.begin(), above.end(), index);
}

bool Clocks::started(int first, int second) const {
  if (first == second) return false;
  const auto [queue, index] = places_[first][0];
  return index < starts_[second * count_ + queue] || ended(first, second);
}

void Clocks::merge(int task, int before) {
  for (int queue = 0; queue < count_; ++queue) {
    starts(task, queue) = std::max(starts(task, queue), starts(before, queue));
    if (rank_[queue] < 0)
      ends(task, queue) = std::max(ends(task, queue), ends(before, queue));
    else
      merge_ends(task, queue, ends(before, queue), above(before, queue));
  }
}

void Clocks::learn_end(int task, int before) {
  for (const auto& [queue, index] : places_[before]) {
    starts(task, queue) = std::max(starts(task, queue), index + 1);
    if (rank_[queue] < 0)
      ends(task, queue) = std::max(ends(task, queue), index + 1);
    else if (index >= ends(task, queue))
      merge_ends(task, queue, ends(task, queue), {index});
  }
}

void Clocks::merge_ends(int task, int queue, int prefix, const std::vector<int>& more) {
  auto& own = above(task, queue);
  int low = std::max(ends(task, queue), prefix);
  if (!own.empty() || !more.empty()) {
    merged_.clear();
    std::set_union(std::lower_bound(own.begin(), own.end(), low), own.end(),
                   std::lower_bound(more.begin(), more.end(), low), more.end(), std::back_inserter(merged_));
    auto place = merged_.begin();
    for (; place != merged_.end() && *place == low; ++place) ++low;
    own.assign(place, merged_.end());
  }
  ends(task, queue) = low;
}

}  // namespace tilewright::vpu
