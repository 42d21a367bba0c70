// Codes of narrow floats, and the largest numbers of matrices.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tilewright::numbers {

// Rows of neighbouring numbers; a row begins so many numbers after the one before.
struct Rows {
  const float* first;
  std::size_t rows, columns;
  std::ptrdiff_t stride;
};

// What numbers are divided by: nothing (0), a number per column, or a number per row.
enum class Over { nothing, column, row };

// Where codes go, in bytes from one row and from one column to the next: one of both is 1.
struct Places {
  std::uint8_t* first;
  std::ptrdiff_t down, across;
};

// fp8 (E4M3, no infinity) codes of numbers / over * factor: float32 arithmetic, ties to even, what is
// beyond 448 saturates.
void fp8_codes(const Rows& numbers, Over kind, const float* over, float factor, const Places& codes);

// The largest magnitude in every column, or in every row; NaN where there is one.
void column_peaks(const Rows& numbers, float* peaks);
void row_peaks(const Rows& numbers, float* peaks);

}  // namespace tilewright::numbers
