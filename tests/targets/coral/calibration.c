/* Programs whose cycles were measured; KIND chooses one. Their code must not change. */
#include <riscv_vector.h>
#include <stdint.h>
#define IO __attribute__((section(".data"), aligned(16), used))
enum { M = 16, K = 48, N = 16 };   /* KIND 0..2: C[M][N] = A[M][K] * B[K][N] */
TI input_0[M * K] IO, input_1[K * N] IO;
TO output_0[M * N] IO;
int main(void) {
  int8_t *d = (int8_t *)output_0; (void)d;
#if KIND < 2                       /* 0: f32 scalar, 1: int8 scalar */
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) { TO s = 0;
      for (int k = 0; k < K; k++) s += (TO)input_0[i * K + k] * (TO)input_1[k * N + j];
      output_0[i * N + j] = s;
    }
#elif KIND == 2                    /* int8 RVV, 4 x 16 accumulators, A read byte by byte */
  for (int i = 0; i < M; i += 4) {
    const int8_t *a = (const int8_t *)input_0 + i * K;
    vint32m4_t r0 = __riscv_vmv_v_x_i32m4(0, N), r1 = r0, r2 = r0, r3 = r0;
    for (int k = 0; k < K; k++) {
      vint16m2_t b = __riscv_vsext_vf2_i16m2(__riscv_vle8_v_i8m1((int8_t *)input_1 + k * N, N), N);
      r0 = __riscv_vwmacc_vx_i32m4(r0, a[k], b, N);         r1 = __riscv_vwmacc_vx_i32m4(r1, a[k + K], b, N);
      r2 = __riscv_vwmacc_vx_i32m4(r2, a[k + 2 * K], b, N); r3 = __riscv_vwmacc_vx_i32m4(r3, a[k + 3 * K], b, N);
    }
    int32_t *o = (int32_t *)output_0 + i * N;
    __riscv_vse32_v_i32m4(o, r0, N);         __riscv_vse32_v_i32m4(o + N, r1, N);
    __riscv_vse32_v_i32m4(o + 2 * N, r2, N); __riscv_vse32_v_i32m4(o + 3 * N, r3, N);
  }
#elif KIND == 3                    /* ReLU of 768 bytes, LMUL 4 */
  for (int i = 0; i < M * K; i += 64)
    __riscv_vse8_v_i8m4(d + i, __riscv_vmax_vx_i8m4(__riscv_vle8_v_i8m4(input_0 + i, 64), 0, 64), 64);
#elif KIND == 4                    /* 16 dot products of length 32, horizontal sum */
  for (int i = 0; i < M; i++) {
    vint16m4_t p = __riscv_vwmul_vv_i16m4(__riscv_vle8_v_i8m2(input_0 + i * K, 32), __riscv_vle8_v_i8m2(input_1, 32), 32);
    output_0[i] = __riscv_vmv_x_s_i32m1_i32(__riscv_vwredsum_vs_i16m4_i32m1(p, __riscv_vmv_v_x_i32m1(0, 4), 32));
  }
#elif KIND == 5                    /* requantisation shape: widen, vmulh, two vnclip, 768 values */
  for (int i = 0; i < M * K; i += 16) {
    vint32m4_t v = __riscv_vsll_vx_i32m4(__riscv_vsext_vf4_i32m4(__riscv_vle8_v_i8m1(input_0 + i, 16), 16), 20, 16);
    vint16m2_t h = __riscv_vnclip_wx_i16m2(__riscv_vmulh_vx_i32m4(v, 1518500250, 16), 15, __RISCV_VXRM_RNE, 16);
    __riscv_vse8_v_i8m1(d + i, __riscv_vnclip_wx_i8m1(h, 0, __RISCV_VXRM_RNE, 16), 16);
  }
#endif
  return 0;
}
