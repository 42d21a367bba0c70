// Vector loads and stores. Every active element is checked before the first byte moves.
#include "vector.hpp"

namespace tilewright::coral {
namespace {

using O = Operation;

struct Element {
  uint32_t address, reg, index;
};

}  // namespace

bool Machine::vector_memory(const Decoded& d) {
  Vector v(*this, d);
  const uint32_t w = d.word;
  const bool is_store = d.type == Class::vector_store;
  const uint32_t field = w >> 12 & 7;
  uint32_t width = field == 0 ? 0 : field - 4;  // of the encoding: of data, or of an index
  uint32_t fields = (w >> 29) + 1;
  uint32_t count = vl;
  uint32_t bytes = 1u << width;
  int log = v.log;
  const bool whole = d.operation == O::vload_whole || d.operation == O::vstore_whole;
  const bool mask = d.operation == O::vload_mask || d.operation == O::vstore_mask;
  const bool indexed = d.operation == O::vload_indexed || d.operation == O::vstore_indexed;
  if (whole) {
    if (v.vd & (fields - 1)) return refuse();
    count = fields * kVectorBytes >> width;
    log = fields == 8 ? 3 : fields == 4 ? 2 : fields == 2 ? 1 : 0;
    fields = 1;
  } else if (vtype & kVill) {
    return refuse();
  } else if (mask) {
    count = (vl + 7) / 8;
    log = 0;
  } else if (indexed) {
    const int index_log = log + static_cast<int>(width) - static_cast<int>(v.width);
    if (index_log > 3 || index_log < -3 || !aligned(v.vs2, index_log)) return refuse();
    bytes = 1u << v.width;
    if (!is_store)
      for (uint32_t k = 0; k < fields; ++k) {
        const uint32_t to = v.vd + group_size(log) * k;
        if (width > v.width && to != v.vs2 && !separate(to, log, v.vs2, index_log)) return refuse();
        if (width < v.width && !separate(to, log, v.vs2, index_log)) return refuse();
        if (fields >= 2 && overlap(to, group_size(log), v.vs2, group_size(index_log))) return refuse();
      }
  } else {
    log += static_cast<int>(width) - static_cast<int>(v.width);
    if (log > 3 || log < -3) return refuse();
  }
  if (!whole && !mask) {
    if (!aligned(v.vd, log) || fields * group_size(log) > 8 || v.vd + fields * group_size(log) > 32) return refuse();
    if (!is_store && !v.mask_ok()) return refuse();
  }

  const uint32_t base = x[v.vs1], per_register = kVectorBytes / bytes;
  const bool strided = d.operation == O::vload_strided || d.operation == O::vstore_strided;
  const uint32_t stride = strided ? x[v.vs2] : fields * bytes;
  const auto address_of = [&](uint32_t i) {
    if (!indexed) return base + i * stride;
    const uint32_t index = width == 0   ? v.get<uint8_t>(v.vs2, i)
                           : width == 1 ? v.get<uint16_t>(v.vs2, i)
                                        : v.get<uint32_t>(v.vs2, i);
    return base + index;
  };

  // What the cycle model wants to know: 16-byte lines per register.
  access.registers = 0;
  if (options.timing)
    for (uint32_t k = 0; k < fields; ++k)
      for (uint32_t begin = 0; begin < count; begin += per_register) {
        uint32_t lines = 0, last = 0;
        std::array<uint32_t, 32> seen{};
        for (uint32_t i = begin; i < std::min(count, begin + per_register); ++i) {
          const uint32_t address = address_of(i) + k * bytes;
          for (uint32_t line = address >> 4; line <= (address + bytes - 1) >> 4; ++line) {
            if (lines && last == line) continue;
            last = line;
            if (std::find(seen.begin(), seen.begin() + lines, line) == seen.begin() + lines) seen[lines++] = line;
          }
        }
        access.lines[access.registers++] = lines;
      }

  const uint32_t group = group_size(log);
  const Region& data = memory.data();
  const bool unit = !indexed && !strided && fields == 1 && (!v.masked || whole || mask);
  const uint32_t total = count * bytes;
  if (unit && total && data.holds(base, total)) {
    // The common case: one stretch of data memory.
    uint8_t* place = &memory.data().bytes[base - data.base];
    if (is_store) {
      if (!check_write(base, total)) return false;
      std::memcpy(place, &this->v[v.vd * kVectorBytes], total);
      bytes_written[1] += total;
    } else {
      if (!check_read(base, total)) return false;
      std::memcpy(&this->v[v.vd * kVectorBytes], place, total);
      bytes_read[1] += total;
    }
  } else {
    for (uint32_t i = 0; i < count; ++i) {
      if (!whole && !mask && !v.active(i)) continue;
      for (uint32_t k = 0; k < fields; ++k) {
        const uint32_t address = address_of(i) + k * bytes;
        if (memory.accessible(address, bytes, is_store)) continue;
        if (d.operation == O::vload_first && i > 0) {
          count = vl = i;
          break;
        }
        trap_kind = is_store ? FaultKind::store_bounds : FaultKind::load_bounds;
        trap_value = address;
        return false;
      }
    }
    const auto elements = [&](auto visit) {
      for (uint32_t i = 0; i < count; ++i)
        for (uint32_t k = 0; k < fields; ++k)
          if (whole || mask || v.active(i)) {
            if (!visit(Element{address_of(i) + k * bytes, v.vd + k * group, i})) return false;
          }
      return true;
    };
    if (options.check_uninitialised || options.check_readonly) {
      const bool fine =
          elements([&](Element e) { return is_store ? check_write(e.address, bytes) : check_read(e.address, bytes); });
      if (!fine) return false;
    }
    // An indexed load may overwrite its own indices.
    std::array<uint32_t, 128 * 1> addresses;
    for (uint32_t i = 0; i < count && i < addresses.size(); ++i) addresses[i] = address_of(i);
    for (uint32_t i = 0; i < count; ++i) {
      if (!whole && !mask && !v.active(i)) continue;
      for (uint32_t k = 0; k < fields; ++k) {
        const uint32_t address = addresses[i] + k * bytes, reg = v.vd + k * group;
        for (uint32_t b = 0; b < bytes; ++b) {
          Region* region = memory.find(address + b);
          uint8_t& in_register = this->v[reg * kVectorBytes + i * bytes + b];
          uint8_t& in_memory = region->bytes[address + b - region->base];
          const size_t which = static_cast<size_t>(region - memory.regions.data());
          untimed |= !region->timed;
          if (is_store) {
            in_memory = in_register;
            ++bytes_written[which];
          } else {
            in_register = in_memory;
            ++bytes_read[which];
          }
        }
      }
    }
  }

  if (!is_store && options.agnostic_ones && !whole) {
    for (uint32_t k = 0; k < fields; ++k) {
      const uint32_t reg = v.vd + k * group;
      if (v.masked && mask_agnostic() && !mask)
        for (uint32_t i = 0; i < count; ++i)
          if (!mask_bit(i)) std::memset(&this->v[reg * kVectorBytes + i * bytes], 0xff, bytes);
      if (tail_agnostic() || mask)
        std::memset(&this->v[reg * kVectorBytes + count * bytes], 0xff, group * kVectorBytes - count * bytes);
    }
  }
  return true;
}

}  // namespace tilewright::coral
