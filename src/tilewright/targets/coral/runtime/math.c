/* exp, log, tanh: the same operations in the same order as functions.py. */
static inline float tw_from_bits(uint32_t b) { union { uint32_t u; float f; } v = {b}; return v.f; }
static inline uint32_t tw_bits(float x) { union { float f; uint32_t u; } v = {x}; return v.u; }
static inline int32_t tw_to_int_even(float x) { int32_t r; __asm__("fcvt.w.s %0, %1, rne" : "=r"(r) : "f"(x)); return r; }
static inline int32_t tw_to_int_zero(float x) { int32_t r; __asm__("fcvt.w.s %0, %1, rtz" : "=r"(r) : "f"(x)); return r; }
static inline int32_t tw_to_int_down(float x) { int32_t r; __asm__("fcvt.w.s %0, %1, rdn" : "=r"(r) : "f"(x)); return r; }
static inline int32_t tw_to_int_up(float x) { int32_t r; __asm__("fcvt.w.s %0, %1, rup" : "=r"(r) : "f"(x)); return r; }
//@ round
static inline float tw_whole(float x, int32_t i) {  /* what rounds to itself stays, so does the sign of zero */
  return __builtin_fabsf(x) < 8388608.0f ? __builtin_copysignf((float)i, x) : x;
}
static inline float tw_round(float x) { return tw_whole(x, tw_to_int_even(x)); }
static inline float tw_floor(float x) { return tw_whole(x, tw_to_int_down(x)); }
static inline float tw_ceil(float x) { return tw_whole(x, tw_to_int_up(x)); }
//@ max
/* The larger or smaller; NaN if either is; -0 below +0. */
static inline float tw_max(float a, float b) { return a != a ? a : b != b ? b : __builtin_fmaxf(a, b); }
static inline float tw_min(float a, float b) { return a != a ? a : b != b ? b : __builtin_fminf(a, b); }
//@ exp
static __attribute__((noinline)) float tw_exp(float x) {
  if (x != x) return x;
  if (x > 88.72284f) return __builtin_inff();
  if (x < -103.97209f) return 0.0f;
  int32_t n = tw_to_int_even(x * 1.44269504f);
  float k = (float)n;
  float r = (x - k * 0.693359375f) - k * -2.12194440e-4f;
  float p = 0.000199004305f;
  p = p * r + 0.00139345337f;
  p = p * r + 0.00833329708f;
  p = p * r + 0.0416664569f;
  p = p * r + 0.166666667f;
  p = p * r + 0.500000001f;
  float y = (p * (r * r) + r) + 1.0f;
  int32_t half = n >> 1;
  y = tw_from_bits((uint32_t)(half + 127) << 23) * y;
  return tw_from_bits((uint32_t)(n - half + 127) << 23) * y;
}
//@ log
static __attribute__((noinline)) float tw_log(float x) {
  if (x != x || x < 0.0f) return tw_from_bits(0x7fc00000u);
  if (x == 0.0f) return -__builtin_inff();
  if (x == __builtin_inff()) return x;
  int32_t e = -127;
  if (x < 1.17549435e-38f) { x = x * 8388608.0f; e -= 23; }
  uint32_t b = tw_bits(x);
  e += (int32_t)(b >> 23);
  float m = tw_from_bits((b & 0x7fffffu) | 0x3f800000u);
  if (m > 1.41421354f) { m = m * 0.5f; e += 1; }
  float k = (float)e, f = m - 1.0f, s = f * f;
  float p = 0.0714788565f;
  p = p * f + -0.115707074f;
  p = p * f + 0.116619029f;
  p = p * f + -0.124111305f;
  p = p * f + 0.142499097f;
  p = p * f + -0.166684767f;
  p = p * f + 0.200007081f;
  p = p * f + -0.249999891f;
  p = p * f + 0.333333312f;
  float y = (p * f) * s;
  y = y + k * -2.12194440e-4f;
  y = y - 0.5f * s;
  y = f + y;
  return y + k * 0.693359375f;
}
//@ tanh
static __attribute__((noinline)) float tw_tanh(float x) {
  if (x != x) return x;
  float a = __builtin_fabsf(x);
  if (a < 0.625f) {
    float z = x * x, p = 0.0022958411f;
    p = p * z + -0.00834698031f;
    p = p * z + 0.0217699608f;
    p = p * z + -0.0539594059f;
    p = p * z + 0.133333043f;
    p = p * z + -0.333333332f;
    return __builtin_copysignf(x + (p * z) * x, x);  /* -0 stays */
  }
  return __builtin_copysignf(1.0f - 2.0f / (tw_exp(a + a) + 1.0f), x);
}
//@ erf
static __attribute__((noinline)) float tw_erf(float x) {
  if (x != x) return x;
  float a = __builtin_fabsf(x), z = x * x;
  if (a < 1.0f) {
    float p = -9.67359107e-06f;
    p = p * z + 0.00011268254f;
    p = p * z + -0.000848439656f;
    p = p * z + 0.00522105341f;
    p = p * z + -0.0268654383f;
    p = p * z + 0.112837826f;
    p = p * z + -0.376126385f;
    p = p * z + 1.12837917f;
    return p * x;
  }
  if (a > 4.0f) return __builtin_copysignf(1.0f, x);
  float t = 1.0f / (1.0f + 0.5f * a);
  float p = -0.0798789669f;
  p = p * t + 0.372466257f;
  p = p * t + -0.645699782f;
  p = p * t + 0.437151146f;
  p = p * t + -0.123657185f;
  p = p * t + 0.239473032f;
  p = p * t + 0.234641091f;
  p = p * t + 0.283456327f;
  p = p * t + 0.282027582f;
  return __builtin_copysignf(1.0f - (p * t) * tw_exp(-z), x);
}
//@ sigmoid
static inline float tw_sigmoid(float x) { return 1.0f / (1.0f + tw_exp(-x)); }
//@ divide
static inline int32_t tw_div(int32_t a, int32_t b) {  /* as the core: x / 0 = -1, overflow stays */
  return b == 0 ? -1 : b == -1 ? (int32_t)(0u - (uint32_t)a) : a / b;
}
//@ requantise
/* acc * m * 2^-(32 + r), rounded half to even, saturated twice, as the vector unit does it. */
static inline int32_t tw_clip(int32_t v, int32_t low, int32_t high) { return v < low ? low : v > high ? high : v; }
static inline int32_t tw_shift_even(int32_t h, int32_t r) {
  if (r == 0) return h;
  int32_t q = h >> r, rest = h & ((1 << r) - 1), half = 1 << (r - 1);
  return q + (rest > half || (rest == half && (q & 1)));
}
static inline int32_t tw_requantise(int32_t acc, int32_t m, int32_t r, int32_t zero, int32_t lower, int32_t upper) {
  int32_t h = (int32_t)(((int64_t)acc * m) >> 32);
  int32_t q = tw_clip(tw_shift_even(h, r), -32768, 32767);
  q = tw_clip(q + zero, -32768, 32767);
  return tw_clip(tw_clip(q, lower, 32767), -128, upper);
}
//@ quantise
static inline int8_t tw_quantise(float q) {  /* q is whole, or NaN */
  int32_t i = q != q ? 0 : tw_to_int_even(q);
  return (int8_t)(i < -128 ? -128 : i > 127 ? 127 : i);
}
