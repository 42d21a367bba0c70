// The CMX of one tile while a schedule is being built: segments in order of address.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace tilewright::vpu {

inline constexpr int kFree = -1;

struct Segment {
  std::int64_t address, size;
  int owner;  // or kFree
  std::int64_t since;

  std::int64_t end() const { return address + size; }
};

// A place for a buffer: when it can be used, and whose data has to go first.
struct Window {
  std::int64_t address, available;
  std::vector<int> victims;
  double cost;
};

enum class Fit { earliest, best, first };

class TileMemory {
 public:
  // When a buffer's space would be free and at what cost; nothing if it has to stay.
  using Victim = std::function<std::optional<std::pair<std::int64_t, double>>(int)>;

  explicit TileMemory(std::int64_t capacity);

  std::optional<Window> find(std::int64_t size, std::int64_t align, std::int64_t ready, Fit fit, bool downwards,
                             const Victim* victim) const;
  void take(int owner, std::int64_t address, std::int64_t size);
  void release(std::int64_t address, std::int64_t since, std::int64_t horizon);
  void hand_over(std::int64_t address, int owner, std::int64_t size, std::int64_t since);
  void settle(std::int64_t placeholder, std::int64_t since);
  std::vector<std::pair<std::int64_t, std::int64_t>> gaps() const;  // (first, end) of free bytes, joined
  std::int64_t largest_free() const;

  std::int64_t capacity, free_bytes;
  std::vector<Segment> segments;

 private:
  std::size_t index(std::int64_t address) const;
};

}  // namespace tilewright::vpu
