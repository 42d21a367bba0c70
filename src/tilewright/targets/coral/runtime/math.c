/* Functions in f32: the same operations in the same order as functions.py and wide_functions.py. */
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
//@ exp_core
/* e^r * 2^n for small r, in two steps, so that subnormal results are reached. */
static __attribute__((noinline)) float tw_scaled_exp(float r, int32_t n) {
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
//@ exp
static __attribute__((noinline)) float tw_exp(float x) {
  if (x != x) return x;
  if (x > 88.72284f) return __builtin_inff();
  if (x < -103.97209f) return 0.0f;
  int32_t n = tw_to_int_even(x * 1.44269504f);
  float k = (float)n;
  return tw_scaled_exp((x - k * 0.693359375f) - k * -2.12194440e-4f, n);
}
//@ exp2
static __attribute__((noinline)) float tw_exp2(float x) {
  if (x != x) return x;
  if (x >= 128.0f) return __builtin_inff();
  if (x < -150.0f) return 0.0f;
  int32_t n = tw_to_int_even(x);
  return tw_scaled_exp((x - (float)n) * 0.693147182f, n);
}
//@ log_core
/* A positive float as an exponent and a mantissa around 1, minus 1; then log1p's higher terms. */
static inline float tw_split(float x, float *exponent) {
  int32_t e = -127;
  if (x < 1.17549435e-38f) { x = x * 8388608.0f; e -= 23; }
  uint32_t b = tw_bits(x);
  e += (int32_t)(b >> 23);
  float m = tw_from_bits((b & 0x7fffffu) | 0x3f800000u);
  if (m > 1.41421354f) { m = m * 0.5f; e += 1; }
  *exponent = (float)e;
  return m - 1.0f;
}
static __attribute__((noinline)) float tw_log_terms(float f) {
  float p = 0.0714788565f;
  p = p * f + -0.115707074f;
  p = p * f + 0.116619029f;
  p = p * f + -0.124111305f;
  p = p * f + 0.142499097f;
  p = p * f + -0.166684767f;
  p = p * f + 0.200007081f;
  p = p * f + -0.249999891f;
  p = p * f + 0.333333312f;
  return (p * f) * (f * f);
}
//@ log
static __attribute__((noinline)) float tw_log(float x) {
  if (x != x || x < 0.0f) return tw_from_bits(0x7fc00000u);
  if (x == 0.0f) return -__builtin_inff();
  if (x == __builtin_inff()) return x;
  float k, f = tw_split(x, &k);
  float y = tw_log_terms(f);
  y = y + k * -2.12194440e-4f;
  y = y - 0.5f * (f * f);
  y = f + y;
  return y + k * 0.693359375f;
}
//@ log2
static __attribute__((noinline)) float tw_log2(float x) {
  if (x != x || x < 0.0f) return tw_from_bits(0x7fc00000u);
  if (x == 0.0f) return -__builtin_inff();
  if (x == __builtin_inff()) return x;
  float k, f = tw_split(x, &k);
  return (f + (tw_log_terms(f) - 0.5f * (f * f))) * 1.44269504f + k;
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
//@ divide64
/* The core divides 32 bits; 64 go bit by bit. */
static __attribute__((noinline)) int64_t tw_div64(int64_t a, int64_t b) {
  if (b == 0) return -1;
  uint64_t n = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, d = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
  uint64_t q = 0, r = 0;
  for (int i = 63; i >= 0; i--) {
    r = (r << 1) | ((n >> i) & 1);
    if (r >= d) { r -= d; q |= (uint64_t)1 << i; }
  }
  return (int64_t)((a < 0) != (b < 0) ? 0 - q : q);
}
//@ convert64
/* Between f32 and 64 bits: truncated and saturated, NaN is 0; nearest, half to even. */
static __attribute__((noinline)) int64_t tw_to_int64(float x) {
  if (x != x) return 0;
  if (x >= 9223372036854775808.0f) return INT64_MAX;
  if (x <= -9223372036854775808.0f) return INT64_MIN;
  float a = __builtin_fabsf(x);
  if (a < 1073741824.0f) return tw_to_int_zero(x);
  uint32_t b = tw_bits(a);
  int64_t v = (int64_t)((b & 0x7fffffu) | 0x800000u) << ((b >> 23) - 150);
  return x < 0.0f ? -v : v;
}
static __attribute__((noinline)) float tw_from_int64(int64_t x) {
  uint64_t a = x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
  int shift = 0;
  while (a >> 32) { a = (a >> 1) | (a & 1); shift++; }  /* what falls off is remembered */
  float y = (float)(uint32_t)a * tw_from_bits((uint32_t)(shift + 127) << 23);
  return x < 0 ? -y : y;
}
//@ power_integer
static __attribute__((noinline)) int32_t tw_ipow(int32_t a, int32_t b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
  uint32_t r = 1, base = (uint32_t)a;
  for (; b; b >>= 1, base *= base) if (b & 1) r *= base;
  return (int32_t)r;
}
//@ power
static inline uint64_t tw_square_high(uint64_t a) {
  uint32_t l = (uint32_t)a, h = (uint32_t)(a >> 32);
  uint64_t middle = (uint64_t)h * l + (((uint64_t)l * l) >> 32);
  uint64_t other = (uint64_t)l * h + (uint32_t)middle;
  return (uint64_t)h * h + (middle >> 32) + (other >> 32);
}
static __attribute__((noinline)) float tw_power_plain(float a, float y) {  /* a > 0, both finite, not 0 */
  int64_t log = -127;
  if (a < 1.17549435e-38f) { a = a * 8388608.0f; log -= 23; }
  uint32_t b = tw_bits(a);
  log += (int64_t)(b >> 23);
  uint64_t u = (uint64_t)((b & 0x7fffffu) | 0x800000u) << 40;
  for (int i = 0; i < 55; i++) {  /* one bit of the logarithm per squaring */
    uint64_t s = tw_square_high(u);
    log = (int64_t)((uint64_t)log << 1);
    if (s >> 63) { u = s; log |= 1; } else u = s << 1;
  }
  uint32_t f = tw_bits(y) & 0x7fffffffu, m = f >> 23 ? (f & 0x7fffffu) | 0x800000u : f;
  int shift = (int)(f >> 23 ? f >> 23 : 1) - 126;
  uint64_t size = log < 0 ? 0 - (uint64_t)log : (uint64_t)log, most = (uint64_t)160 << 55;
  uint64_t product = (((size >> 32) * m) << 8) + (((uint64_t)(uint32_t)size * m) >> 24);
  int down = (log < 0) != (y < 0.0f);
  uint64_t e = 0;
  int left = shift > 62 ? 62 : shift;
  int huge = shift > 0 && product >= (most >> left);
  if (!huge) e = shift > 0 ? product << left : shift > -64 ? product >> -shift : product >> 63;
  if (huge || e >= most) return down ? 0.0f : __builtin_inff();
  int64_t x = down ? -(int64_t)e : (int64_t)e;
  int32_t n = (int32_t)((x + ((int64_t)1 << 54)) >> 55);
  int32_t rest = (int32_t)((x - ((int64_t)n << 55)) >> 24);
  return tw_scaled_exp(((float)rest * 4.65661287e-10f) * 0.693147182f, n);
}
static __attribute__((noinline)) float tw_power(float x, float y) {
  if (y == 0.0f || x == 1.0f) return 1.0f;
  if (x != x || y != y) return tw_from_bits(0x7fc00000u);
  float a = __builtin_fabsf(x), size = __builtin_fabsf(y), inf = __builtin_inff();
  int whole = size >= 8388608.0f || (float)tw_to_int_zero(y) == y;
  int odd = whole && size < 16777216.0f && (tw_to_int_zero(y) & 1);
  float r;
  if (size == inf && a == 1.0f) return 1.0f;
  if (x == 0.0f || a == inf || size == inf) r = (a > 1.0f) == (y > 0.0f) ? inf : 0.0f;
  else if (x < 0.0f && !whole) return tw_from_bits(0x7fc00000u);
  else r = tw_power_plain(a, y);
  return odd && (tw_bits(x) >> 31) ? -r : r;
}
//@ wave
static const uint32_t tw_two_over_pi[7] = {
  0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu};
/* sin of |x| moved on by `turn` quarter turns. */
static __attribute__((noinline)) float tw_wave(float x, int turn) {
  float r = __builtin_fabsf(x);
  if (!(r < __builtin_inff())) return tw_from_bits(0x7fc00000u);
  int quadrant = 0;
  if (!(r < 0.785398185f)) {
    uint32_t b = tw_bits(r), m = (b & 0x7fffffu) | 0x800000u;
    int e = (int)(b >> 23) - 150, offset = e > 2 ? e - 2 : 0;
    const uint32_t *w = tw_two_over_pi + (offset >> 5);
    uint32_t part[3];
    for (int k = 0; k < 3; k++)
      part[k] = (uint32_t)(((((uint64_t)w[k] << 32) | w[k + 1]) << (offset & 31)) >> 32);
    uint64_t middle = (uint64_t)part[1] * m + (((uint64_t)part[2] * m) >> 32);
    uint64_t top = (uint64_t)part[0] * m + (middle >> 32);
    uint64_t t = (uint32_t)middle | (top << 32);
    int shift = 2 - (e - offset);
    if (shift) t = (t >> shift) | ((top >> 32) << (64 - shift));
    uint64_t q = (t + ((uint64_t)1 << 61)) >> 62;
    quadrant = (int)q & 3;
    t -= q << 62;
    r = ((float)(int32_t)(t >> 32) * 4294967296.0f + (float)(uint32_t)t) * 3.40612159e-19f;
  }
  quadrant += turn;
  float z = r * r, y;
  if (quadrant & 1) {
    float p = -2.72912833e-07f;
    p = p * z + 2.48004958e-05f;
    p = p * z + -0.00138888873f;
    p = p * z + 0.0416666667f;
    y = (1.0f - 0.5f * z) + p * (z * z);
  } else {
    float p = 2.72498229e-06f;
    p = p * z + -0.000198400857f;
    p = p * z + 0.00833333187f;
    p = p * z + -0.166666667f;
    y = r + (p * z) * r;
  }
  return quadrant & 2 ? -y : y;
}
//@ sin
static inline float tw_sin(float x) { float y = tw_wave(x, 0); return tw_bits(x) >> 31 ? -y : y; }
//@ cos
static inline float tw_cos(float x) { return tw_wave(x, 1); }
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
