// Functions of one bf16 or fp8 value as tables over all inputs, built on first use.
#pragma once

#include <cstdint>

namespace atlas {

enum class Unary : uint8_t { recip, exp, exp2, sin, cos, tanh, log2, sqrt, count };

// 65536 bf16 results, indexed by the bf16 input.
const uint16_t* unary_table(Unary function);
// fp8 of every bf16: nearest even, saturating at 448.
const uint8_t* fp8_of_bf16();
// bf16 of every fp8 divided by a scale.
void unpack_table(float scale, uint16_t* out);
// The bf16 nearest to an integer.
uint16_t bf16_of_integer(int32_t value);

}  // namespace atlas
