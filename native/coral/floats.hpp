// IEEE binary32 arithmetic as RISC-V defines it: every rounding mode, exception flags, canonical
// NaN, subnormals kept, tininess after rounding. Exact by integer arithmetic; where the result is
// an ordinary number rounded to nearest, the host's adder gives the same bits faster.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace tilewright::coral::floats {

enum Rounding : uint32_t { nearest_even, to_zero, down, up, nearest_away };
enum Flag : uint32_t { inexact = 1, underflow = 2, overflow = 4, divide_by_zero = 8, invalid = 16 };

constexpr uint32_t kNan = 0x7fc00000, kInfinity = 0x7f800000, kSign = 0x80000000;

inline bool is_nan(uint32_t a) { return (a & 0x7fffffff) > kInfinity; }
inline bool is_signalling(uint32_t a) { return is_nan(a) && !(a & 0x00400000); }
inline bool is_infinite(uint32_t a) { return (a & 0x7fffffff) == kInfinity; }
inline bool is_zero(uint32_t a) { return (a & 0x7fffffff) == 0; }
inline float value(uint32_t a) { return std::bit_cast<float>(a); }
inline uint32_t bits(float a) { return std::bit_cast<uint32_t>(a); }

inline uint32_t nan_result(uint32_t a, uint32_t b, uint32_t& flags) {
  if (is_signalling(a) || is_signalling(b)) flags |= invalid;
  return kNan;
}

// mantissa * 2^exponent, the mantissa 24 bits wide and normalised.
struct Parts {
  uint32_t mantissa;
  int exponent;
};
inline Parts parts(uint32_t a) {
  uint32_t mantissa = a & 0x7fffff;
  int exponent = a >> 23 & 0xff;
  if (exponent) return {mantissa | 0x800000, exponent - 150};
  const int shift = std::countl_zero(mantissa) - 8;
  return {mantissa << shift, -149 - shift};
}

template <typename T>
inline T shift_right_sticky(T value, int amount) {
  if (amount <= 0) return value;
  if (amount >= static_cast<int>(sizeof(T) * 8)) return value != 0;
  return value >> amount | static_cast<T>((value & ((T{1} << amount) - 1)) != 0);
}

inline bool rounds_up(bool sign, uint64_t kept, uint64_t rest, uint64_t half, uint32_t mode) {
  switch (mode) {
    case nearest_even:
      return rest > half || (rest == half && (kept & 1));
    case nearest_away:
      return rest >= half;
    case down:
      return sign && rest;
    case up:
      return !sign && rest;
    default:
      return false;
  }
}

// Round mantissa * 2^exponent, mantissa not 0, to binary32. Bit 0 may be sticky.
inline uint32_t round_pack(bool sign, int exponent, uint64_t mantissa, uint32_t mode, uint32_t& flags) {
  const int leading = std::countl_zero(mantissa);
  if (leading == 0) {
    mantissa = shift_right_sticky(mantissa, 1);
    exponent += 1;
  } else {
    mantissa <<= leading - 1;
    exponent -= leading - 1;
  }
  // Now the leading one is bit 62.
  int biased = exponent + 62 + 127;
  int shift = 39;
  bool tiny = false;
  if (biased < 1) {
    // Tiny unless rounding to 24 bits reaches the smallest normal number.
    const uint64_t kept = mantissa >> 39, rest = mantissa & ((1ull << 39) - 1);
    tiny = !(biased == 0 && kept == 0xffffff && rounds_up(sign, kept, rest, 1ull << 38, mode));
    mantissa = shift_right_sticky(mantissa, 1 - biased > 62 ? 63 : 1 - biased);
    biased = 1;
  }
  uint64_t kept = mantissa >> shift;
  const uint64_t rest = mantissa & ((1ull << shift) - 1);
  if (rest) {
    flags |= inexact;
    if (tiny) flags |= underflow;
    kept += rounds_up(sign, kept, rest, 1ull << (shift - 1), mode);
  }
  uint64_t packed = (static_cast<uint64_t>(biased - 1) << 23) + kept;
  if (packed >= kInfinity) {
    flags |= overflow | inexact;
    const bool stays = mode == to_zero || (mode == down && !sign) || (mode == up && sign);
    packed = stays ? 0x7f7fffff : kInfinity;
  }
  return static_cast<uint32_t>(packed) | (sign ? kSign : 0);
}

// An ordinary number, far enough from overflow and underflow for the host's result to stand.
inline bool ordinary(uint32_t a) {
  const uint32_t exponent = a >> 23 & 0xff;
  return exponent > 1 && exponent < 254;
}

inline uint32_t add_exact(uint32_t a, uint32_t b, uint32_t mode, uint32_t& flags) {
  if (is_nan(a) || is_nan(b)) return nan_result(a, b, flags);
  if (is_infinite(a)) {
    if (is_infinite(b) && (a ^ b) & kSign) return flags |= invalid, kNan;
    return a;
  }
  if (is_infinite(b)) return b;
  if (is_zero(a) && is_zero(b)) return a == b ? a : (mode == down ? kSign : 0);
  if (is_zero(a)) return b;
  if (is_zero(b)) return a;
  Parts x = parts(a), y = parts(b);
  bool x_sign = a >> 31, y_sign = b >> 31;
  if (x.exponent < y.exponent) std::swap(x, y), std::swap(x_sign, y_sign);
  const uint64_t large = static_cast<uint64_t>(x.mantissa) << 32;
  const uint64_t small = shift_right_sticky(static_cast<uint64_t>(y.mantissa) << 32, x.exponent - y.exponent);
  if (x_sign == y_sign) return round_pack(x_sign, x.exponent - 32, large + small, mode, flags);
  if (large == small) return mode == down ? kSign : 0;
  return large > small ? round_pack(x_sign, x.exponent - 32, large - small, mode, flags)
                       : round_pack(y_sign, x.exponent - 32, small - large, mode, flags);
}

inline uint32_t add(uint32_t a, uint32_t b, uint32_t mode, uint32_t& flags) {
  if (mode == nearest_even && ordinary(a) && ordinary(b)) {
    const float x = value(a), y = value(b), sum = x + y;
    if (ordinary(bits(sum))) {
      // Knuth's two-sum: the error of an addition is a float.
      const float rest = sum - x;
      const float error = (x - (sum - rest)) + (y - rest);
      if (error != 0) flags |= inexact;
      return bits(sum);
    }
  }
  return add_exact(a, b, mode, flags);
}
inline uint32_t subtract(uint32_t a, uint32_t b, uint32_t mode, uint32_t& flags) {
  return is_nan(b) ? nan_result(a, b, flags) : add(a, b ^ kSign, mode, flags);
}

inline uint32_t multiply(uint32_t a, uint32_t b, uint32_t mode, uint32_t& flags) {
  if (mode == nearest_even && ordinary(a) && ordinary(b)) {
    const double exact = static_cast<double>(value(a)) * static_cast<double>(value(b));
    const float rounded = static_cast<float>(exact);
    if (ordinary(bits(rounded))) {
      if (static_cast<double>(rounded) != exact) flags |= inexact;
      return bits(rounded);
    }
  }
  const uint32_t sign = (a ^ b) & kSign;
  if (is_nan(a) || is_nan(b)) return nan_result(a, b, flags);
  if (is_infinite(a) || is_infinite(b)) {
    if (is_zero(a) || is_zero(b)) return flags |= invalid, kNan;
    return sign | kInfinity;
  }
  if (is_zero(a) || is_zero(b)) return sign;
  const Parts x = parts(a), y = parts(b);
  return round_pack(sign, x.exponent + y.exponent, static_cast<uint64_t>(x.mantissa) * y.mantissa, mode, flags);
}

inline uint32_t divide(uint32_t a, uint32_t b, uint32_t mode, uint32_t& flags) {
  const uint32_t sign = (a ^ b) & kSign;
  if (is_nan(a) || is_nan(b)) return nan_result(a, b, flags);
  if (is_infinite(a)) {
    if (is_infinite(b)) return flags |= invalid, kNan;
    return sign | kInfinity;
  }
  if (is_infinite(b)) return sign;
  if (is_zero(b)) {
    if (is_zero(a)) return flags |= invalid, kNan;
    return flags |= divide_by_zero, sign | kInfinity;
  }
  if (is_zero(a)) return sign;
  const Parts x = parts(a), y = parts(b);
  const uint64_t dividend = static_cast<uint64_t>(x.mantissa) << 39;
  const uint64_t quotient = dividend / y.mantissa;
  return round_pack(sign, x.exponent - y.exponent - 39, quotient | (dividend % y.mantissa != 0), mode, flags);
}

inline uint32_t square_root(uint32_t a, uint32_t mode, uint32_t& flags) {
  if (is_nan(a)) return nan_result(a, a, flags);
  if (is_zero(a) || a == kInfinity) return a;
  if (a >> 31) return flags |= invalid, kNan;
  const Parts x = parts(a);
  const bool odd = x.exponent & 1;
  // An even exponent and 62 or 63 bits: the root has 31 or 32.
  const uint64_t radicand = static_cast<uint64_t>(x.mantissa) << (odd ? 39 : 38);
  uint64_t root = static_cast<uint64_t>(std::sqrt(static_cast<double>(radicand)));
  while (root * root > radicand) --root;
  while ((root + 1) * (root + 1) <= radicand) ++root;
  const uint64_t sticky = root * root != radicand;
  return round_pack(false, (x.exponent - (odd ? 39 : 38)) / 2 - 1, root << 1 | sticky, mode, flags);
}

// a * b + c with one rounding.
inline uint32_t fused(uint32_t a, uint32_t b, uint32_t c, uint32_t mode, uint32_t& flags) {
  const bool no_number = (is_infinite(a) && is_zero(b)) || (is_zero(a) && is_infinite(b));
  if (no_number) flags |= invalid;
  if (is_nan(a) || is_nan(b) || is_nan(c)) {
    if (is_signalling(a) || is_signalling(b) || is_signalling(c)) flags |= invalid;
    return kNan;
  }
  if (no_number) return kNan;
  const bool sign = (a ^ b) >> 31, c_sign = c >> 31;
  if (is_infinite(a) || is_infinite(b)) {
    if (is_infinite(c) && sign != c_sign) return flags |= invalid, kNan;
    return kInfinity | (sign ? kSign : 0);
  }
  if (is_infinite(c)) return c;
  if (is_zero(a) || is_zero(b)) {
    if (!is_zero(c)) return c;
    return sign == c_sign ? c : (mode == down ? kSign : 0);
  }
  const Parts x = parts(a), y = parts(b);
  const uint64_t product = static_cast<uint64_t>(x.mantissa) * y.mantissa;
  const int exponent = x.exponent + y.exponent;
  if (is_zero(c)) return round_pack(sign, exponent, product, mode, flags);
  using Wide = unsigned __int128;
  const Parts z = parts(c);
  // Both with their leading one near bit 110, then the smaller moved down.
  Wide large = static_cast<Wide>(product) << 62, small = static_cast<Wide>(z.mantissa) << 86;
  int large_exponent = exponent - 62, small_exponent = z.exponent - 86;
  bool large_sign = sign, small_sign = c_sign;
  if (large_exponent < small_exponent) {
    std::swap(large, small);
    std::swap(large_exponent, small_exponent);
    std::swap(large_sign, small_sign);
  }
  small = shift_right_sticky(small, large_exponent - small_exponent);
  Wide sum;
  bool sum_sign = large_sign;
  if (large_sign == small_sign) {
    sum = large + small;
  } else if (large >= small) {
    sum = large - small;
  } else {
    sum = small - large;
    sum_sign = small_sign;
  }
  if (sum == 0) return mode == down ? kSign : 0;
  const uint64_t high = static_cast<uint64_t>(sum >> 64);
  const int drop = high ? 64 - std::countl_zero(high) : 0;
  return round_pack(sum_sign, large_exponent + drop, static_cast<uint64_t>(shift_right_sticky(sum, drop)), mode, flags);
}

inline bool equal(uint32_t a, uint32_t b, uint32_t& flags) {
  if (is_nan(a) || is_nan(b)) return nan_result(a, b, flags), false;
  return value(a) == value(b);
}
inline bool less(uint32_t a, uint32_t b, uint32_t& flags) {
  if (is_nan(a) || is_nan(b)) return flags |= invalid, false;
  return value(a) < value(b);
}
inline bool less_equal(uint32_t a, uint32_t b, uint32_t& flags) {
  if (is_nan(a) || is_nan(b)) return flags |= invalid, false;
  return value(a) <= value(b);
}

inline uint32_t choose(uint32_t a, uint32_t b, bool largest, uint32_t& flags) {
  if (is_signalling(a) || is_signalling(b)) flags |= invalid;
  if (is_nan(a)) return is_nan(b) ? kNan : b;
  if (is_nan(b)) return a;
  if (is_zero(a) && is_zero(b)) return largest ? a & b : a | b;
  return (value(a) < value(b)) != largest ? a : b;
}

inline uint32_t classify(uint32_t a) {
  const bool sign = a >> 31;
  if (is_nan(a)) return is_signalling(a) ? 1 << 8 : 1 << 9;
  if (is_infinite(a)) return sign ? 1 << 0 : 1 << 7;
  if (is_zero(a)) return sign ? 1 << 3 : 1 << 4;
  if (!(a & 0x7f800000)) return sign ? 1 << 2 : 1 << 5;
  return sign ? 1 << 1 : 1 << 6;
}

// To an integer between low and high, saturating.
inline int64_t to_integer(uint32_t a, int64_t low, int64_t high, uint32_t mode, uint32_t& flags) {
  if (is_nan(a)) return flags |= invalid, high;
  const bool sign = a >> 31;
  if (is_infinite(a)) return flags |= invalid, sign ? low : high;
  if (is_zero(a)) return 0;
  const Parts x = parts(a);
  if (x.exponent > 38) return flags |= invalid, sign ? low : high;
  uint64_t kept, rest, half;
  if (x.exponent >= 0) {
    kept = static_cast<uint64_t>(x.mantissa) << x.exponent, rest = 0, half = 1;
  } else {
    const int amount = -x.exponent > 40 ? 40 : -x.exponent;
    const uint64_t wide = static_cast<uint64_t>(x.mantissa);
    kept = wide >> amount, rest = wide & ((1ull << amount) - 1), half = 1ull << (amount - 1);
    if (-x.exponent > 40) rest = 1;
  }
  kept += rounds_up(sign, kept, rest, half, mode);
  const int64_t result = sign ? -static_cast<int64_t>(kept) : static_cast<int64_t>(kept);
  if (result < low) return flags |= invalid, low;
  if (result > high) return flags |= invalid, high;
  if (rest) flags |= inexact;
  return result;
}

inline uint32_t from_integer(int64_t a, uint32_t mode, uint32_t& flags) {
  if (a == 0) return 0;
  return round_pack(a < 0, 0, a < 0 ? 0 - static_cast<uint64_t>(a) : static_cast<uint64_t>(a), mode, flags);
}

}  // namespace tilewright::coral::floats
