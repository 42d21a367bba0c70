"""C++ source of the core kernels of a design, for the vendor's compiler. It is written, not run."""

from __future__ import annotations

from tilewright.targets.xdna.design import Design, Kernel

_CPP = {"i8": "int8", "i16": "int16", "i32": "int32", "bf16": "bfloat16", "f32": "float"}


def kernel_source(design: Design) -> str:
    """One translation unit with every kernel the cores call."""
    parts = [
        "// Kernels of a GEMM design. Tiles come in blocks, as the DMA engines lay them.",
        "#include <aie_api/aie.hpp>",
        "",
    ]
    for kernel in design.kernels:
        if kernel.kind == "zero":
            parts.append(_zero(kernel))
        elif kernel.kind == "multiply":
            parts.append(_ternary(kernel) if kernel.weights == "ternary" else _multiply(kernel))
    return "\n".join(parts)


def _zero(kernel: Kernel) -> str:
    kind = _CPP[kernel.output]
    size = {"int8": 1, "int16": 2, "bfloat16": 2}.get(kind, 4)
    lanes = 64 // size
    return f"""extern "C" void {kernel.name}({kind} *__restrict c) {{
  const auto zeros = aie::zeros<{kind}, {lanes}>();
  for (unsigned i = 0; i < {kernel.m * kernel.n}; i += {lanes})
    aie::store_v(c + i, zeros);
}}
"""


def _multiply(kernel: Kernel) -> str:
    r, s, t = kernel.block
    a, b, c = _CPP[kernel.inputs], _CPP[kernel.inputs], _CPP[kernel.output]
    rows, steps, columns = kernel.m // r, kernel.k // s, kernel.n // t
    accumulator = "accfloat" if kernel.inputs == "bf16" else "acc32"
    if kernel.weights == "int4":
        load = "aie::unpack(aie::load_v<{size}>((const int4 *)(b) + {at}))"
        b = "int8"
    else:
        load = "aie::load_v<{size}>(b + {at})"
    column = kernel.b_layout == "col"
    # Block (i, j) of B: rows of blocks, or columns of blocks with each block transposed here.
    at = (
        f"((j + {{x}}) * {steps} + i) * {s * t}"
        if column
        else f"(i * {columns} + j + {{x}}) * {s * t}"
    )
    if kernel.weights == "int4":
        at = f"((j / 2) * {steps} + i) * {2 * s * t} + {{x}} * {s * t}"

    def b_block(x: int) -> str:
        text = load.format(size=s * t, at=at.format(x=x))
        return f"aie::transpose({text}, {t}, {s})" if column else text

    # Column-major C: blocks in column order, each one turned.
    c_at = f"(j * {rows} + z)" if kernel.c_layout == "col" else f"(z * {columns} + j)"
    beside = rows if kernel.c_layout == "col" else 1
    below = 1 if kernel.c_layout == "col" else columns
    block = r * t

    def c_load(offset: int) -> str:
        text = f"aie::load_v<{block}>(c_group + {offset * block})"
        return f"aie::transpose({text}, {t}, {r})" if kernel.c_layout == "col" else text

    def c_store(name: str, offset: int) -> str:
        text = f"{name}.to_vector<{c}>({kernel.shift})"
        if kernel.c_layout == "col":
            text = f"aie::transpose({text}, {r}, {t})"
        return f"aie::store_v(c_group + {offset * block}, {text});"

    shift = f", {kernel.shift}" if kernel.shift else ""
    return f"""extern "C" void {kernel.name}(const {a} *__restrict a, const {b} *__restrict b,
                                        {c} *__restrict c) {{
  using Block = aie::mmul<{r}, {s}, {t}, {a}, {b}, {accumulator}>;
  for (unsigned z = 0; z < {rows}; z += 2) {{
    for (unsigned j = 0; j < {columns}; j += 2) {{
      {c} *c_group = c + {c_at} * {block};
      Block c00({c_load(0)}{shift}), c01({c_load(beside)}{shift});
      Block c10({c_load(below)}{shift}), c11({c_load(below + beside)}{shift});
      for (unsigned i = 0; i < {steps}; ++i) {{
        const auto a0 = aie::load_v<{r * s}>(a + (z * {steps} + i) * {r * s});
        const auto a1 = aie::load_v<{r * s}>(a + ((z + 1) * {steps} + i) * {r * s});
        const auto b0 = {b_block(0)};
        const auto b1 = {b_block(1)};
        c00.mac(a0, b0);
        c01.mac(a0, b1);
        c10.mac(a1, b0);
        c11.mac(a1, b1);
      }}
      {c_store("c00", 0)}
      {c_store("c01", beside)}
      {c_store("c10", below)}
      {c_store("c11", below + beside)}
    }}
  }}
}}
"""


def _ternary(kernel: Kernel) -> str:
    r, s, t = kernel.block
    rows, steps, columns = kernel.m // r, kernel.k // s, kernel.n // t
    block = r * t
    less0, less1 = (
        ("aie::sub({}, ones)", "aie::sub({}, fours)")
        if kernel.zero_point == "sub"
        else ("{}", "{}")
    )
    left = less0.format("aie::bit_and(x, low)")
    right = less1.format("aie::bit_and(x, high)")
    col = kernel.c_layout == "col"
    at = f"(j * {rows} + z)" if col else f"(z * {columns} + j)"
    beside, below = (rows, 1) if col else (1, columns)

    def load(offset: int) -> str:
        text = f"aie::load_v<{block}>(c_group + {offset * block})"
        return f"aie::transpose({text}, {t}, {r})" if col else text

    def store(name: str, offset: int, shift: str) -> str:
        text = f"{name}.to_vector<int32>({shift})"
        if col:
            text = f"aie::transpose({text}, {r}, {t})"
        return f"aie::store_v(c_group + {offset * block}, {text});"

    return f"""// Two-bit weights: a nibble holds the codes of a left and a right column. Sums of right columns
// are four times too large until the last step shifts them back.
extern "C" void {kernel.name}(const int8 *__restrict a, const int8 *__restrict b,
                                        int32 *__restrict c, int32 last) {{
  using Block = aie::mmul<{r}, {s}, {t}, int8, int8, acc32>;
  const auto low = aie::broadcast<int8, {s * t}>(0x03);
  const auto high = aie::broadcast<int8, {s * t}>(0x0C);
  const auto ones = aie::broadcast<int8, {s * t}>(1);
  const auto fours = aie::broadcast<int8, {s * t}>(4);
  const unsigned right_shift = last ? 2 : 0;
  for (unsigned z = 0; z < {rows}; z += 2) {{
    for (unsigned j = 0; j < {columns}; j += 2) {{
      int32 *c_group = c + {at} * {block};
      Block c00({load(0)}), c01({load(beside)}), c10({load(below)}), c11({load(below + beside)});
      const int8 *packed = b + (j / 2) * {steps} * {s * t // 2};
      for (unsigned i = 0; i < {steps}; i += 2) {{
        const auto both = aie::unpack(aie::load_v<{2 * s * t}>((const uint4 *)packed + i * {s * t}));
        for (unsigned half = 0; half < 2; ++half) {{
          const auto x = both.template extract<{s * t}>(half).template cast_to<int8>();
          const auto b0 = {left};
          const auto b1 = {right};
          const auto a0 = aie::load_v<{r * s}>(a + (z * {steps} + i + half) * {r * s});
          const auto a1 = aie::load_v<{r * s}>(a + ((z + 1) * {steps} + i + half) * {r * s});
          c00.mac(a0, b0);
          c01.mac(a0, b1);
          c10.mac(a1, b0);
          c11.mac(a1, b1);
        }}
      }}
      {store("c00", 0, "0")}
      {store("c01", beside, "right_shift")}
      {store("c10", below, "0")}
      {store("c11", below + beside, "right_shift")}
    }}
  }}
}}
"""
