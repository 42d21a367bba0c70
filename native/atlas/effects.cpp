// What scalar, memory and DMA instructions do to the state; tensor.cpp has the others.
#include <string>
#include <type_traits>

#include "machine.hpp"
#include "text.hpp"

namespace atlas {
namespace {

using UnsignedWide = unsigned __int128;

// Scalars are 32-bit patterns; in compat mode 128-bit two's complement.
template <bool Compat>
using Pattern = std::conditional_t<Compat, UnsignedWide, uint32_t>;
template <bool Compat>
using Signed = std::conditional_t<Compat, Wide, int32_t>;

template <bool Compat>
inline Pattern<Compat> get(const Registers& r, int number) {
  if constexpr (Compat)
    return static_cast<UnsignedWide>(r.wide[number]);
  else
    return r.x[number];
}

template <bool Compat>
inline void put(Registers& r, int number, Pattern<Compat> value) {
  if constexpr (Compat) {
    if (number) r.wide[number] = static_cast<Wide>(value);
  } else {
    r.x[number] = number ? value : 0;
  }
}

template <bool Compat>
inline bool less_unsigned(Pattern<Compat> a, Pattern<Compat> b) {
  if constexpr (Compat)
    return static_cast<uint64_t>(a) < static_cast<uint64_t>(b);
  else
    return a < b;
}

template <bool Compat>
inline bool less_signed(Pattern<Compat> a, Pattern<Compat> b) {
  return static_cast<Signed<Compat>>(a) < static_cast<Signed<Compat>>(b);
}

template <bool Compat>
inline Pattern<Compat> extend(int64_t value) {
  return static_cast<Pattern<Compat>>(static_cast<Signed<Compat>>(value));
}

inline int32_t sign_extend(int32_t value, int bits) {
  const uint32_t shift = 32 - bits;
  return static_cast<int32_t>(static_cast<uint32_t>(value) << shift) >> shift;
}

// The amount is 0 to 31, and up to 127 where it is unbounded.
template <bool Compat>
inline Pattern<Compat> shift_right_signed(Pattern<Compat> value, int amount, bool unbounded) {
  if constexpr (Compat) {
    if (unbounded) return static_cast<UnsignedWide>(static_cast<Wide>(value) >> amount);
    return static_cast<uint32_t>(static_cast<int32_t>(static_cast<uint32_t>(value)) >> amount);
  } else {
    return static_cast<uint32_t>(static_cast<int32_t>(value) >> amount);
  }
}

// A sum, difference or left shift as 128 bits; false if it has more of them.
inline bool fits_sum(Wide a, Wide b, Wide& sum) { return !__builtin_add_overflow(a, b, &sum); }
inline bool fits_difference(Wide a, Wide b, Wide& rest) { return !__builtin_sub_overflow(a, b, &rest); }
inline bool fits_shift(Wide value, Wide amount, Wide& shifted) {
  shifted = 0;
  if (value == 0) return true;
  if (amount > 127) return false;
  shifted = static_cast<Wide>(static_cast<UnsignedWide>(value) << static_cast<int>(amount));
  return shifted >> static_cast<int>(amount) == value;
}

template <bool Compat>
inline Pattern<Compat> shift_right(Pattern<Compat> value, int amount) {
  // The public model's integers have no highest bit, so a negative one stays negative.
  if constexpr (Compat)
    return static_cast<UnsignedWide>(static_cast<Wide>(value) >> amount);
  else
    return value >> amount;
}

}  // namespace

template <bool Compat>
bool Machine::execute(const Instruction& op, int32_t index, int64_t tick, bool& dropped) {
  Registers& r = *registers;
  const auto x = [&](int number) { return get<Compat>(r, number); };
  const auto set = [&](Pattern<Compat> value) { put<Compat>(r, op.a, value); };
  const auto immediate = [&] { return extend<Compat>(sign_extend(op.imm, 12)); };
  const Accidents& quirks = settings.accidents;
  // In compat mode: the result of an operation that can outgrow 128 bits.
  [[maybe_unused]] Wide wide = 0;
  const auto bounded = [&](bool fits) {
    if (!fits && op.a)
      return fault(index, tick, FaultKind::illegal, dropped,
                   rows[op.row].mnemonic + " has a result of more than 128 bits");
    set(static_cast<Pattern<Compat>>(wide));
    return true;
  };
  // The public model shifts by all of a register, and rejects negative amounts.
  const auto rejects = [&](Wide amount) {
    return fault(index, tick, FaultKind::illegal, dropped,
                 rows[op.row].mnemonic + " by " + decimal(amount) + ": the public model rejects it");
  };
  if constexpr (Compat) {
    const auto value = [&](int number) { return registers->wide[number]; };
    switch (op.effect) {
      case Effect::addi:
        return bounded(fits_sum(value(op.b), sign_extend(op.imm, 12), wide));
      case Effect::add:
        return bounded(fits_sum(value(op.b), value(op.c), wide));
      case Effect::sub:
        return bounded(fits_difference(value(op.b), value(op.c), wide));
      case Effect::slli:
        return bounded(fits_shift(value(op.b), op.imm, wide));
      case Effect::sll:
      case Effect::srl:
      case Effect::sra: {
        if (op.effect == Effect::sra && !quirks.sra_unbounded) break;
        const Wide amount = value(op.c);
        if (amount < 0) return rejects(amount);
        if (op.effect == Effect::sll) return bounded(fits_shift(value(op.b), amount, wide));
        set(static_cast<UnsignedWide>(value(op.b) >> static_cast<int>(amount > 127 ? 127 : amount)));
        return true;
      }
      default:
        break;
    }
  }
  switch (op.effect) {
    case Effect::addi:
      set(x(op.b) + immediate());
      return true;
    case Effect::xori:
      set(x(op.b) ^ immediate());
      return true;
    case Effect::ori:
      set(x(op.b) | immediate());
      return true;
    case Effect::andi:
      set(x(op.b) & immediate());
      return true;
    case Effect::slti:
      set(less_signed<Compat>(x(op.b), immediate()));
      return true;
    case Effect::sltiu:
      set(less_unsigned<Compat>(x(op.b), immediate()));
      return true;
    case Effect::slli:
      set(x(op.b) << op.imm);
      return true;
    case Effect::srli:
      set(shift_right<Compat>(x(op.b), op.imm));
      return true;
    case Effect::srai:
      set(shift_right_signed<Compat>(x(op.b), op.imm, quirks.sra_unbounded));
      return true;
    case Effect::add:
      set(x(op.b) + x(op.c));
      return true;
    case Effect::sub:
      set(x(op.b) - x(op.c));
      return true;
    case Effect::xor_:
      set(x(op.b) ^ x(op.c));
      return true;
    case Effect::or_:
      set(x(op.b) | x(op.c));
      return true;
    case Effect::and_:
      set(x(op.b) & x(op.c));
      return true;
    case Effect::slt:
      set(less_signed<Compat>(x(op.b), x(op.c)));
      return true;
    case Effect::sltu:
      set(less_unsigned<Compat>(x(op.b), x(op.c)));
      return true;
    case Effect::sll:
      set(x(op.b) << static_cast<int>(x(op.c) & 31));
      return true;
    case Effect::srl:
      set(shift_right<Compat>(x(op.b), static_cast<int>(x(op.c) & 31)));
      return true;
    case Effect::sra:
      set(shift_right_signed<Compat>(x(op.b), static_cast<int>(x(op.c) & 31), quirks.sra_unbounded));
      return true;
    case Effect::lui:
      set(static_cast<Pattern<Compat>>(static_cast<uint64_t>(int64_t(op.imm)) << 12));
      return true;
    case Effect::auipc: {
      const int64_t base = Compat ? fetching() + quirks.auipc_from_fetch : index * step_;
      // The public model takes 32 bits of the immediate before it adds.
      const int64_t upper = static_cast<int64_t>(op.imm) * 4096;
      set(extend<Compat>((Compat ? upper & 0xFFFFFFFF : upper) + base));
      return true;
    }
    case Effect::beq:
      return x(op.b) != x(op.c) || redirect<Compat>(op, index, tick, dropped, op.imm);
    case Effect::bne:
      return x(op.b) == x(op.c) || redirect<Compat>(op, index, tick, dropped, op.imm);
    case Effect::blt:
      return !less_signed<Compat>(x(op.b), x(op.c)) || redirect<Compat>(op, index, tick, dropped, op.imm);
    case Effect::bge:
      return less_signed<Compat>(x(op.b), x(op.c)) || redirect<Compat>(op, index, tick, dropped, op.imm);
    case Effect::bltu:
      return !less_unsigned<Compat>(x(op.b), x(op.c)) || redirect<Compat>(op, index, tick, dropped, op.imm);
    case Effect::bgeu:
      return less_unsigned<Compat>(x(op.b), x(op.c)) || redirect<Compat>(op, index, tick, dropped, op.imm);
    case Effect::jal: {
      // The public model with byte addresses drops the top bit of the offset.
      const int32_t offset = Compat && step_ == 4 ? sign_extend(op.imm, 20) : op.imm;
      const int64_t link = Compat ? fetching() + quirks.link_from_fetch : index * step_ + step_;
      set(extend<Compat>(link));
      return redirect<Compat>(op, index, tick, dropped, offset);
    }
    case Effect::jalr: {
      Wide target = address<Compat>(op.b, sign_extend(op.imm, 12));
      if (Compat) target += quirks.jalr_offset;
      const int64_t link = Compat ? fetching() + quirks.link_from_fetch : index * step_ + step_;
      set(extend<Compat>(link));
      return redirect<Compat>(op, index, tick, dropped, target);
    }
    case Effect::seli:
      write_scale<Compat>(op.a, op.imm & 0xFF);
      return true;
    case Effect::csrrw:
    case Effect::csrrs:
    case Effect::csrrc:
    case Effect::csrrwi:
    case Effect::csrrsi:
    case Effect::csrrci: {
      const bool number = op.effect >= Effect::csrrwi;
      const auto value = number ? static_cast<Pattern<Compat>>(op.b) : x(op.b);
      const auto old = static_cast<Pattern<Compat>>(r.csr[op.imm]);
      const bool write = op.effect == Effect::csrrw || op.effect == Effect::csrrwi;
      const bool bits = op.effect == Effect::csrrs || op.effect == Effect::csrrsi;
      const Pattern<Compat> next = write ? value : bits ? old | value : old & ~value;
      r.csr[op.imm] = static_cast<Wide>(next);
      set(old);
      return true;
    }
    case Effect::ecall:
    case Effect::ebreak:
      if (settings.halts) progress.halting = true;
      return true;
    case Effect::delay:
    case Effect::fence:
    case Effect::dma_wait:
      return true;
    case Effect::lb:
    case Effect::lh:
    case Effect::lw:
    case Effect::lbu:
    case Effect::lhu:
    case Effect::seld:
    case Effect::sb:
    case Effect::sh:
    case Effect::sw:
    case Effect::vload:
    case Effect::vstore:
      return memory<Compat>(op, index, tick, dropped);
    case Effect::dma_load:
    case Effect::dma_store:
      return transfer<Compat>(op, index, tick, dropped);
    case Effect::dma_config:
      r.dma_base = static_cast<uint32_t>(x(op.b));
      return true;
    default:
      tensor(op);
      return true;
  }
}

// `target` is an offset of bytes from the instruction, or for jalr the address itself.
template <bool Compat>
bool Machine::redirect(const Instruction& op, int32_t index, int64_t tick, bool& dropped, Wide target) {
  if (op.effect != Effect::jalr) {
    const int64_t offset = static_cast<int64_t>(target);
    const int64_t steps = step_ == 4 ? offset : offset >> 2;
    const bool from_fetch = Compat && settings.accidents.branch_from_fetch;
    target = steps + (from_fetch ? fetching() - 2 * step_ : index * step_);
  }
  if (target < 0 || target % step_)
    return fault(index, tick, FaultKind::illegal, dropped,
                 "the target " + hexadecimal(target) + " is not an instruction address");
  const int64_t last_slot = fetching() + (settings.delay_slots - 2) * step_;
  if (progress.window[1] >= end_ || last_slot >= end_) {
    if (Compat) return true;  // silently lost
    return fault(index, tick, FaultKind::illegal, dropped, "fewer instructions follow than there are delay slots");
  }
  taken_ = true;
  target_ = target > kNever ? kNever : static_cast<int64_t>(target);
  return true;
}

template <bool Compat>
Wide Machine::address(int base, int64_t offset) const {
  if constexpr (Compat) {
    // The register plus a small offset, kept from wrapping around.
    const Wide value = registers->wide[base];
    const Wide limit = Wide(1) << 126;
    return (value > limit ? limit : value < -limit ? -limit : value) + offset;
  } else {
    return static_cast<uint32_t>(registers->x[base] + static_cast<uint32_t>(offset));
  }
}

// The public model drops the write when the x register of that number holds the value.
template <bool Compat>
void Machine::write_scale(int number, uint8_t value) {
  if (!(Compat && registers->wide[number] == value)) registers->e[number] = value;
}

template <bool Compat>
bool Machine::in_range(const SparseMemory& space, const char* name, Wide& start, Wide count, int64_t align,
                       int32_t index, int64_t tick, bool& dropped) {
  const auto access = [&] {
    return std::string(name) + " access of " + decimal(count) + " bytes at " + hexadecimal(start);
  };
  if (!Compat && (start % align || (align == 32 && count % align)))
    return fault(index, tick, FaultKind::misaligned, dropped,
                 access() + " is not a multiple of " + std::to_string(align));
  const Wide size = space.size();
  if (Compat && start < 0 && &space == &vmem) start += size;
  if (start < 0 || count < 0 || start > size || count > size || start + count > size)
    return fault(index, tick, FaultKind::bounds, dropped,
                 access() + " is outside its " + std::to_string(space.size()) + " bytes");
  return true;
}

template <bool Compat>
bool Machine::memory(const Instruction& op, int32_t index, int64_t tick, bool& dropped) {
  Registers& r = *registers;
  const bool tensors = op.flags & kTensorMemory;
  const bool store = op.effect == Effect::sb || op.effect == Effect::sh || op.effect == Effect::sw;
  uint32_t value = 0;
  if (store) {
    const uint32_t mask = op.size == 4 ? ~0u : (1u << (8 * op.size)) - 1;
    value = static_cast<uint32_t>(get<Compat>(r, op.c)) & mask;
    if (Compat && op.size > 1 && value >> (8 * op.size - 1))
      return fault(index, tick, FaultKind::illegal, dropped,
                   rows[op.row].mnemonic + " of " + hexadecimal(value) + ": the public model rejects it");
  }
  Wide start =
      tensors ? address<Compat>(op.b, 32 * int64_t(op.imm & 0xFFF)) : address<Compat>(op.b, sign_extend(op.imm, 12));
  if (!in_range<Compat>(vmem, "vmem", start, op.size, tensors ? 32 : op.size, index, tick, dropped)) return false;
  if (dropped) return true;
  const bool load = op.effect == Effect::lh || op.effect == Effect::lhu || op.effect == Effect::lw;
  if (Compat && load && settings.accidents.misaligned_load_faults && start % op.size)
    return fault(index, tick, FaultKind::misaligned, dropped,
                 rows[op.row].mnemonic + " at " + hexadecimal(start) + ": the public model rejects it");
  const uint64_t at = static_cast<uint64_t>(start);
  if (op.effect == Effect::vload) {
    vmem.read(at, r.m[op.a], op.size);
    return true;
  }
  if (op.effect == Effect::vstore) {
    vmem.write(at, r.m[op.a], op.size);
    return true;
  }
  uint8_t raw[4] = {};
  if (store) {
    for (int b = 0; b < op.size; ++b) raw[b] = static_cast<uint8_t>(value >> (8 * b));
    vmem.write(at, raw, op.size);
    return true;
  }
  vmem.read(at, raw, op.size);
  for (int b = 0; b < op.size; ++b) value |= uint32_t(raw[b]) << (8 * b);
  if (op.effect == Effect::seld)
    write_scale<Compat>(op.a, static_cast<uint8_t>(value));
  else if (op.effect == Effect::lb || op.effect == Effect::lh)
    put<Compat>(r, op.a, extend<Compat>(sign_extend(static_cast<int32_t>(value), 8 * op.size)));
  else
    put<Compat>(r, op.a, value);
  return true;
}

template <bool Compat>
bool Machine::transfer(const Instruction& op, int32_t index, int64_t tick, bool& dropped) {
  const bool load = op.effect == Effect::dma_load;
  const Wide count = address<Compat>(op.c, 0);
  const int64_t limit = settings.dma.max_bytes;
  if (limit && count > limit)
    return fault(index, tick, FaultKind::bounds, dropped,
                 "a transfer of " + decimal(count) + " bytes exceeds the " + std::to_string(limit) + " allowed");
  if (Compat && count == 0 && !load && settings.accidents.zero_byte_store_faults)
    return fault(index, tick, FaultKind::bounds, dropped, "the public model rejects a store of 0 bytes");
  Wide inside = address<Compat>(load ? op.a : op.b, 0);
  Wide outside = (Wide(registers->dma_base) << 32) + address<Compat>(load ? op.b : op.a, 0);
  if (!in_range<Compat>(vmem, "vmem", inside, count, 32, index, tick, dropped)) return false;
  if (dropped) return true;
  if (!in_range<Compat>(dram, "dram", outside, count, 32, index, tick, dropped)) return false;
  if (dropped) return true;
  uint8_t buffer[4096];
  uint64_t from = static_cast<uint64_t>(load ? outside : inside);
  uint64_t to = static_cast<uint64_t>(load ? inside : outside);
  for (uint64_t left = static_cast<uint64_t>(count); left > 0;) {
    const uint64_t n = std::min<uint64_t>(left, sizeof buffer);
    (load ? dram : vmem).read(from, buffer, n);
    (load ? vmem : dram).write(to, buffer, n);
    from += n, to += n, left -= n;
  }
  return true;
}

template bool Machine::execute<false>(const Instruction&, int32_t, int64_t, bool&);
template bool Machine::execute<true>(const Instruction&, int32_t, int64_t, bool&);
template Wide Machine::address<false>(int, int64_t) const;
template Wide Machine::address<true>(int, int64_t) const;

}  // namespace atlas
