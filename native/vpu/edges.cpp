#include "edges.hpp"

#include <algorithm>
#include <map>

namespace tilewright::vpu {
namespace {

struct Interval {
  std::int64_t end;
  int writer;  // -1: nobody yet
  std::vector<int> readers;
};

// Disjoint intervals of one memory; each has its writer and the readers since.
class IntervalMap {
 public:
  using Map = std::map<std::int64_t, Interval>;

  void read(int task, std::int64_t first, std::int64_t end, std::vector<int>& writers) {
    cut(first);
    cut(end);
    auto place = map_.lower_bound(first);
    for (std::int64_t at = first; at < end;) {
      if (place != map_.end() && place->first == at) {
        Interval& found = place->second;
        if (found.writer >= 0) writers.push_back(found.writer);
        if (found.readers.empty() || found.readers.back() != task) found.readers.push_back(task);
        at = found.end;
      } else {  // bytes that nobody has touched: remember who read them
        const std::int64_t until = place != map_.end() && place->first < end ? place->first : end;
        place = map_.emplace_hint(place, at, Interval{until, -1, {task}});
        at = until;
      }
      ++place;
    }
  }

  void write(int task, std::int64_t first, std::int64_t end, std::vector<int>& readers, std::vector<int>& writers) {
    cut(first);
    cut(end);
    auto low = map_.lower_bound(first);
    auto place = low;
    for (; place != map_.end() && place->first < end; ++place) {
      const Interval& found = place->second;
      if (!found.readers.empty())
        readers.insert(readers.end(), found.readers.begin(), found.readers.end());
      else if (found.writer >= 0)
        writers.push_back(found.writer);
    }
    map_.erase(low, place);
    map_.emplace(first, Interval{end, task, {}});
  }

 private:
  // Make an interval border at a place.
  void cut(std::int64_t place) {
    auto after = map_.upper_bound(place);
    if (after == map_.begin()) return;
    auto found = std::prev(after);
    if (found->first < place && place < found->second.end) {
      Interval rest{found->second.end, found->second.writer, found->second.readers};
      found->second.end = place;
      map_.emplace_hint(after, place, std::move(rest));
    }
  }

  Map map_;
};

template <typename Visit>
void for_runs(const Range& range, Visit visit) {
  if (range.count == 1 || range.stride == range.bytes) {
    visit(range.address, range.address + range.bytes * range.count);
    return;
  }
  for (std::int64_t k = 0; k < range.count; ++k)
    visit(range.address + k * range.stride, range.address + k * range.stride + range.bytes);
}

void keep(std::vector<std::pair<int, int>>& found, std::vector<int>& others, int kind) {
  std::sort(others.begin(), others.end());
  others.erase(std::unique(others.begin(), others.end()), others.end());
  for (int other : others) found.emplace_back(other, kind);
  others.clear();
}

}  // namespace

std::vector<std::vector<std::pair<int, int>>> address_edges(const std::vector<Access>& accesses, int spaces) {
  std::vector<IntervalMap> memory(spaces);
  std::vector<std::vector<std::pair<int, int>>> result(accesses.size());
  std::vector<int> readers, writers;
  for (std::size_t number = 0; number < accesses.size(); ++number) {
    const int task = static_cast<int>(number);
    auto& found = result[number];
    for (const Range& range : accesses[number].reads)
      for_runs(range, [&](auto first, auto end) { memory[range.space].read(task, first, end, writers); });
    keep(found, writers, kRaw);
    for (const Range& range : accesses[number].writes)
      for_runs(range, [&](auto first, auto end) { memory[range.space].write(task, first, end, readers, writers); });
    keep(found, readers, kWar);
    keep(found, writers, kWaw);
    std::sort(found.begin(), found.end());  // by task, then by kind: the first of a task counts
    auto same = [](const auto& left, const auto& right) { return left.first == right.first; };
    found.erase(std::unique(found.begin(), found.end(), same), found.end());
    found.erase(std::remove_if(found.begin(), found.end(), [&](const auto& edge) { return edge.first == task; }),
                found.end());
  }
  return result;
}

}  // namespace tilewright::vpu
