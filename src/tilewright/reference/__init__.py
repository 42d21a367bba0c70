"""The golden executor and exact low-precision arithmetic.

`executor.run` executes a module of func, arith, math, tensor, linalg, scf, attention, npu_kernel
or npu_schedule operations on numpy arrays. It defines what a program means; passes are checked by
running their input and their output.

Rules of arithmetic
    element-wise      every operation is the exact result rounded once to its type (nearest, ties to
                      even); + - * / sqrt exactly so, transcendental functions through float64
    conversions       one rounding; f8E4M3FN saturates at ±448 and keeps NaN, the other floats overflow
                      to infinity; float to integer truncates, saturates, and NaN becomes 0
    contractions      exact products, sums in float64, one rounding to the result type, the initial
                      value included; integers modulo 2^bits
    reductions        sums and products in float64 with one rounding; maxima and minima exact
    several steps     softmax, activations, rope, quantisation as one operation: the steps of
                      `composites` in their order, each rounded to the element type; norms in float32
    attention         scores exact, scaled, rounded to the score type; the rest in float64; one
                      rounding; a row without keys is 0
    tensor.empty      NaN, so that reading it shows

Sums wider than the result make the order of addition, and therefore tiling, invisible up to a chance of
about 1e-8 per f32 element of meeting a rounding boundary. `Semantics(accumulate="stepwise")` rounds
every step of a reduction as its body says instead.

Modules: `dtypes` element types and rounding; `scalar_ops` arith and math; `program` and
`executor` the machinery; `bodies`, `views`, `linalg_generic`, `contraction`, `reductions` loop nests;
`composites`, `attention`, `families` kernels; `ops_*` one file per dialect; `compare` results.
"""
