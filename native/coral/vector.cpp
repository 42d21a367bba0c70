// Integer arithmetic of the vector unit.
#include "vector.hpp"

namespace tilewright::coral {
namespace {

using O = Operation;

// Shift right with the rounding mode of fixed-point instructions.
template <typename T>
T shift_rounded(T value, uint32_t amount, uint32_t mode) {
  if (amount == 0) return value;
  using U = std::make_unsigned_t<T>;
  const U dropped = static_cast<U>(value) & ((U{1} << amount) - 1);
  const U half = U{1} << (amount - 1);
  const T kept = value >> amount;
  bool up = false;
  switch (mode) {
    case 0:
      up = dropped & half;
      break;
    case 1:
      up = dropped > half || (dropped == half && (kept & 1));
      break;
    case 2:
      break;
    default:
      up = dropped != 0 && !(kept & 1);
      break;
  }
  return kept + up;
}

template <typename T>
T saturate(int64_t value, uint32_t& saturated) {
  constexpr int64_t low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
  if (value < low) return saturated = 1, static_cast<T>(low);
  if (value > high) return saturated = 1, static_cast<T>(high);
  return static_cast<T>(value);
}

template <typename T>
T product_high(std::make_signed_t<T> a, std::make_signed_t<T> b) {
  return static_cast<T>(static_cast<int64_t>(a) * b >> 8 * sizeof(T));
}

template <typename U>
bool same_width_arithmetic(Vector& v, O operation) {
  using S = std::make_signed_t<U>;
  constexpr uint32_t bits = 8 * sizeof(U);
  const U scalar = v.scalar<U>();
  Machine& m = v.m;
  const auto run = [&](auto function) {
    v.each<U>([&](uint32_t i) { return static_cast<U>(function(v.get<U>(v.vs2, i), v.operand<U>(i, scalar))); });
    return true;
  };
  const auto run_signed = [&](auto function) {
    return run([&](U a, U b) { return function(static_cast<S>(a), static_cast<S>(b)); });
  };
  const auto accumulate = [&](auto function) {
    v.each<U>([&](uint32_t i) {
      return static_cast<U>(function(v.get<U>(v.vd, i), v.operand<U>(i, scalar), v.get<U>(v.vs2, i)));
    });
    return true;
  };
  // Products of 16 bits would overflow int if they were not unsigned first.
  const auto times = [](U a, U b) { return static_cast<U>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b)); };
  switch (operation) {
    case O::vadd:
      return run([](U a, U b) { return a + b; });
    case O::vsub:
      return run([](U a, U b) { return a - b; });
    case O::vrsub:
      return run([](U a, U b) { return b - a; });
    case O::vminu:
      return run([](U a, U b) { return std::min(a, b); });
    case O::vmaxu:
      return run([](U a, U b) { return std::max(a, b); });
    case O::vmin:
      return run_signed([](S a, S b) { return std::min(a, b); });
    case O::vmax:
      return run_signed([](S a, S b) { return std::max(a, b); });
    case O::vand:
      return run([](U a, U b) { return a & b; });
    case O::vor:
      return run([](U a, U b) { return a | b; });
    case O::vxor:
      return run([](U a, U b) { return a ^ b; });
    // Shift amounts as immediates are unsigned.
    case O::vsll:
      return run([](U a, U b) { return static_cast<uint32_t>(a) << (b & (bits - 1)); });
    case O::vsrl:
      return run([](U a, U b) { return a >> (b & (bits - 1)); });
    case O::vsra:
      return run([](U a, U b) { return static_cast<S>(a) >> (b & (bits - 1)); });
    case O::vssrl:
      return run([&](U a, U b) { return shift_rounded<int64_t>(a, b & (bits - 1), m.vxrm); });
    case O::vssra:
      return run([&](U a, U b) { return shift_rounded<int64_t>(static_cast<S>(a), b & (bits - 1), m.vxrm); });
    case O::vsaddu:
      return run([&](U a, U b) { return saturate<U>(static_cast<int64_t>(a) + b, m.vxsat); });
    case O::vssubu:
      return run([&](U a, U b) { return saturate<U>(static_cast<int64_t>(a) - b, m.vxsat); });
    case O::vsadd:
      return run_signed([&](S a, S b) { return saturate<S>(static_cast<int64_t>(a) + b, m.vxsat); });
    case O::vssub:
      return run_signed([&](S a, S b) { return saturate<S>(static_cast<int64_t>(a) - b, m.vxsat); });
    case O::vaaddu:
      return run([&](U a, U b) { return shift_rounded<int64_t>(static_cast<int64_t>(a) + b, 1, m.vxrm); });
    case O::vasubu:
      return run([&](U a, U b) { return shift_rounded<int64_t>(static_cast<int64_t>(a) - b, 1, m.vxrm); });
    case O::vaadd:
      return run_signed([&](S a, S b) { return shift_rounded<int64_t>(static_cast<int64_t>(a) + b, 1, m.vxrm); });
    case O::vasub:
      return run_signed([&](S a, S b) { return shift_rounded<int64_t>(static_cast<int64_t>(a) - b, 1, m.vxrm); });
    case O::vsmul:
      return run_signed([&](S a, S b) {
        return saturate<S>(shift_rounded<int64_t>(static_cast<int64_t>(a) * b, bits - 1, m.vxrm), m.vxsat);
      });
    case O::vmul:
      return run(times);
    case O::vmulh:
      return run_signed([](S a, S b) { return product_high<U>(a, b); });
    case O::vmulhu:
      return run([](U a, U b) { return static_cast<uint64_t>(a) * b >> bits; });
    case O::vmulhsu:
      return run([](U a, U b) { return static_cast<int64_t>(static_cast<S>(a)) * static_cast<int64_t>(b) >> bits; });
    case O::vdivu:
      return run([](U a, U b) { return b ? static_cast<U>(a / b) : static_cast<U>(~U{0}); });
    case O::vremu:
      return run([](U a, U b) { return b ? static_cast<U>(a % b) : a; });
    case O::vdiv:
      return run_signed([](S a, S b) { return b == 0 ? int64_t{-1} : static_cast<int64_t>(a) / b; });
    case O::vrem:
      return run_signed([](S a, S b) { return b == 0 ? static_cast<int64_t>(a) : static_cast<int64_t>(a) % b; });
    // vd, first operand, vs2
    case O::vmacc:
      return accumulate([&](U d, U a, U b) { return d + times(a, b); });
    case O::vnmsac:
      return accumulate([&](U d, U a, U b) { return d - times(a, b); });
    case O::vmadd:
      return accumulate([&](U d, U a, U b) { return times(a, d) + b; });
    case O::vnmsub:
      return accumulate([&](U d, U a, U b) { return b - times(a, d); });
    default:
      return false;
  }
}

template <typename U>
bool carry_arithmetic(Vector& v, O operation) {
  const U scalar = v.scalar<U>();
  const auto carry = [&](uint32_t i) { return v.masked ? static_cast<uint64_t>(v.m.mask_bit(i)) : 0; };
  const auto operands = [&](uint32_t i, auto function) {
    return function(static_cast<uint64_t>(v.get<U>(v.vs2, i)), static_cast<uint64_t>(v.operand<U>(i, scalar)));
  };
  constexpr uint32_t bits = 8 * sizeof(U);
  const auto values = [&](auto function) {
    for (uint32_t i = 0; i < v.vl; ++i)
      v.set<U>(v.vd, i, operands(i, [&](uint64_t a, uint64_t b) { return static_cast<U>(function(a, b, i)); }));
    v.tail<U>(v.vl, v.log);
    return true;
  };
  switch (operation) {
    case O::vadc:
      return values([&](uint64_t a, uint64_t b, uint32_t i) { return a + b + carry(i); });
    case O::vsbc:
      return values([&](uint64_t a, uint64_t b, uint32_t i) { return a - b - carry(i); });
    case O::vmerge:
      return values([&](uint64_t a, uint64_t b, uint32_t i) { return v.m.mask_bit(i) ? b : a; });
    case O::vmadc:
      v.each_bit(false, [&](uint32_t i) {
        return operands(i, [&](uint64_t a, uint64_t b) { return (a + b + carry(i)) >> bits & 1; });
      });
      return true;
    default:  // vmsbc
      v.each_bit(false,
                 [&](uint32_t i) { return operands(i, [&](uint64_t a, uint64_t b) { return a < b + carry(i); }); });
      return true;
  }
}

template <typename U>
void compare(Vector& v, O operation) {
  using S = std::make_signed_t<U>;
  const U scalar = v.scalar<U>();
  const auto run = [&](auto function) {
    v.each_bit(true, [&](uint32_t i) { return function(v.get<U>(v.vs2, i), v.operand<U>(i, scalar)); });
  };
  const auto run_signed = [&](auto function) {
    run([&](U a, U b) { return function(static_cast<S>(a), static_cast<S>(b)); });
  };
  switch (operation) {
    case O::vmseq:
      return run([](U a, U b) { return a == b; });
    case O::vmsne:
      return run([](U a, U b) { return a != b; });
    case O::vmsltu:
      return run([](U a, U b) { return a < b; });
    case O::vmsleu:
      return run([](U a, U b) { return a <= b; });
    case O::vmsgtu:
      return run([](U a, U b) { return a > b; });
    case O::vmslt:
      return run_signed([](S a, S b) { return a < b; });
    case O::vmsle:
      return run_signed([](S a, S b) { return a <= b; });
    default:
      return run_signed([](S a, S b) { return a > b; });
  }
}

// Results of twice the width.
template <typename U, typename UW>
void widen(Vector& v, O operation) {
  using S = std::make_signed_t<U>;
  using W = std::make_signed_t<UW>;
  const U scalar = v.scalar<U>();
  const auto run = [&](auto function) {
    v.each<UW>([&](uint32_t i) { return static_cast<UW>(function(v.get<U>(v.vs2, i), v.operand<U>(i, scalar))); });
  };
  const auto run_wide = [&](auto function) {
    v.each<UW>([&](uint32_t i) { return static_cast<UW>(function(v.get<UW>(v.vs2, i), v.operand<U>(i, scalar))); });
  };
  const auto accumulate = [&](auto function) {
    v.each<UW>([&](uint32_t i) {
      return static_cast<UW>(v.get<UW>(v.vd, i) +
                             static_cast<UW>(function(v.operand<U>(i, scalar), v.get<U>(v.vs2, i))));
    });
  };
  const auto s = [](U a) { return static_cast<W>(static_cast<S>(a)); };
  const auto u = [](U a) { return static_cast<UW>(a); };
  const auto times = [](int64_t a, int64_t b) { return a * b; };
  switch (operation) {
    case O::vwaddu:
      return run([&](U a, U b) { return u(a) + u(b); });
    case O::vwsubu:
      return run([&](U a, U b) { return u(a) - u(b); });
    case O::vwadd:
      return run([&](U a, U b) { return s(a) + s(b); });
    case O::vwsub:
      return run([&](U a, U b) { return s(a) - s(b); });
    case O::vwaddu_w:
      return run_wide([&](UW a, U b) { return a + u(b); });
    case O::vwsubu_w:
      return run_wide([&](UW a, U b) { return a - u(b); });
    case O::vwadd_w:
      return run_wide([&](UW a, U b) { return a + static_cast<UW>(s(b)); });
    case O::vwsub_w:
      return run_wide([&](UW a, U b) { return a - static_cast<UW>(s(b)); });
    case O::vwmulu:
      return run([&](U a, U b) { return times(u(a), u(b)); });
    case O::vwmul:
      return run([&](U a, U b) { return times(s(a), s(b)); });
    case O::vwmulsu:
      return run([&](U a, U b) { return times(s(a), u(b)); });
    // First operand, vs2
    case O::vwmaccu:
      return accumulate([&](U a, U b) { return times(u(a), u(b)); });
    case O::vwmacc:
      return accumulate([&](U a, U b) { return times(s(a), s(b)); });
    case O::vwmaccsu:
      return accumulate([&](U a, U b) { return times(s(a), u(b)); });
    default:
      return accumulate([&](U a, U b) { return times(u(a), s(b)); });  // vwmaccus
  }
}

template <typename U, typename UW>
void narrow(Vector& v, O operation) {
  using S = std::make_signed_t<U>;
  using W = std::make_signed_t<UW>;
  Machine& m = v.m;
  const U scalar = v.scalar<U>();
  v.each<U>([&](uint32_t i) -> U {
    const UW wide = v.get<UW>(v.vs2, i);
    const uint32_t amount = v.operand<U>(i, scalar) & (8 * sizeof(UW) - 1);
    switch (operation) {
      case O::vnsrl:
        return static_cast<U>(wide >> amount);
      case O::vnsra:
        return static_cast<U>(static_cast<W>(wide) >> amount);
      case O::vnclipu:
        return saturate<U>(shift_rounded<int64_t>(wide, amount, m.vxrm), m.vxsat);
      default:
        return static_cast<U>(saturate<S>(shift_rounded<int64_t>(static_cast<W>(wide), amount, m.vxrm), m.vxsat));
    }
  });
}

template <typename U>
void reduce(Vector& v, O operation) {
  using S = std::make_signed_t<U>;
  if (v.vl == 0) return;
  U sum = v.get<U>(v.vs1, 0);
  for (uint32_t i = 0; i < v.vl; ++i) {
    if (!v.active(i)) continue;
    const U a = v.get<U>(v.vs2, i);
    switch (operation) {
      case O::vredsum:
        sum = static_cast<U>(sum + a);
        break;
      case O::vredand:
        sum &= a;
        break;
      case O::vredor:
        sum |= a;
        break;
      case O::vredxor:
        sum ^= a;
        break;
      case O::vredminu:
        sum = std::min(sum, a);
        break;
      case O::vredmaxu:
        sum = std::max(sum, a);
        break;
      case O::vredmin:
        sum = static_cast<U>(std::min(static_cast<S>(sum), static_cast<S>(a)));
        break;
      default:
        sum = static_cast<U>(std::max(static_cast<S>(sum), static_cast<S>(a)));
        break;
    }
  }
  v.set<U>(v.vd, 0, sum);
  v.tail<U>(1, 0);
}

template <typename U, typename UW>
void reduce_wide(Vector& v, bool is_signed) {
  using S = std::make_signed_t<U>;
  if (v.vl == 0) return;
  UW sum = v.get<UW>(v.vs1, 0);
  for (uint32_t i = 0; i < v.vl; ++i)
    if (v.active(i)) {
      const U a = v.get<U>(v.vs2, i);
      sum = static_cast<UW>(sum + (is_signed ? static_cast<UW>(static_cast<S>(a)) : static_cast<UW>(a)));
    }
  v.set<UW>(v.vd, 0, sum);
  v.tail<UW>(1, 0);
}

template <typename U, typename From>
void extend(Vector& v, bool is_signed) {
  using S = std::make_signed_t<From>;
  v.each<U>([&](uint32_t i) {
    const From a = v.get<From>(v.vs2, i);
    return is_signed ? static_cast<U>(static_cast<S>(a)) : static_cast<U>(a);
  });
}

bool extend_any(Vector& v, O operation) {
  const int divisor = operation == O::vzext4 || operation == O::vsext4 ? 2 : 1;
  const bool is_signed = operation == O::vsext2 || operation == O::vsext4;
  if (static_cast<int>(v.width) < divisor || v.vd == v.vs2 || !v.mask_ok() || !aligned(v.vd, v.log) ||
      !aligned(v.vs2, v.log - divisor) || !separate(v.vd, v.log, v.vs2, v.log - divisor))
    return false;
  if (divisor == 2) return extend<uint32_t, uint8_t>(v, is_signed), true;
  if (v.width == 1) return extend<uint16_t, uint8_t>(v, is_signed), true;
  return extend<uint32_t, uint16_t>(v, is_signed), true;
}

}  // namespace

bool Machine::vector_integer(const Decoded& d) {
  Vector v(*this, d);
  const O operation = d.operation;
  if (operation >= O::vmseq && operation <= O::vmsgt) {
    if (!v.mask_result()) return refuse();
    by_width(v.width, [&](auto u) { compare<decltype(u)>(v, operation); });
    return true;
  }
  switch (operation) {
    case O::vadc:
    case O::vsbc:
    case O::vmerge:
      if (v.vd == 0 || !v.same_width()) return refuse();
      return by_width(v.width, [&](auto u) { return carry_arithmetic<decltype(u)>(v, operation); });
    case O::vmadc:
    case O::vmsbc:
      if (!v.mask_result()) return refuse();
      return by_width(v.width, [&](auto u) { return carry_arithmetic<decltype(u)>(v, operation); });
    case O::vmv_v:
      if (!aligned(v.vd, v.log) || (v.kind == ivv && !aligned(v.vs1, v.log))) return refuse();
      by_width(v.width, [&](auto u) {
        using U = decltype(u);
        const U scalar = v.scalar<U>();
        v.each<U>([&](uint32_t i) { return v.operand<U>(i, scalar); });
      });
      return true;
    case O::vzext2:
    case O::vzext4:
    case O::vsext2:
    case O::vsext4:
      return extend_any(v, operation) || refuse();
    case O::vwredsum:
    case O::vwredsumu:
      if (!aligned(v.vs2, v.log) || v.width > 1) return refuse();
      v.width ? reduce_wide<uint16_t, uint32_t>(v, operation == O::vwredsum)
              : reduce_wide<uint8_t, uint16_t>(v, operation == O::vwredsum);
      return true;
    default:
      break;
  }
  if (operation >= O::vredsum && operation <= O::vredmax) {
    if (!aligned(v.vs2, v.log)) return refuse();
    by_width(v.width, [&](auto u) { reduce<decltype(u)>(v, operation); });
    return true;
  }
  if (d.type == Class::vector_widen) {
    if (!v.widening(operation >= O::vwaddu_w && operation <= O::vwsub_w)) return refuse();
    v.width ? widen<uint16_t, uint32_t>(v, operation) : widen<uint8_t, uint16_t>(v, operation);
    return true;
  }
  if (d.type == Class::vector_narrow) {
    if (!v.narrowing()) return refuse();
    v.width ? narrow<uint16_t, uint32_t>(v, operation) : narrow<uint8_t, uint16_t>(v, operation);
    return true;
  }
  if (!v.same_width()) return refuse();
  return by_width(v.width, [&](auto u) { return same_width_arithmetic<decltype(u)>(v, operation); }) || refuse();
}

bool Machine::execute_vector(const Decoded& d) {
  const O operation = d.operation;
  if (operation >= O::vload) return vector_memory(d);
  if (vtype & kVill && operation != O::vmvr) return refuse();
  const uint32_t kind = d.word >> 12 & 7;
  if (kind == fvv || kind == fvf) return vector_floats(d);
  switch (operation) {
    case O::vrgather:
    case O::vrgatherei16:
    case O::vslideup:
    case O::vslidedown:
    case O::vslide1up:
    case O::vslide1down:
    case O::vcompress:
    case O::vmvr:
      return vector_permute(d);
    case O::vmv_x_s:
    case O::vmv_s_x:
    case O::vcpop:
    case O::vfirst:
    case O::vmsbf:
    case O::vmsof:
    case O::vmsif:
    case O::viota:
    case O::vid:
    case O::vmandn:
    case O::vmand:
    case O::vmor:
    case O::vmxor:
    case O::vmorn:
    case O::vmnand:
    case O::vmnor:
    case O::vmxnor:
      return vector_mask(d);
    default:
      return vector_integer(d);
  }
}

}  // namespace tilewright::coral
