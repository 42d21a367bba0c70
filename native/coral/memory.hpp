// The memories of the core: what may be fetched, loaded and stored, to the byte.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace tilewright::coral {

struct Region {
  std::string name;
  uint32_t base = 0, size = 0;
  bool writable = false;
  bool timed = true;
  std::vector<uint8_t> bytes;

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
