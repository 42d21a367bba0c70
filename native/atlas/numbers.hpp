// Exact low-precision numbers: bf16, fp16 and fp8 (E4M3FN) held in fp32, and their roundings.
//
// One value at a time; kernels.inc has the forms for whole vectors.
#pragma once

#include <cstdint>
#include <cstring>

namespace atlas {
namespace {

constexpr uint16_t kNan16 = 0x7FC0;  // the one NaN arithmetic produces
constexpr uint8_t kNan8 = 0x7F;

inline float float_of_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline uint32_t bits_of_float(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float widen(uint16_t bf16) { return float_of_bits(uint32_t(bf16) << 16); }

// Nearest bf16, ties to even; every NaN becomes the canonical one.
inline uint16_t round_bf16(float value) {
  uint32_t bits = bits_of_float(value);
  uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  bool nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
  return uint16_t(nan ? uint32_t(kNan16) : rounded);
}

// The value of an fp8 pattern.
inline float decode_fp8(uint8_t pattern) {
  uint32_t magnitude = pattern & 0x7Fu;
  uint32_t normal = (magnitude << 20) + (120u << 23);
  float small = float_of_bits((magnitude << 20) + (121u << 23)) - 0.015625f;
  uint32_t bits = magnitude < 8 ? bits_of_float(small) : normal;
  bits = magnitude == 0x7F ? 0x7FC00000u : bits;
  return float_of_bits(bits | (uint32_t(pattern & 0x80u) << 24));
}

}  // namespace
}  // namespace atlas
