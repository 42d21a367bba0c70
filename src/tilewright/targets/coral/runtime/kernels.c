//@ gemm
/* Columns of four rows: r[p] = start + sum over k of a[p][k] * b[k], n columns, at most sixteen.
   A load costs the same for any width: A is read in words where its rows are aligned, and four
   rows of B at once where they are sixteen bytes and lie together. */
#define TW_STEP(bytes, shift)                                                     \
  { vint16m2_t w = __riscv_vsext_vf2_i16m2(bytes, n);                             \
    r0 = __riscv_vwmacc_vx_i32m4(r0, (int8_t)(w0 >> shift), w, n);                \
    r1 = __riscv_vwmacc_vx_i32m4(r1, (int8_t)(w1 >> shift), w, n);                \
    r2 = __riscv_vwmacc_vx_i32m4(r2, (int8_t)(w2 >> shift), w, n);                \
    r3 = __riscv_vwmacc_vx_i32m4(r3, (int8_t)(w3 >> shift), w, n); }
#define TW_GEMM_BODY(start)                                                       \
  vint32m4_t r0 = start, r1 = r0, r2 = r0, r3 = r0;                               \
  int i = 0;                                                                      \
  if (aligned && ldb == 16)                                                       \
    for (; i + 4 <= k; i += 4) {                                                  \
      const uint32_t w0 = *(const uint32_t *)(a0 + i), w1 = *(const uint32_t *)(a1 + i); \
      const uint32_t w2 = *(const uint32_t *)(a2 + i), w3 = *(const uint32_t *)(a3 + i); \
      vint8m4_t rows = __riscv_vle8_v_i8m4(b, 64);                                \
      b += 64;                                                                    \
      TW_STEP(__riscv_vget_v_i8m4_i8m1(rows, 0), 0)                               \
      TW_STEP(__riscv_vget_v_i8m4_i8m1(rows, 1), 8)                               \
      TW_STEP(__riscv_vget_v_i8m4_i8m1(rows, 2), 16)                              \
      TW_STEP(__riscv_vget_v_i8m4_i8m1(rows, 3), 24)                              \
    }                                                                             \
  else if (aligned)                                                               \
    for (; i + 4 <= k; i += 4, b += 4 * ldb) {                                    \
      const uint32_t w0 = *(const uint32_t *)(a0 + i), w1 = *(const uint32_t *)(a1 + i); \
      const uint32_t w2 = *(const uint32_t *)(a2 + i), w3 = *(const uint32_t *)(a3 + i); \
      TW_STEP(__riscv_vle8_v_i8m1(b, n), 0)                                       \
      TW_STEP(__riscv_vle8_v_i8m1(b + ldb, n), 8)                                 \
      TW_STEP(__riscv_vle8_v_i8m1(b + 2 * ldb, n), 16)                            \
      TW_STEP(__riscv_vle8_v_i8m1(b + 3 * ldb, n), 24)                            \
    }                                                                             \
  for (; i < k; i++, b += ldb) {                                                  \
    const int8_t w0 = a0[i], w1 = a1[i], w2 = a2[i], w3 = a3[i];                  \
    TW_STEP(__riscv_vle8_v_i8m1(b, n), 0)                                         \
  }
//@ gemm_i32
/* Int8 products summed in 32 bits; y has rows of ldy elements. */
static __attribute__((noinline)) void k_gemm_i32(const int8_t *a0, const int8_t *a1, const int8_t *a2, const int8_t *a3,
                                                 const int8_t *b, int32_t *const y[4], const int *size) {
  const int k = size[0], ldb = size[1], aligned = size[2];
  const size_t n = (size_t)size[3];
  TW_GEMM_BODY(__riscv_vmv_v_x_i32m4(0, n))
  __riscv_vse32_v_i32m4(y[0], r0, n);
  __riscv_vse32_v_i32m4(y[1], r1, n);
  __riscv_vse32_v_i32m4(y[2], r2, n);
  __riscv_vse32_v_i32m4(y[3], r3, n);
}
//@ gemm_i8
/* The same with the sums requantised: high product, shift half to even, zero point, bounds. */
struct tw_scale { const int32_t *bias, *multiplier; const int16_t *shift; int16_t left, zero, lower, upper; };
static inline void tw_finish(int8_t *y, vint32m4_t r, vint32m4_t m, vuint16m2_t s, const struct tw_scale *q, size_t n) {
  if (q->left) r = __riscv_vsll_vx_i32m4(r, (size_t)q->left, n);
  vint16m2_t h = __riscv_vnclip_wv_i16m2(__riscv_vmulh_vv_i32m4(r, m, n), s, __RISCV_VXRM_RNE, n);
  h = __riscv_vmax_vx_i16m2(__riscv_vsadd_vx_i16m2(h, q->zero, n), q->lower, n);
  h = __riscv_vmin_vx_i16m2(h, q->upper, n);
  __riscv_vse8_v_i8m1(y, __riscv_vnclip_wx_i8m1(h, 0, __RISCV_VXRM_RNE, n), n);
}
static __attribute__((noinline)) void k_gemm_i8(const int8_t *a0, const int8_t *a1, const int8_t *a2, const int8_t *a3,
                                                const int8_t *weights, int8_t *const y[4], const int *size,
                                                const struct tw_scale *q) {
  const int k = size[0], columns = size[1], aligned = size[2];
  for (int f = 0; f < columns; f += 16) {  /* weights lie in blocks of sixteen columns */
    const int ldb = columns - f < 16 ? columns - f : 16;
    const size_t n = (size_t)ldb;
    const int8_t *b = weights + f * k;
    TW_GEMM_BODY(__riscv_vle32_v_i32m4(q->bias + f, n))
    vint32m4_t m = __riscv_vle32_v_i32m4(q->multiplier + f, n);
    vuint16m2_t s = __riscv_vle16_v_u16m2((const uint16_t *)q->shift + f, n);
    tw_finish(y[0] + f, r0, m, s, q, n);
    tw_finish(y[1] + f, r1, m, s, q, n);
    tw_finish(y[2] + f, r2, m, s, q, n);
    tw_finish(y[3] + f, r3, m, s, q, n);
  }
}
//@ patch
/* One output pixel's window as a row of bytes; what lies outside of the image is `zero`. */
struct tw_window { int height, width, channels, kernel_height, kernel_width, dilation_y, dilation_x; int8_t zero; };
static inline void tw_copy(int8_t *to, const int8_t *from, int count) {
  while (count > 0) {
    size_t n = __riscv_vsetvl_e8m4((size_t)count);
    __riscv_vse8_v_i8m4(to, __riscv_vle8_v_i8m4(from, n), n);
    to += n; from += n; count -= (int)n;
  }
}
static inline void tw_set(int8_t *to, int8_t value, int count) {
  while (count > 0) {
    size_t n = __riscv_vsetvl_e8m4((size_t)count);
    __riscv_vse8_v_i8m4(to, __riscv_vmv_v_x_i8m4(value, n), n);
    to += n; count -= (int)n;
  }
}
static __attribute__((noinline)) void k_patch_i8(int8_t *to, const int8_t *image, int y, int x, const struct tw_window *w) {
  const int row = w->kernel_width * w->channels;
  for (int ky = 0; ky < w->kernel_height; ky++, y += w->dilation_y) {
    if (y < 0 || y >= w->height) {
      tw_set(to, w->zero, row);
      to += row;
    } else if (w->dilation_x == 1 && x >= 0 && x + w->kernel_width <= w->width) {
      tw_copy(to, image + (y * w->width + x) * w->channels, row);
      to += row;
    } else {
      for (int kx = 0; kx < w->kernel_width; kx++, to += w->channels) {
        const int at = x + kx * w->dilation_x;
        if (at < 0 || at >= w->width) tw_set(to, w->zero, w->channels);
        else tw_copy(to, image + (y * w->width + at) * w->channels, w->channels);
      }
    }
  }
}
//@ depthwise_i8
/* One output pixel of a depthwise convolution: taps[t] points at the pixel under tap t. */
static __attribute__((noinline)) void k_depthwise_i8(const int8_t *const *taps, const int8_t *weights, int8_t *y,
                                                     int count, int channels, const struct tw_scale *q) {
  for (int f = 0; f < channels; f += 16) {
    const size_t n = (size_t)(channels - f < 16 ? channels - f : 16);
    vint32m4_t r = __riscv_vle32_v_i32m4(q->bias + f, n);
    const int8_t *w = weights + f;
    for (int t = 0; t < count; t++, w += channels) {
      vint8m1_t x = __riscv_vle8_v_i8m1(taps[t] + f, n);
      r = __riscv_vwadd_wv_i32m4(r, __riscv_vwmul_vv_i16m2(x, __riscv_vle8_v_i8m1(w, n), n), n);
    }
    vint32m4_t m = __riscv_vle32_v_i32m4(q->multiplier + f, n);
    tw_finish(y + f, r, m, __riscv_vle16_v_u16m2((const uint16_t *)q->shift + f, n), q, n);
  }
}
//@ add_i8
/* (a - za) * ma + (b - zb) * mb, shifted by 20 half to even, zero point, bounds. */
struct tw_sum { int32_t multiplier_a, multiplier_b, offset; int16_t zero, lower, upper; };
static __attribute__((noinline)) void k_add_i8(int8_t *y, const int8_t *a, const int8_t *b, int count, const struct tw_sum *s) {
  while (count > 0) {
    size_t n = __riscv_vsetvl_e8m1((size_t)count);
    vint32m4_t t = __riscv_vmul_vx_i32m4(__riscv_vsext_vf4_i32m4(__riscv_vle8_v_i8m1(a, n), n), s->multiplier_a, n);
    t = __riscv_vmacc_vx_i32m4(t, s->multiplier_b, __riscv_vsext_vf4_i32m4(__riscv_vle8_v_i8m1(b, n), n), n);
    t = __riscv_vadd_vx_i32m4(t, s->offset, n);
    t = __riscv_vssra_vx_i32m4(t, 20, __RISCV_VXRM_RNE, n);
    vint16m2_t h = __riscv_vnclip_wx_i16m2(t, 0, __RISCV_VXRM_RNE, n);
    h = __riscv_vmax_vx_i16m2(__riscv_vadd_vx_i16m2(h, s->zero, n), s->lower, n);
    h = __riscv_vmin_vx_i16m2(h, s->upper, n);
    __riscv_vse8_v_i8m1(y, __riscv_vnclip_wx_i8m1(h, 0, __RISCV_VXRM_RNE, n), n);
    y += n; a += n; b += n; count -= (int)n;
  }
}
//@ row_f32
/* y[0..n) = bias + sum over k of x[k] * w[k][0..n): products and sums round apart, as scalar code does. */
static __attribute__((noinline)) void k_row_f32(float *y, const float *x, const float *w, int k, int ldw, int n, int first) {
  for (int f = 0; f < n; f += 16) {
    const size_t l = (size_t)(n - f < 16 ? n - f : 16);
    vfloat32m4_t r = first ? __riscv_vfmv_v_f_f32m4(0.0f, l) : __riscv_vle32_v_f32m4(y + f, l);
    const float *b = w + f;
    for (int i = 0; i < k; i++, b += ldw)
      r = __riscv_vfadd_vv_f32m4(r, __riscv_vfmul_vf_f32m4(__riscv_vle32_v_f32m4(b, l), x[i], l), l);
    __riscv_vse32_v_f32m4(y + f, r, l);
  }
}
