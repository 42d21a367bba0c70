"""Micro-kernels for the first Atlas machine, as a manifest.

Each kernel loads whole tiles from DRAM into VMEM, computes, and stores the result. Addresses are
always made by `lui` and `addi`, so a kernel can be moved anywhere. A kernel starts and ends with
idle channels and idle units, so kernels can follow each other in any order; the matmul chain
keeps accumulator 0 of matrix unit 0 from call to call.

`python -m tilewright.targets.atlas.manifest.atlas_v0_manifest` prints the JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tilewright.transforms.kernel_manifest import NativeInstruction, instruction, load_address

TILE_FP8 = 1024
HALF = 1024
TILE_BF16 = 2048

# Scalar registers: addresses of inputs and output, transfer sizes, VMEM places.
INPUT_REGISTERS = (1, 2)
OUTPUT_REGISTER = 3
SIZE_FP8, SIZE_BF16 = 4, 5
VMEM_INPUTS, VMEM_OUTPUT = (6, 7), 8
OUTPUT_RIGHT, VMEM_RIGHT = 9, 10
VMEM_PLACES = (0x0000, 0x0800, 0x1000)

# Latencies of a matmul and of a vstore, minus the two ticks a `delay` itself takes; and of a vstore
# when one transfer is issued in between.
MATMUL_DRAIN = 30
VSTORE_DRAIN = 14
SECOND_VSTORE_DRAIN = 13

# Ticks from reset to the end of a program that is just this kernel, measured on the simulator.
CYCLES = {
    "matmul": 182,
    "matmul_acc_first": 115,
    "matmul_acc_mid": 115,
    "matmul_acc_last": 182,
    **dict.fromkeys(("elementwise_add", "elementwise_sub", "elementwise_mul"), 202),
    **dict.fromkeys(("elementwise_max", "elementwise_min"), 202),
    "silu": 156,
    "softmax": 158,
    "requant": 117,
}
UNARY_CYCLES = 136


@dataclass
class Builder:
    """Collects a kernel's instructions and patch points."""

    instructions: list[NativeInstruction] = field(default_factory=list)
    patch_points: list[dict[str, Any]] = field(default_factory=list)

    def emit(self, mnemonic: str, **args: int) -> None:
        self.instructions.append(instruction(mnemonic, **args))

    def set_register(self, register: int, value: int) -> list[int]:
        """Put a value into a scalar register; returns the indices of the instructions."""
        first = len(self.instructions)
        self.instructions += load_address(register, value)
        return [first, first + 1]

    def address(self, role: str, register: int, value: int, operand: int | None) -> None:
        """An address the compiler will fill in."""
        indices = self.set_register(register, value)
        point = {
            "role": role,
            "register": register,
            "original_value": value,
            "instructions": indices,
        }
        self.patch_points.append(point if operand is None else {**point, "operand": operand})

    def begin(self, inputs: int, input_bytes: int, output_bytes: int | None) -> None:
        """Addresses, sizes and VMEM places, then all inputs into VMEM."""
        place = 0
        for index in range(inputs):
            self.address(f"dram_in_{index}", INPUT_REGISTERS[index], place, index)
            place += input_bytes
        if output_bytes is not None:
            self.address("dram_out_0", OUTPUT_REGISTER, place, None)
        self.set_register(SIZE_FP8, TILE_FP8)
        self.set_register(SIZE_BF16, TILE_BF16)
        for register, value in zip((*VMEM_INPUTS, VMEM_OUTPUT), VMEM_PLACES, strict=True):
            self.set_register(register, value)
        size = SIZE_FP8 if input_bytes == TILE_FP8 else SIZE_BF16
        for index in range(inputs):
            self.emit(
                "dma.load.ch<N>",
                rd=VMEM_INPUTS[index],
                rs1=INPUT_REGISTERS[index],
                rs2=size,
                size=0,
                channel=index,
            )
        if output_bytes == TILE_BF16:
            # Places of the right half, worked out while the inputs arrive.
            self.emit("addi", rd=OUTPUT_RIGHT, rs1=OUTPUT_REGISTER, imm=HALF)
            self.emit("addi", rd=VMEM_RIGHT, rs1=VMEM_OUTPUT, imm=HALF)
        for index in range(inputs):
            self.emit("dma.wait.ch<N>", channel=index)

    def load(self, register: int, which: int, half: int = 0) -> None:
        """One tensor register from a VMEM input; `half` 1 is the right half of a bf16 tile."""
        self.emit("vload", vd=register, rs1=VMEM_INPUTS[which], imm12=32 * half)

    def store(self, register: int, half: int = 0) -> None:
        self.emit("vstore", vd=register, rs1=VMEM_OUTPUT, imm12=32 * half)

    def end(self, output_bytes: int) -> None:
        """The result from VMEM to DRAM; a transfer starts once its vstore is done.

        A bf16 tile goes in two halves: the left one travels while the right one is stored.
        """
        if output_bytes == TILE_FP8:
            self.emit("delay", imm=VSTORE_DRAIN)
            self._send(OUTPUT_REGISTER, VMEM_OUTPUT, 0)
            self.emit("dma.wait.ch<N>", channel=0)
            return
        self._send(OUTPUT_REGISTER, VMEM_OUTPUT, 0)
        self.emit("delay", imm=SECOND_VSTORE_DRAIN)
        self._send(OUTPUT_RIGHT, VMEM_RIGHT, 1)
        for channel in range(2):
            self.emit("dma.wait.ch<N>", channel=channel)

    def _send(self, target: int, source: int, channel: int) -> None:
        self.emit("dma.store.ch<N>", rd=target, rs1=source, rs2=SIZE_FP8, size=0, channel=channel)


def _kernel(name: str, inputs: str, output: str, body: Builder) -> tuple[str, dict[str, Any]]:
    """A manifest entry under the kernel's own symbol."""
    return name, {
        "symbol_prefix": f"npu_uk_{name}",
        "tile_shape": [32, 32],
        "input_layout": inputs,
        "output_layout": output,
        "cycles": CYCLES.get(name, UNARY_CYCLES),
        "num_instructions": len(body.instructions),
        "instructions": [i.to_json() for i in body.instructions],
        "patch_points": body.patch_points,
    }


def matmul(name: str, opcode: str, drains: bool) -> tuple[str, dict[str, Any]]:
    """C = A x B on matrix unit 0, or one step of a chain in its accumulator."""
    b = Builder()
    b.begin(2, TILE_FP8, TILE_BF16 if drains else None)
    b.load(0, 0)
    b.load(1, 1)
    b.emit("vmatpush.weight.mxu0", vd=0, vs1=1)
    b.emit(opcode, vd=0, vs1=0, vs2=0)
    if not drains:
        # The activation register may be overwritten only after the matmul has read it.
        b.emit("delay", imm=MATMUL_DRAIN)
        return _kernel(name, "fp8_tile", "none", b)
    b.emit("vmatpop.bf16.acc.mxu0", vd=2, vs1=0)
    b.store(2, 0)
    b.store(3, 1)
    b.end(TILE_BF16)
    return _kernel(name, "fp8_tile", "bf16_split_halves", b)


def binary(name: str, opcode: str) -> tuple[str, dict[str, Any]]:
    """One vector operation on both halves of two bf16 tiles."""
    b = Builder()
    b.begin(2, TILE_BF16, TILE_BF16)
    for which in range(2):
        for half in range(2):
            b.load(2 * which + half, which, half)
    for half in range(2):
        b.emit(opcode, vd=4 + half, vs1=half, vs2=2 + half)
    for half in range(2):
        b.store(4 + half, half)
    b.end(TILE_BF16)
    return _kernel(name, "bf16_split_halves_pair", "bf16_split_halves", b)


def unary(name: str, compute: Callable[[Builder], None]) -> tuple[str, dict[str, Any]]:
    """Halves in m0 and m1, `compute` leaves the result in m2 and m3."""
    b = Builder()
    b.begin(1, TILE_BF16, TILE_BF16)
    b.load(0, 0, 0)
    b.load(1, 0, 1)
    compute(b)
    b.store(2, 0)
    b.store(3, 1)
    b.end(TILE_BF16)
    return _kernel(name, "bf16_split_halves", "bf16_split_halves", b)


def per_half(opcode: str) -> Callable[[Builder], None]:
    def compute(b: Builder) -> None:
        for half in range(2):
            b.emit(opcode, vd=2 + half, vs1=half)

    return compute


def silu(b: Builder) -> None:
    """x / (1 + e^-x): zero and one are made from the input itself."""
    b.emit("vli.all", vd=4, imm=0)
    b.emit("vli.all", vd=5, imm=1)
    for half in range(2):
        b.emit("vsub.bf16", vd=6, vs1=4, vs2=half)
        b.emit("vexp.bf16", vd=6, vs1=6)
        b.emit("vadd.bf16", vd=6, vs1=5, vs2=6)
        b.emit("vrecip.bf16", vd=6, vs1=6)
        b.emit("vmul.bf16", vd=2 + half, vs1=half, vs2=6)


def softmax(b: Builder) -> None:
    """Along rows of 32: the two halves are combined for the maximum and for the sum."""
    for half in range(2):
        b.emit("vredmax.row.bf16", vd=4 + half, vs1=half)
    b.emit("vmaximum.bf16", vd=4, vs1=4, vs2=5)
    for half in range(2):
        b.emit("vsub.bf16", vd=2 + half, vs1=half, vs2=4)
        b.emit("vexp.bf16", vd=2 + half, vs1=2 + half)
        b.emit("vredsum.row.bf16", vd=6 + half, vs1=2 + half)
    b.emit("vadd.bf16", vd=6, vs1=6, vs2=7)
    b.emit("vrecip.bf16", vd=6, vs1=6)
    for half in range(2):
        b.emit("vmul.bf16", vd=2 + half, vs1=2 + half, vs2=6)


def cast_to_fp8() -> tuple[str, dict[str, Any]]:
    """A bf16 tile saturated to fp8, with unit scale."""
    b = Builder()
    b.begin(1, TILE_BF16, TILE_FP8)
    b.load(0, 0, 0)
    b.load(1, 0, 1)
    b.emit("seli", rd=0, imm=1)
    b.emit("vpack.bf16.fp8", vd=2, vs1=0, es1=0)
    b.store(2, 0)
    b.end(TILE_FP8)
    return _kernel("requant", "bf16_split_halves", "fp8_tile", b)


def build() -> dict[str, Any]:
    """The manifest as a JSON object."""
    kernels = dict(
        [
            matmul("matmul", "vmatmul.mxu0", drains=True),
            matmul("matmul_acc_first", "vmatmul.mxu0", drains=False),
            matmul("matmul_acc_mid", "vmatmul.acc.mxu0", drains=False),
            matmul("matmul_acc_last", "vmatmul.acc.mxu0", drains=True),
            binary("elementwise_add", "vadd.bf16"),
            binary("elementwise_sub", "vsub.bf16"),
            binary("elementwise_mul", "vmul.bf16"),
            binary("elementwise_max", "vmaximum.bf16"),
            binary("elementwise_min", "vminimum.bf16"),
            unary("elementwise_exp", per_half("vexp.bf16")),
            unary("elementwise_exp2", per_half("vexp2.bf16")),
            unary("elementwise_log2", per_half("vlog2.bf16")),
            unary("elementwise_sqrt", per_half("vsqrt.bf16")),
            unary("elementwise_recip", per_half("vrecip.bf16")),
            unary("elementwise_tanh", per_half("vtanh.bf16")),
            unary("elementwise_sin", per_half("vsin.bf16")),
            unary("elementwise_cos", per_half("vcos.bf16")),
            unary("elementwise_relu", per_half("vrelu.bf16")),
            unary("silu", silu),
            unary("softmax", softmax),
            cast_to_fp8(),
        ]
    )
    return {"schema_version": 1, "total_solved": len(kernels), "kernels": kernels}


if __name__ == "__main__":
    print(json.dumps(build(), indent=1))
