#include "machine.hpp"

#include <algorithm>
#include <stdexcept>

namespace tilewright::coral {

const char* fault_name(FaultKind kind) {
  static const char* names[] = {
      "none",           "fetch_bounds", "load_bounds", "store_bounds",     "illegal",     "misaligned_fetch",
      "ecall",          "ebreak",       "wfi",         "max_instructions", "stack_range", "uninitialised_read",
      "readonly_write", "fused_hazard"};
  return names[static_cast<int>(kind)];
}

namespace {
int cause_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::misaligned_fetch:
      return 0;
    case FaultKind::fetch_bounds:
      return 1;
    case FaultKind::illegal:
      return 2;
    case FaultKind::load_bounds:
      return 5;
    case FaultKind::store_bounds:
      return 7;
    case FaultKind::ecall:
      return 11;
    default:
      return -1;
  }
}
}  // namespace

Machine::Machine(std::vector<Region> regions, Options chosen) : options(chosen) {
  memory.regions = std::move(regions);
  for (Region& region : memory.regions) region.bytes.reserve(region.size);
  bytes_read.assign(memory.regions.size(), 0);
  bytes_written.assign(memory.regions.size(), 0);
  written_.assign(memory.data().size, 0);
  decode_words(0);
}

void Machine::decode_words(uint32_t end) {
  Region& region = memory.code();
  const uint32_t words = std::max<uint32_t>((end + 3) / 4, code.empty() ? 0 : code.size() - 1);
  code.resize(words + 1);
  for (uint32_t k = 0; k < words; ++k) {
    uint32_t word;
    std::memcpy(&word, &region.bytes[4 * k], 4);
    const uint64_t count = code[k].count;
    code[k] = decode(word, options.features);
    code[k].count = count;
  }
  prepared_ = false;
  Decoded end_mark;
  end_mark.type = Class::system;
  end_mark.operation = words * 4 < region.size ? Operation::illegal : Operation::fetch_end;
  code[words] = end_mark;
}

void Machine::write(uint32_t address, const uint8_t* bytes, size_t count) {
  for (size_t done = 0; done < count;) {
    Region* region = memory.find(address + static_cast<uint32_t>(done));
    if (!region) throw std::out_of_range("address outside of the memory map");
    const uint32_t offset = address + static_cast<uint32_t>(done) - region->base;
    const size_t part = std::min<size_t>(count - done, region->size - offset);
    std::memcpy(&region->bytes[offset], bytes + done, part);
    if (region == &memory.data()) std::fill_n(written_.begin() + offset, part, uint8_t{1});
    if (region == &memory.code()) decode_words(static_cast<uint32_t>(offset + part));
    done += part;
  }
}

void Machine::read(uint32_t address, uint8_t* bytes, size_t count) {
  for (size_t done = 0; done < count;) {
    Region* region = memory.find(address + static_cast<uint32_t>(done));
    if (!region) throw std::out_of_range("address outside of the memory map");
    const uint32_t offset = address + static_cast<uint32_t>(done) - region->base;
    const size_t part = std::min<size_t>(count - done, region->size - offset);
    std::memcpy(bytes + done, &region->bytes[offset], part);
    done += part;
  }
}

void Machine::set_stack(uint32_t bottom, uint32_t top, uint32_t main) {
  has_stack = true;
  stack_bottom = bottom;
  stack_top = top;
  stack_low = top;
  main_address = main;
}

bool Machine::trap(FaultKind kind, uint32_t at, uint32_t value) {
  const int cause = cause_of(kind);
  if (options.vector_traps && cause >= 0 && ++trap_count) {
    mepc = at;
    mcause = static_cast<uint32_t>(cause);
    mtval = value;
    const uint32_t enabled = mstatus >> 3 & 1;
    mstatus = (mstatus & ~0x1888u) | enabled << 7 | 0x1800;
    note_jump(at, mtvec & ~3u);
    pc = mtvec & ~3u;
    return true;
  }
  fault = {kind, at, value};
  return false;
}

bool Machine::load_slow(uint32_t address, uint32_t count, uint32_t& result) {
  if (!memory.accessible(address, count, false)) return false;
  result = 0;
  scalar_slow_read += count;
  for (uint32_t k = 0; k < count; ++k) {
    Region* region = memory.find(address + k);
    result |= static_cast<uint32_t>(region->bytes[address + k - region->base]) << 8 * k;
    ++bytes_read[static_cast<size_t>(region - memory.regions.data())];
    untimed |= !region->timed;
  }
  return true;
}

bool Machine::store_slow(uint32_t address, uint32_t count, uint32_t value) {
  if (!memory.accessible(address, count, true)) return false;
  scalar_slow_written += count;
  for (uint32_t k = 0; k < count; ++k) {
    Region* region = memory.find(address + k);
    region->bytes[address + k - region->base] = static_cast<uint8_t>(value >> 8 * k);
    ++bytes_written[static_cast<size_t>(region - memory.regions.data())];
    untimed |= !region->timed;
  }
  mark_written(address, count);
  return true;
}

void Machine::mark_written(uint32_t address, uint32_t count) {
  for (uint32_t k = 0; k < count; ++k) {
    const uint32_t offset = address + k - memory.data().base;
    if (offset < memory.data().size) written_[offset] = 1;
  }
}

bool Machine::check_read(uint32_t address, uint32_t count) {
  if (!options.check_uninitialised) return true;
  for (uint32_t k = 0; k < count; ++k) {
    const uint32_t offset = address + k - memory.data().base;
    if (offset < memory.data().size && !written_[offset]) {
      fault = {FaultKind::uninitialised_read, pc, address + k};
      return false;
    }
  }
  return true;
}

bool Machine::check_write(uint32_t address, uint32_t count) {
  if (options.check_readonly)
    for (const auto& [begin, end] : readonly_)
      if (address < end && address + count > begin) {
        fault = {FaultKind::readonly_write, pc, address};
        return false;
      }
  if (options.check_uninitialised) mark_written(address, count);
  return true;
}

// Erratum E1: a fused operation does not wait for its second source. It reads a stale register when
// that register's load is among the last few instructions.
bool Machine::check_fused(const Decoded& d) {
  if (!options.check_fused_hazard) return true;
  const bool fused = d.operation >= Operation::fmadd && d.operation <= Operation::fnmadd;
  if (fused && recent_float_load_[d.rs2]) {
    fault = {FaultKind::fused_hazard, pc, d.word};
    return false;
  }
  for (uint8_t& age : recent_float_load_) age -= age > 0;
  const uint32_t opcode = d.word & 0x7f;
  const bool writes = d.operation == Operation::flw || (opcode >= 0x43 && opcode <= 0x4f) ||
                      (opcode == 0x53 && d.type != Class::float_to_integer);
  if (writes) recent_float_load_[d.rd & 31] = 8;
  return true;
}

void Machine::forget_written() { std::fill(written_.begin(), written_.end(), uint8_t{0}); }

bool Machine::read_csr(uint32_t number, uint32_t& result) {
  const uint64_t cycle = (options.timing ? timing.counter_cycle(pc) : instructions) + mcycle_offset;
  const uint64_t count = instructions + minstret_offset;
  switch (number) {
    case 0x001:
      result = fflags;
      return true;
    case 0x002:
      result = frm;
      return true;
    case 0x003:
      result = frm << 5 | fflags;
      return true;
    case 0x300:
      result = mstatus;
      return true;
    case 0x301:
      result = 0x40001120 | (options.features.vector ? 1u << 21 : 0);
      return true;
    case 0x304:
      result = mie;
      return true;
    case 0x305:
      result = mtvec;
      return true;
    case 0x340:
      result = mscratch;
      return true;
    case 0x341:
      result = mepc;
      return true;
    case 0x342:
      result = mcause;
      return true;
    case 0x343:
      result = mtval;
      return true;
    case 0xb00:
      result = static_cast<uint32_t>(cycle);
      return true;
    case 0xb80:
      result = static_cast<uint32_t>(cycle >> 32);
      return true;
    case 0xb02:
      result = static_cast<uint32_t>(count);
      return true;
    case 0xb82:
      result = static_cast<uint32_t>(count >> 32);
      return true;
    case 0x7e0:
      result = vendor[8];
      return true;
    case 0x7e1:
      result = vendor[9];
      return true;
    case 0xfc0:
      result = 0;
      return true;
    default:
      break;
  }
  if (number >= 0x7c0 && number <= 0x7c7) return result = vendor[number - 0x7c0], true;
  if (!options.features.vector) return false;
  switch (number) {
    case 0x008:
      result = 0;
      return true;  // vstart
    case 0x009:
      result = vxsat;
      return true;
    case 0x00a:
      result = vxrm;
      return true;
    case 0x00f:
      result = vxrm << 1 | vxsat;
      return true;
    case 0xc20:
      result = vl;
      return true;
    case 0xc21:
      result = vtype;
      return true;
    case 0xc22:
      result = kVectorBytes;
      return true;
    default:
      return false;
  }
}

bool Machine::write_csr(uint32_t number, uint32_t value) {
  if ((number >> 10) == 3) return false;  // read-only by its number
  const auto replace = [value](int64_t& offset, uint64_t now, bool high) {
    const uint64_t shown = now + static_cast<uint64_t>(offset);
    const uint64_t wanted =
        high ? (shown & 0xffffffff) | static_cast<uint64_t>(value) << 32 : (shown & 0xffffffff00000000) | value;
    offset = static_cast<int64_t>(wanted - now);
  };
  const uint64_t cycle = options.timing ? timing.counter_cycle(pc) : instructions;
  switch (number) {
    case 0x001:
      fflags = value & 31;
      return true;
    case 0x002:
      frm = value & 7;
      return true;
    case 0x003:
      frm = value >> 5 & 7, fflags = value & 31;
      return true;
    case 0x300:
      mstatus = value;
      return true;
    case 0x301:
      return true;
    case 0x304:
      mie = value;
      return true;
    case 0x305:
      mtvec = value & ~3u;
      return true;
    case 0x340:
      mscratch = value;
      return true;
    case 0x341:
      mepc = value & ~3u;
      return true;
    case 0x342:
      mcause = value;
      return true;
    case 0x343:
      mtval = value;
      return true;
    // The write itself retires after what it sets: it does not count.
    case 0xb00:
      replace(mcycle_offset, cycle + 1, false);
      return true;
    case 0xb80:
      replace(mcycle_offset, cycle + 1, true);
      return true;
    case 0xb02:
      replace(minstret_offset, instructions + 1, false);
      return true;
    case 0xb82:
      replace(minstret_offset, instructions + 1, true);
      return true;
    case 0x7e0:
      vendor[8] = value;
      return true;
    case 0x7e1:
      vendor[9] = value;
      return true;
    default:
      break;
  }
  if (number >= 0x7c0 && number <= 0x7c7) return vendor[number - 0x7c0] = value, true;
  if (!options.features.vector) return false;
  switch (number) {
    case 0x008:
      return true;  // vstart is always 0
    case 0x009:
      vxsat = value & 1;
      return true;
    case 0x00a:
      vxrm = value & 3;
      return true;
    case 0x00f:
      vxrm = value >> 1 & 3, vxsat = value & 1;
      return true;
    default:
      return false;
  }
}

void Machine::set_vector_type(const Decoded& d) {
  const uint32_t w = d.word;
  uint32_t wanted, length = 0;
  bool keep = false;
  if (d.operation == Operation::vsetivli) {
    wanted = w >> 20 & 0x3ff;
    length = d.rs1;
  } else {
    wanted = d.operation == Operation::vsetvli ? w >> 20 & 0x7ff : x[d.rs2];
    if (d.rs1 != 0) {
      length = x[d.rs1];
    } else if ((w >> 7 & 31) != 0) {
      length = 0xffffffff;
    } else {
      keep = true;
    }
  }
  const uint32_t width = wanted >> 3 & 7;
  const int field = wanted & 7;
  const int log = field >= 4 ? field - 8 : field;
  // LMUL >= SEW / ELEN with ELEN 32.
  const bool legal = !(wanted >> 8) && width <= 2 && field != 4 && log >= static_cast<int>(width) - 2;
  if (!legal) {
    vtype = kVill;
    vl = 0;
  } else {
    vtype = wanted;
    const uint32_t base = kVectorBytes >> width;
    const uint32_t most = log >= 0 ? base << log : base >> -log;
    vl = std::min(keep ? vl : length, most);
  }
  x[d.rd] = vl;
}

}  // namespace tilewright::coral
