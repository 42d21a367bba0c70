// The memories of the core: what may be fetched, loaded and stored, to the byte.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

namespace tilewright::coral {

// Zeros that take memory and time only where they are touched: a machine may have 128 MiB of DDR, and
// most programs use none of it.
class Zeros {
 public:
  void reserve(size_t size) {
    bytes_.reset(static_cast<uint8_t*>(std::calloc(size, 1)));
    if (!bytes_) throw std::bad_alloc();
  }
  uint8_t* data() { return bytes_.get(); }
  uint8_t& operator[](size_t at) { return bytes_.get()[at]; }

 private:
  struct Free {
    void operator()(uint8_t* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<uint8_t, Free> bytes_;
};

struct Region {
  std::string name;
  uint32_t base = 0, size = 0;
  bool writable = false;
  bool timed = true;
  Zeros bytes;

  bool holds(uint32_t address, uint32_t count) const {
    const uint32_t offset = address - base;
    return offset < size && count <= size - offset;
  }
};

// Regions in the order instruction memory, data memory, others. Addresses of different regions may
// touch (ITCM and DTCM of the high-memory map do), so an access may span two.
class Memory {
 public:
  std::vector<Region> regions;

  Region& code() { return regions[0]; }
  Region& data() { return regions[1]; }
  const Region& data() const { return regions[1]; }

  Region* find(uint32_t address) {
    for (Region& region : regions)
      if (region.holds(address, 1)) return &region;
    return nullptr;
  }

  // The byte at an address, or null where there is none (or none to write).
  uint8_t* byte(uint32_t address, bool write) {
    Region* region = find(address);
    if (!region || (write && !region->writable)) return nullptr;
    return &region->bytes[address - region->base];
  }

  bool accessible(uint32_t address, uint32_t count, bool write) {
    for (uint32_t k = 0; k < count; ++k)
      if (address + k < address || !byte(address + k, write)) return false;
    return true;
  }
};

}  // namespace tilewright::coral
