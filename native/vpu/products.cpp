#include "products.hpp"

#include <algorithm>
#include <vector>

namespace tilewright::vpu {

namespace {

constexpr std::size_t kColumns = 256;  // of a panel: sums of a row and the panel's terms stay in cache

}  // namespace

void whole_products(const std::int8_t* left, const std::int8_t* right, std::int32_t* sums, std::size_t rows,
                    std::size_t columns, std::size_t inner) {
  // i16 operands: compilers turn sums of their products into one instruction for pairs.
  std::vector<std::int16_t> wide_left(left, left + rows * inner);
  std::vector<std::int16_t> wide_right(right, right + columns * inner);
  for (std::size_t row = 0; row < rows; ++row) {
    const std::int16_t* a = wide_left.data() + row * inner;
    for (std::size_t column = 0; column < columns; ++column) {
      const std::int16_t* b = wide_right.data() + column * inner;
      std::int32_t sum = 0;
      for (std::size_t k = 0; k < inner; ++k) sum += static_cast<std::int32_t>(a[k]) * b[k];
      sums[row * columns + column] = sum;
    }
  }
}

void ordered_products(const float* left, const float* right, float* sums, std::size_t rows, std::size_t columns,
                      std::size_t inner) {
  std::vector<float> panel(kColumns * inner);  // [k, column]: neighbouring sums take the same k
  for (std::size_t first = 0; first < columns; first += kColumns) {
    const std::size_t width = std::min(kColumns, columns - first);
    for (std::size_t column = 0; column < width; ++column)
      for (std::size_t k = 0; k < inner; ++k) panel[k * width + column] = right[(first + column) * inner + k];
    for (std::size_t row = 0; row < rows; ++row) {
      float* out = sums + row * columns + first;
      for (std::size_t k = 0; k < inner; ++k) {
        const float factor = left[row * inner + k];
        const float* terms = panel.data() + k * width;
        for (std::size_t column = 0; column < width; ++column) out[column] += factor * terms[column];
      }
    }
  }
}

}  // namespace tilewright::vpu
