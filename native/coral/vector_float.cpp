// Float arithmetic of the vector unit (Zve32f): elements of 32 bits, and conversions from and to 16.
#include "floats.hpp"
#include "vector.hpp"

namespace tilewright::coral {
namespace {

using O = Operation;
using namespace floats;

// Estimates with seven bits: the reciprocal (or root) of the middle of each of 128 intervals.
uint32_t reciprocal_bits(uint32_t index) {
  return static_cast<uint32_t>(std::lround(128.0 * (2.0 / (1.0 + (index + 0.5) / 128.0) - 1.0) - 0.0));
}
uint32_t root_bits(uint32_t index, bool odd) {
  const double low = 1.0 + (index + 0.5) / 64.0;
  const double root = odd ? 1.0 / std::sqrt(low) : 1.0 / std::sqrt(low * 2.0);
  return static_cast<uint32_t>(std::lround(128.0 * (2.0 * root - 1.0)));
}

uint32_t estimate_reciprocal(uint32_t a, uint32_t mode, uint32_t& flags) {
  const uint32_t sign = a & kSign;
  if (is_nan(a)) return nan_result(a, a, flags);
  if (is_infinite(a)) return sign;
  if (is_zero(a)) return flags |= divide_by_zero, sign | kInfinity;
  uint32_t mantissa = a & 0x7fffff;
  int exponent = a >> 23 & 0xff;
  if (exponent == 0) {
    const int shift = std::countl_zero(mantissa) - 8;
    exponent = 1 - shift;
    mantissa = mantissa << shift & 0x7fffff;
    if (exponent < -1) {
      // The reciprocal overflows.
      flags |= overflow | inexact;
      const bool stays = mode == to_zero || (mode == down && !sign) || (mode == up && sign);
      return sign | (stays ? 0x7f7fffff : kInfinity);
    }
  }
  int result_exponent = 253 - exponent;
  uint32_t result = reciprocal_bits(mantissa >> 16) << 16;
  if (result_exponent <= 0) {
    result = (result | 0x800000) >> (1 - result_exponent);
    result_exponent = 0;
  }
  return sign | static_cast<uint32_t>(result_exponent) << 23 | result;
}

uint32_t estimate_root(uint32_t a, uint32_t& flags) {
  if (is_nan(a)) return nan_result(a, a, flags);
  if (is_zero(a)) return flags |= divide_by_zero, (a & kSign) | kInfinity;
  if (a & kSign) return flags |= invalid, kNan;
  if (is_infinite(a)) return 0;
  uint32_t mantissa = a & 0x7fffff;
  int exponent = a >> 23 & 0xff;
  if (exponent == 0) {
    const int shift = std::countl_zero(mantissa) - 8;
    exponent = 1 - shift;
    mantissa = mantissa << shift & 0x7fffff;
  }
  const uint32_t result = root_bits(mantissa >> 17, exponent & 1) << 16;
  return static_cast<uint32_t>((3 * 127 - 1 - exponent) / 2) << 23 | result;
}

bool compare(Vector& v, O operation, uint32_t scalar) {
  if (!v.mask_result()) return false;
  uint32_t& flags = v.m.fflags;
  v.each_bit(true, [&](uint32_t i) {
    const uint32_t a = v.get<uint32_t>(v.vs2, i), b = v.operand<uint32_t>(i, scalar);
    switch (operation) {
      case O::vmfeq:
        return equal(a, b, flags);
      case O::vmfne:
        return !equal(a, b, flags);
      case O::vmflt:
        return less(a, b, flags);
      case O::vmfle:
        return less_equal(a, b, flags);
      case O::vmfgt:
        return less(b, a, flags);
      default:
        return less_equal(b, a, flags);
    }
  });
  return true;
}

bool reduce(Vector& v, O operation, uint32_t mode) {
  if (!aligned(v.vs2, v.log)) return false;
  if (v.vl == 0) return true;
  uint32_t& flags = v.m.fflags;
  uint32_t sum = v.get<uint32_t>(v.vs1, 0);
  for (uint32_t i = 0; i < v.vl; ++i) {
    if (!v.active(i)) continue;
    const uint32_t a = v.get<uint32_t>(v.vs2, i);
    if (operation == O::vfredmin || operation == O::vfredmax) {
      sum = choose(sum, a, operation == O::vfredmax, flags);
    } else {
      sum = add(sum, a, mode, flags);  // vfredusum may use any order; this is one
    }
  }
  v.set<uint32_t>(v.vd, 0, sum);
  v.tail<uint32_t>(1, 0);
  return true;
}

// Conversions between 32-bit floats and 16-bit integers, at SEW 16.
bool convert_half_width(Vector& v, O operation, uint32_t mode) {
  if (v.width != 1) return false;
  uint32_t& flags = v.m.fflags;
  if (operation == O::vfwcvt_f_xu || operation == O::vfwcvt_f_x) {
    if (v.log > 2 || !v.mask_ok() || !aligned(v.vd, v.log + 1) || !aligned(v.vs2, v.log) ||
        !separate(v.vd, v.log + 1, v.vs2, v.log))
      return false;
    v.each<uint32_t>([&](uint32_t i) {
      const uint16_t a = v.get<uint16_t>(v.vs2, i);
      return from_integer(operation == O::vfwcvt_f_xu ? int64_t{a} : int64_t{static_cast<int16_t>(a)}, mode, flags);
    });
    return true;
  }
  if (v.log > 2 || !v.mask_ok() || !aligned(v.vd, v.log) || !aligned(v.vs2, v.log + 1)) return false;
  if (v.vd != v.vs2 && !separate(v.vd, v.log, v.vs2, v.log + 1)) return false;
  const bool is_unsigned = operation == O::vfncvt_xu_f || operation == O::vfncvt_rtz_xu_f;
  const bool truncates = operation == O::vfncvt_rtz_xu_f || operation == O::vfncvt_rtz_x_f;
  v.each<uint16_t>([&](uint32_t i) {
    return static_cast<uint16_t>(to_integer(v.get<uint32_t>(v.vs2, i), is_unsigned ? 0 : INT16_MIN,
                                            is_unsigned ? UINT16_MAX : INT16_MAX, truncates ? to_zero : mode, flags));
  });
  return true;
}

bool unary(Vector& v, O operation, uint32_t mode) {
  if (!v.mask_ok() || !aligned(v.vd, v.log) || !aligned(v.vs2, v.log)) return false;
  uint32_t& flags = v.m.fflags;
  v.each<uint32_t>([&](uint32_t i) -> uint32_t {
    const uint32_t a = v.get<uint32_t>(v.vs2, i);
    switch (operation) {
      case O::vfsqrt:
        return square_root(a, mode, flags);
      case O::vfclass:
        return classify(a);
      case O::vfrec7:
        return estimate_reciprocal(a, mode, flags);
      case O::vfrsqrt7:
        return estimate_root(a, flags);
      case O::vfcvt_f_xu:
        return from_integer(a, mode, flags);
      case O::vfcvt_f_x:
        return from_integer(static_cast<int32_t>(a), mode, flags);
      case O::vfcvt_xu_f:
        return static_cast<uint32_t>(to_integer(a, 0, UINT32_MAX, mode, flags));
      case O::vfcvt_rtz_xu_f:
        return static_cast<uint32_t>(to_integer(a, 0, UINT32_MAX, to_zero, flags));
      case O::vfcvt_x_f:
        return static_cast<uint32_t>(to_integer(a, INT32_MIN, INT32_MAX, mode, flags));
      default:
        return static_cast<uint32_t>(to_integer(a, INT32_MIN, INT32_MAX, to_zero, flags));
    }
  });
  return true;
}

bool binary(Vector& v, O operation, uint32_t scalar, uint32_t mode) {
  if (!v.same_width()) return false;
  uint32_t& flags = v.m.fflags;
  v.each<uint32_t>([&](uint32_t i) -> uint32_t {
    const uint32_t a = v.get<uint32_t>(v.vs2, i), b = v.operand<uint32_t>(i, scalar);
    const uint32_t d = v.get<uint32_t>(v.vd, i);
    switch (operation) {
      case O::vfadd:
        return add(a, b, mode, flags);
      case O::vfsub:
        return subtract(a, b, mode, flags);
      case O::vfrsub:
        return subtract(b, a, mode, flags);
      case O::vfmul:
        return multiply(a, b, mode, flags);
      case O::vfdiv:
        return divide(a, b, mode, flags);
      case O::vfrdiv:
        return divide(b, a, mode, flags);
      case O::vfmin:
        return choose(a, b, false, flags);
      case O::vfmax:
        return choose(a, b, true, flags);
      case O::vfsgnj:
        return (a & ~kSign) | (b & kSign);
      case O::vfsgnjn:
        return (a & ~kSign) | (~b & kSign);
      case O::vfsgnjx:
        return a ^ (b & kSign);
      case O::vfmacc:
        return fused(b, a, d, mode, flags);
      case O::vfnmacc:
        return fused(b ^ kSign, a, d ^ kSign, mode, flags);
      case O::vfmsac:
        return fused(b, a, d ^ kSign, mode, flags);
      case O::vfnmsac:
        return fused(b ^ kSign, a, d, mode, flags);
      case O::vfmadd:
        return fused(b, d, a, mode, flags);
      case O::vfnmadd:
        return fused(b ^ kSign, d, a ^ kSign, mode, flags);
      case O::vfmsub:
        return fused(b, d, a ^ kSign, mode, flags);
      default:
        return fused(b ^ kSign, d, a, mode, flags);  // vfnmsub
    }
  });
  return true;
}

}  // namespace

bool Machine::vector_floats(const Decoded& d) {
  Vector v(*this, d);
  const O operation = d.operation;
  if (frm > 4) return refuse();
  const uint32_t scalar = f[v.vs1];
  if (operation >= O::vfncvt_xu_f && operation <= O::vfwcvt_f_x)
    return convert_half_width(v, operation, frm) || refuse();
  if (v.width != 2) return refuse();
  switch (operation) {
    case O::vmfeq:
    case O::vmfne:
    case O::vmflt:
    case O::vmfle:
    case O::vmfgt:
    case O::vmfge:
      return compare(v, operation, scalar) || refuse();
    case O::vfredusum:
    case O::vfredosum:
    case O::vfredmin:
    case O::vfredmax:
      return reduce(v, operation, frm) || refuse();
    case O::vfmv_f_s:
      f[v.vd] = v.get<uint32_t>(v.vs2, 0);
      return true;
    case O::vfmv_s_f:
      if (vl > 0) {
        v.set<uint32_t>(v.vd, 0, scalar);
        v.tail<uint32_t>(1, 0);
      }
      return true;
    case O::vfmv_v:
      if (!aligned(v.vd, v.log)) return refuse();
      v.each<uint32_t>([&](uint32_t) { return scalar; });
      return true;
    case O::vfmerge:
      if (v.vd == 0 || !v.same_width()) return refuse();
      for (uint32_t i = 0; i < vl; ++i) v.set<uint32_t>(v.vd, i, mask_bit(i) ? scalar : v.get<uint32_t>(v.vs2, i));
      v.tail<uint32_t>(vl, v.log);
      return true;
    case O::vfslide1up:
    case O::vfslide1down: {
      const bool up = operation == O::vfslide1up;
      if (!v.same_width() || (up && v.vd == v.vs2)) return refuse();
      v.each<uint32_t>([&](uint32_t i) {
        if (up) return i ? v.get<uint32_t>(v.vs2, i - 1) : scalar;
        return i == vl - 1 ? scalar : v.get<uint32_t>(v.vs2, i + 1);
      });
      return true;
    }
    case O::vfcvt_xu_f:
    case O::vfcvt_x_f:
    case O::vfcvt_f_xu:
    case O::vfcvt_f_x:
    case O::vfcvt_rtz_xu_f:
    case O::vfcvt_rtz_x_f:
    case O::vfsqrt:
    case O::vfrsqrt7:
    case O::vfrec7:
    case O::vfclass:
      return unary(v, operation, frm) || refuse();
    default:
      return binary(v, operation, scalar, frm) || refuse();
  }
}

}  // namespace tilewright::coral
