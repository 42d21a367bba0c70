#include "memory.hpp"

#include <algorithm>
#include <stdexcept>

namespace tilewright::vpu {
namespace {

std::int64_t up(std::int64_t value, std::int64_t align) { return (value + align - 1) / align * align; }

}  // namespace

TileMemory::TileMemory(std::int64_t bytes) : capacity(bytes), free_bytes(bytes), segments{{0, bytes, kFree, 0}} {}

std::optional<Window> TileMemory::find(std::int64_t size, std::int64_t align, std::int64_t ready, Fit fit,
                                       bool downwards, const Victim* victim) const {
  using Key = std::tuple<double, std::int64_t, std::int64_t, std::int64_t>;
  std::optional<Window> best;
  Key best_key;
  for (std::size_t number = 0; number < segments.size(); ++number) {
    const Segment& segment = segments[number];
    if (segment.owner != kFree && !victim) continue;
    // A window begins at the start of a segment, or ends flush with it.
    const std::int64_t low = up(segment.address, align);
    std::int64_t starts[2];
    int count = 0;
    if (low < segment.end()) starts[count++] = low;
    if (downwards || segment.size > size) {
      const std::int64_t flush = segment.end() - size;
      const std::int64_t high = flush < 0 ? -1 : flush / align * align;
      if (high > low) starts[count++] = high;
    }
    for (int n = 0; n < count; ++n) {
      const std::int64_t start = starts[n], end = start + size;
      if (end > capacity) continue;
      Window window{start, 0, {}, 0.0};
      std::int64_t covered = 0;
      bool possible = true;
      for (std::size_t place = number; place < segments.size() && segments[place].address < end; ++place) {
        const Segment& part = segments[place];
        if (part.owner == kFree) {
          window.available = std::max(window.available, part.since);
        } else {
          const auto leaves = victim ? (*victim)(part.owner) : std::nullopt;
          if (!leaves) {
            possible = false;
            break;
          }
          window.available = std::max(window.available, leaves->first);
          window.cost += leaves->second;
          window.victims.push_back(part.owner);
        }
        covered += part.size;
      }
      if (!possible) continue;
      const std::int64_t time = std::max(window.available, ready), spare = covered - size;
      const std::int64_t place = downwards ? -start : start;
      Key key;
      if (fit == Fit::earliest)
        key = {window.cost, time, spare, place};
      else if (fit == Fit::best)
        key = {window.cost, spare, time, place};
      else
        key = {window.cost, place, time, spare};
      if (!best || key < best_key) {
        best = std::move(window);
        best_key = key;
      }
    }
  }
  return best;
}

void TileMemory::take(int owner, std::int64_t address, std::int64_t size) {
  const std::int64_t end = address + size;
  if (address < 0 || size <= 0 || end > capacity) throw std::out_of_range("outside of the memory");
  const std::size_t first = index(address);
  std::size_t last = first;
  while (segments[last].end() < end) ++last;
  const Segment head = segments[first], tail = segments[last];
  std::vector<Segment> pieces;
  if (head.address < address) pieces.push_back({head.address, address - head.address, kFree, head.since});
  pieces.push_back({address, size, owner, 0});
  if (tail.end() > end) pieces.push_back({end, tail.end() - end, kFree, tail.since});
  segments.erase(segments.begin() + first, segments.begin() + last + 1);
  segments.insert(segments.begin() + first, pieces.begin(), pieces.end());
  free_bytes -= size;
}

void TileMemory::release(std::int64_t address, std::int64_t since, std::int64_t horizon) {
  const std::size_t place = index(address);
  segments[place].owner = kFree;
  segments[place].since = since;
  free_bytes += segments[place].size;
  for (const std::size_t back : {0, 1}) {  // with the one behind it, then with the one before it
    if (back > place || place - back + 1 >= segments.size()) continue;
    const std::size_t left = place - back;
    Segment& first = segments[left];
    const Segment& second = segments[left + 1];
    if (first.owner != kFree || second.owner != kFree) continue;
    if (first.since == second.since || std::max(first.since, second.since) <= horizon) {
      first.size += second.size;
      first.since = std::max(first.since, second.since);
      segments.erase(segments.begin() + left + 1);
    }
  }
}

void TileMemory::hand_over(std::int64_t address, int owner, std::int64_t size, std::int64_t since) {
  const std::size_t place = index(address);
  segments[place].owner = owner;
  const std::int64_t rest = segments[place].size - size;
  if (rest <= 0) return;
  segments[place].size = size;
  segments.insert(segments.begin() + place + 1, {address + size, rest, kFree, since});
  free_bytes += rest;
}

void TileMemory::settle(std::int64_t placeholder, std::int64_t since) {
  for (Segment& segment : segments)
    if (segment.owner == kFree && segment.since == placeholder) segment.since = since;
}

std::vector<std::pair<std::int64_t, std::int64_t>> TileMemory::gaps() const {
  std::vector<std::pair<std::int64_t, std::int64_t>> found;
  for (const Segment& segment : segments) {
    if (segment.owner != kFree) continue;
    if (!found.empty() && found.back().second == segment.address)
      found.back().second = segment.end();
    else
      found.emplace_back(segment.address, segment.end());
  }
  return found;
}

std::int64_t TileMemory::largest_free() const {
  std::int64_t best = 0;
  for (const auto& [first, end] : gaps()) best = std::max(best, end - first);
  return best;
}

std::size_t TileMemory::index(std::int64_t address) const {
  auto after = std::upper_bound(segments.begin(), segments.end(), address,
                                [](std::int64_t value, const Segment& segment) { return value < segment.address; });
  if (after == segments.begin()) throw std::out_of_range("an address outside of the memory");
  return static_cast<std::size_t>(after - segments.begin()) - 1;
}

}  // namespace tilewright::vpu
