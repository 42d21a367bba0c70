// Arithmetic on tiles, compiled once per instruction set and chosen when the library is loaded.
//
// A register is 1024 bytes: 32 rows of 16 bf16 or 32 fp8. A pair of registers is one bf16 tile
// whose columns 0..15 lie in the first and 16..31 in the second. Accumulators are 32x32 bf16 in
// row order. Destinations never overlap sources; the caller copies when registers do.
#pragma once

#include <cstddef>
#include <cstdint>

namespace atlas {

struct Kernels {
  const char* name;
  void (*decode_tile)(const uint8_t* fp8, float* out);
  // acc = round(a @ w), or round(round(a @ w) + acc).
  void (*matmul)(const float* a, const float* w, uint16_t* acc, bool accumulate);
  void (*add)(const uint16_t* a, const uint16_t* b, uint16_t* out, size_t count);
  void (*subtract)(const uint16_t* a, const uint16_t* b, uint16_t* out, size_t count);
  void (*multiply)(const uint16_t* a, const uint16_t* b, uint16_t* out, size_t count);
  void (*minimum)(const uint16_t* a, const uint16_t* b, uint16_t* out, size_t count);
  void (*maximum)(const uint16_t* a, const uint16_t* b, uint16_t* out, size_t count);
  void (*square)(const uint16_t* a, uint16_t* out, size_t count);
  void (*cube)(const uint16_t* a, uint16_t* out, size_t count);
  void (*relu)(const uint16_t* a, uint16_t* out, size_t count);
  // out = bf16(a * scale), and bf16(trunc(a / scale)).
  void (*scale)(const uint16_t* a, float scale, uint16_t* out, size_t count);
  void (*divide_truncate)(const uint16_t* a, float scale, uint16_t* out, size_t count);
  // One register: each column reduced over 32 rows, the result in all rows.
  void (*column_sum_halves)(const uint16_t* a, uint16_t* out);
  void (*column_sum_strides)(const uint16_t* a, uint16_t* out);
  void (*column_minimum)(const uint16_t* a, uint16_t* out);
  void (*column_maximum)(const uint16_t* a, uint16_t* out);
  // `registers` (1 or 2) side by side: each row reduced over its columns, the result in all.
  // A sum first folds the row into 4 (quarters) or 2 (halves) side by side.
  void (*row_sum)(const uint16_t* a, uint16_t* out, int registers, int folds);
  void (*row_minimum)(const uint16_t* a, uint16_t* out, int registers);
  void (*row_maximum)(const uint16_t* a, uint16_t* out, int registers);
};

extern const Kernels kPortableKernels;
#ifdef ATLAS_X86
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
#endif

// Kernels by name ("portable", "avx2", "avx512"); nullptr when this processor lacks them.
const Kernels* find_kernels(const char* name);
// The fastest ones this processor has.
const Kernels& best_kernels();

}  // namespace atlas
