#include "rounding.hpp"

#include <algorithm>
#include <bit>
#include <vector>

// Wider vectors where the machine has them: the same operations on each number, so the same results.
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define WIDE __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define WIDE
#endif

namespace tilewright::numbers {

namespace {

constexpr std::uint32_t kMagnitude = 0x7FFFFFFF;
constexpr std::uint32_t kInfinity = 0x7F800000;
constexpr std::uint32_t kLeastNormal = 0x3C800000;  // 2^-6
constexpr std::uint32_t kLargest = 0x7E;            // 448

// Without branches, so that compilers make vectors of it.
inline std::uint8_t fp8_code(float number) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(number);
  const std::uint32_t size = bits & kMagnitude;
  // Three digits after the first: what is cut off is a half of the last one at a tie, which goes to even.
  const std::uint32_t normal = ((size + 0x7FFFF + ((size >> 20) & 1)) >> 20) - (120 << 3);
  // Multiples of 2^-9: the sum with 2^23 rounds to whole ones.
  const float counted = std::bit_cast<float>(size) * 512.0f + 8388608.0f;
  const std::uint32_t small = std::bit_cast<std::uint32_t>(counted) - 0x4B000000;
  std::uint32_t code = size < kLeastNormal ? small : normal;
  code = code > kLargest ? kLargest : code;
  code = size > kInfinity ? 0x7F : code;
  return static_cast<std::uint8_t>(code | ((bits >> 24) & 0x80));
}

WIDE void plain_row(const float* numbers, std::size_t count, float factor, std::uint8_t* codes) {
  for (std::size_t k = 0; k < count; ++k) codes[k] = fp8_code(numbers[k] * factor);
}

WIDE void row_over_columns(const float* numbers, const float* over, std::size_t count, float factor,
                           std::uint8_t* codes) {
  for (std::size_t k = 0; k < count; ++k) codes[k] = fp8_code(numbers[k] / over[k] * factor);
}

WIDE void row_over_one(const float* numbers, float over, std::size_t count, float factor, std::uint8_t* codes) {
  for (std::size_t k = 0; k < count; ++k) codes[k] = fp8_code(numbers[k] / over * factor);
}

// Magnitudes are in the order of their bits, and NaN are above all of them.
WIDE void larger_of(const float* numbers, std::size_t count, std::uint32_t* largest) {
  for (std::size_t k = 0; k < count; ++k) {
    const std::uint32_t size = std::bit_cast<std::uint32_t>(numbers[k]) & kMagnitude;
    largest[k] = largest[k] > size ? largest[k] : size;
  }
}

WIDE std::uint32_t largest_of(const float* numbers, std::size_t count) {
  std::uint32_t largest = 0;
  for (std::size_t k = 0; k < count; ++k) {
    const std::uint32_t size = std::bit_cast<std::uint32_t>(numbers[k]) & kMagnitude;
    largest = largest > size ? largest : size;
  }
  return largest;
}

constexpr std::size_t kSide = 64;  // of a block that is turned: it and the lines it goes to stay in cache

struct Divisors {
  Over kind;
  const float* over;
  float factor;

  // The codes of some numbers of a row, from a column on.
  void row(const float* numbers, std::size_t at, std::size_t column, std::size_t count, std::uint8_t* codes) const {
    if (kind == Over::nothing) plain_row(numbers, count, factor, codes);
    if (kind == Over::column) row_over_columns(numbers, over + column, count, factor, codes);
    if (kind == Over::row) row_over_one(numbers, over[at], count, factor, codes);
  }
};

// Codes of a block of rows and columns, whose columns become neighbours.
void turned_block(const Rows& numbers, const Divisors& divisors, std::size_t row, std::size_t column,
                  const Places& codes) {
  std::uint8_t block[kSide][kSide];
  const std::size_t rows = std::min(kSide, numbers.rows - row), columns = std::min(kSide, numbers.columns - column);
  for (std::size_t k = 0; k < rows; ++k) {
    const float* from = numbers.first + static_cast<std::ptrdiff_t>(row + k) * numbers.stride;
    divisors.row(from + column, row + k, column, columns, block[k]);
  }
  for (std::size_t c = 0; c < columns; ++c) {
    std::uint8_t* to = codes.first + row + static_cast<std::ptrdiff_t>(column + c) * codes.across;
    for (std::size_t k = 0; k < rows; ++k) to[k] = block[k][c];
  }
}

}  // namespace

void fp8_codes(const Rows& numbers, Over kind, const float* over, float factor, const Places& codes) {
  const Divisors divisors{kind, over, factor};
  if (codes.across == 1) {
    for (std::size_t row = 0; row < numbers.rows; ++row) {
      const auto at = static_cast<std::ptrdiff_t>(row);
      divisors.row(numbers.first + at * numbers.stride, row, 0, numbers.columns, codes.first + at * codes.down);
    }
    return;
  }
  for (std::size_t row = 0; row < numbers.rows; row += kSide)
    for (std::size_t column = 0; column < numbers.columns; column += kSide)
      turned_block(numbers, divisors, row, column, codes);
}

void column_peaks(const Rows& numbers, float* peaks) {
  std::vector<std::uint32_t> largest(numbers.columns, 0);
  for (std::size_t row = 0; row < numbers.rows; ++row)
    larger_of(numbers.first + static_cast<std::ptrdiff_t>(row) * numbers.stride, numbers.columns, largest.data());
  std::transform(largest.begin(), largest.end(), peaks, [](std::uint32_t bits) { return std::bit_cast<float>(bits); });
}

void row_peaks(const Rows& numbers, float* peaks) {
  for (std::size_t row = 0; row < numbers.rows; ++row) {
    const float* from = numbers.first + static_cast<std::ptrdiff_t>(row) * numbers.stride;
    peaks[row] = std::bit_cast<float>(largest_of(from, numbers.columns));
  }
}

}  // namespace tilewright::numbers
