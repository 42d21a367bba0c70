// What the files of the vector unit share: element access, legality of register groups, masks.
#pragma once
#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "machine.hpp"

namespace tilewright::coral {

inline uint32_t group_size(int log) { return log <= 0 ? 1 : 1u << log; }
inline bool aligned(uint32_t reg, int log) { return (reg & (group_size(log) - 1)) == 0; }
inline bool overlap(uint32_t a, uint32_t a_size, uint32_t b, uint32_t b_size) {
  return a < b + b_size && b < a + a_size;
}

// A destination may share registers with a source of another element width only in part: a wider
// destination in the highest-numbered registers, and only if the source fills whole registers.
inline bool separate(uint32_t to, int to_log, uint32_t from, int from_log) {
  const uint32_t to_size = group_size(to_log), from_size = group_size(from_log);
  if (to_size > from_size && to < from && from_log >= 0 && overlap(to, to_size, from, from_size) &&
      !overlap(to, to_size, from + from_size, from_size))
    return true;
  return !overlap(to, to_size, from, from_size);
}

// The fields of a vector instruction and the machine's setting, with the checks of the reserved encodings.
struct Vector {
  Machine& m;
  const uint32_t vd, vs1, vs2;
  const bool masked;
  const uint32_t kind, vl;
  const int log;         // of LMUL
  const uint32_t width;  // 0, 1, 2 for 8, 16, 32 bits

  Vector(Machine& machine, const Decoded& d)
      : m(machine),
        vd(d.word >> 7 & 31),
        vs1(d.word >> 15 & 31),
        vs2(d.word >> 20 & 31),
        masked(!(d.word >> 25 & 1)),
        kind(d.word >> 12 & 7),
        vl(machine.vl),
        log(machine.lmul_log()),
        width(machine.vtype >> 3 & 7) {}

  bool vector_operand() const { return kind == ivv || kind == mvv || kind == fvv; }
  bool mask_ok() const { return !masked || vd != 0; }
  bool same_width() const {
    return mask_ok() && aligned(vd, log) && aligned(vs2, log) && (!vector_operand() || aligned(vs1, log));
  }
  bool mask_result() const {
    const auto source = [&](uint32_t reg) { return aligned(reg, log) && (reg == vd || separate(vd, 0, reg, log)); };
    return source(vs2) && (!vector_operand() || source(vs1));
  }
  bool widening(bool wide_source) const {
    if (log > 2 || width > 1 || !mask_ok() || !aligned(vd, log + 1)) return false;
    if (vector_operand() && !(aligned(vs1, log) && separate(vd, log + 1, vs1, log))) return false;
    return wide_source ? aligned(vs2, log + 1) : aligned(vs2, log) && separate(vd, log + 1, vs2, log);
  }
  bool narrowing() const {
    if (log > 2 || width > 1 || !mask_ok() || !aligned(vd, log) || !aligned(vs2, log + 1)) return false;
    if (vd != vs2 && !separate(vd, log, vs2, log + 1)) return false;
    return !vector_operand() || aligned(vs1, log);
  }

  template <typename T>
  T get(uint32_t reg, uint32_t i) const {
    T value;
    std::memcpy(&value, &m.v[(reg * kVectorBytes + i * sizeof(T)) & 511], sizeof(T));
    return value;
  }
  template <typename T>
  void set(uint32_t reg, uint32_t i, T value) const {
    std::memcpy(&m.v[(reg * kVectorBytes + i * sizeof(T)) & 511], &value, sizeof(T));
  }
  bool active(uint32_t i) const { return !masked || m.mask_bit(i); }
  bool bit(uint32_t reg, uint32_t i) const { return m.v[reg * kVectorBytes + (i >> 3)] >> (i & 7) & 1; }

  // The second operand: a register, a scalar or an immediate.
  template <typename T>
  T operand(uint32_t i, T scalar) const {
    return vector_operand() ? get<T>(vs1, i) : scalar;
  }
  template <typename T>
  T scalar() const {
    if (kind == ivi) return static_cast<T>(static_cast<int32_t>(vs1 << 27) >> 27);
    return static_cast<T>(m.x[vs1]);
  }

  // Every element of the destination: active ones from `value`, others as the policy says.
  template <typename T, typename Function>
  void each(Function value) const {
    const bool ones = m.options.agnostic_ones;
    for (uint32_t i = 0; i < vl; ++i) {
      if (active(i)) {
        set<T>(vd, i, value(i));
      } else if (ones && m.mask_agnostic()) {
        set<T>(vd, i, static_cast<T>(~T{0}));
      }
    }
    const int log_of_result = log +
                              static_cast<int>(sizeof(T) == 1   ? 0
                                               : sizeof(T) == 2 ? 1
                                                                : 2) -
                              static_cast<int>(width);
    tail<T>(vl, log_of_result);
  }
  template <typename T>
  void tail(uint32_t from, int log_of_result) const {
    if (!m.options.agnostic_ones || !m.tail_agnostic()) return;
    const uint32_t end = group_size(log_of_result) * kVectorBytes / sizeof(T);
    for (uint32_t i = from; i < end; ++i) set<T>(vd, i, static_cast<T>(~T{0}));
  }

  // A mask as destination; `value` of inactive elements is not asked.
  template <typename Function>
  void each_bit(bool use_mask, Function value) const {
    uint8_t result[kVectorBytes];
    std::memcpy(result, &m.v[vd * kVectorBytes], kVectorBytes);
    const bool ones = m.options.agnostic_ones;
    const auto put = [&](uint32_t i, bool b) {
      result[i >> 3] = static_cast<uint8_t>((result[i >> 3] & ~(1 << (i & 7))) | b << (i & 7));
    };
    for (uint32_t i = 0; i < vl; ++i) {
      if (!use_mask || active(i)) {
        put(i, value(i));
      } else if (ones && m.mask_agnostic()) {
        put(i, true);
      }
    }
    if (ones)
      for (uint32_t i = vl; i < 8 * kVectorBytes; ++i) put(i, true);
    std::memcpy(&m.v[vd * kVectorBytes], result, kVectorBytes);
  }
};

// Call with a value of the unsigned type of the element width.
template <typename Function>
auto by_width(uint32_t width, Function function) {
  switch (width) {
    case 0:
      return function(uint8_t{});
    case 1:
      return function(uint16_t{});
    default:
      return function(uint32_t{});
  }
}

}  // namespace tilewright::coral
