// Memory that exists only where something was written. The rest reads as the initial pattern.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

namespace atlas {

enum class Initial : uint8_t { zero, poison, random };

struct Fill {
  Initial initial = Initial::zero;
  uint64_t seed = 0;

  // Eight random bytes per (seed, space, group), so any part can be made without the rest.
  static uint64_t splitmix(uint64_t z) {
    z += 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }

  // Bytes start..start+count of the initial contents of a space.
  void bytes(uint64_t space, uint64_t start, uint8_t* to, uint64_t count) const {
    if (initial != Initial::random) {
      std::memset(to, initial == Initial::poison ? 0xFF : 0, count);
      return;
    }
    for (uint64_t done = 0; done < count;) {
      const uint64_t at = start + done, group = at / 8, offset = at % 8;
      const uint64_t value = splitmix(seed ^ (space << 56) ^ group);
      const uint64_t n = std::min<uint64_t>(8 - offset, count - done);
      uint8_t raw[8];
      for (int b = 0; b < 8; ++b) raw[b] = static_cast<uint8_t>(value >> (8 * b));
      std::memcpy(to + done, raw + offset, n);
      done += n;
    }
  }
};

class SparseMemory {
 public:
  static constexpr uint64_t kPageBits = 16, kPage = 1ull << kPageBits;

  void reset(uint64_t size, uint64_t space, Fill fill) {
    size_ = size;
    space_ = space;
    fill_ = fill;
    chunks_.clear();
    chunks_.resize((size + (kPage << kChunkBits) - 1) >> (kPageBits + kChunkBits));
  }

  uint64_t size() const { return size_; }

  // Callers have checked start + count <= size.
  void read(uint64_t start, uint8_t* to, uint64_t count) const {
    while (count > 0) {
      const uint64_t offset = start & (kPage - 1);
      const uint64_t n = std::min(count, kPage - offset);
      if (const Page* page = find(start >> kPageBits))
        std::memcpy(to, page->data() + offset, n);
      else
        fill_.bytes(space_, start, to, n);
      start += n, to += n, count -= n;
    }
  }

  void write(uint64_t start, const uint8_t* from, uint64_t count) {
    while (count > 0) {
      const uint64_t offset = start & (kPage - 1);
      const uint64_t n = std::min(count, kPage - offset);
      std::memcpy(own(start >> kPageBits)->data() + offset, from, n);
      start += n, from += n, count -= n;
    }
  }

  // Whether both have the same size and the same content where nothing was written.
  bool comparable(const SparseMemory& other) const {
    return size_ == other.size_ && space_ == other.space_ && fill_.initial == other.fill_.initial &&
           fill_.seed == other.fill_.seed;
  }

  // Calls each(start, end) for pages that may differ from those of a comparable memory, in order.
  template <typename Each>
  void each_page_unlike(const SparseMemory& other, Each each) const {
    for (uint64_t chunk = 0; chunk < chunks_.size(); ++chunk) {
      if (chunks_[chunk] == other.chunks_[chunk]) continue;
      for (uint64_t place = 0; place < 1ull << kChunkBits; ++place) {
        const uint64_t number = (chunk << kChunkBits) + place, start = number << kPageBits;
        if (start < size_ && find(number) != other.find(number)) each(start, std::min(start + kPage, size_));
      }
    }
  }

  uint64_t resident() const {
    uint64_t pages = 0;
    for (const auto& chunk : chunks_)
      if (chunk)
        for (const auto& page : *chunk) pages += page != nullptr;
    return pages * kPage;
  }

 private:
  // Snapshots share pages; a page with another owner is copied before it is written.
  static constexpr uint64_t kChunkBits = 10;
  using Page = std::array<uint8_t, kPage>;
  using Chunk = std::array<std::shared_ptr<Page>, 1ull << kChunkBits>;

  const Page* find(uint64_t number) const {
    const auto& chunk = chunks_[number >> kChunkBits];
    return chunk ? (*chunk)[number & ((1ull << kChunkBits) - 1)].get() : nullptr;
  }

  Page* own(uint64_t number) {
    auto& chunk = chunks_[number >> kChunkBits];
    if (!chunk)
      chunk = std::make_shared<Chunk>();
    else if (chunk.use_count() > 1)
      chunk = std::make_shared<Chunk>(*chunk);
    auto& page = (*chunk)[number & ((1ull << kChunkBits) - 1)];
    if (!page) {
      page = std::make_shared<Page>();
      fill_.bytes(space_, number << kPageBits, page->data(), kPage);
    } else if (page.use_count() > 1) {
      page = std::make_shared<Page>(*page);
    }
    return page.get();
  }

  uint64_t size_ = 0, space_ = 0;
  Fill fill_;
  std::vector<std::shared_ptr<Chunk>> chunks_;
};

}  // namespace atlas
