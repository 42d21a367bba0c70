// Products of the DPU: sums of i8 exact in i32, sums of floats one term after the other.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tilewright::vpu {

// left [rows, inner] times right [columns, inner]; the caller bounds the inner axis so that no sum
// leaves i32.
void whole_products(const std::int8_t* left, const std::int8_t* right, std::int32_t* sums, std::size_t rows,
                    std::size_t columns, std::size_t inner);

// The same of f32 that were f16: products are exact, so sums[r, c] + left[r, k] * right[c, k] has
// one rounding per k, in the order of k, with or without fused instructions.
void ordered_products(const float* left, const float* right, float* sums, std::size_t rows, std::size_t columns,
                      std::size_t inner);

}  // namespace tilewright::vpu
