"""Networks on the Coral machines by the public path: sizes, instructions, estimated cycles.

python benchmarks/coral_networks.py [--large] [--no-qemu]

Every network is compiled to a bundle, read back and verified: each bit against the reference, the
outputs against the model in float32, and outputs and instruction count against QEMU.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/targets/coral"))

from coral_models import LARGE, SMALL

from tilewright.compiling import compile_imported
from tilewright.errors import TilewrightError
from tilewright.frontend.mlir_model import import_mlir
from tilewright.model.options import CompileOptions
from tilewright.runtime.bundle import load, save
from tilewright.runtime.verify import verify
from tilewright.targets.coral.compile import compile_model, random_inputs
from tilewright.targets.coral.edges import quantised
from tilewright.targets.coral.qemu import Qemu, qemu_missing
from tilewright.targets.coral.simulator import TIMING_TABLE, CoralSimulator, RunOptions

SPEED = """#include <stdint.h>
uint32_t output_0[64] __attribute__((section(".data"), aligned(16), used));
int main(void) {
  uint32_t s = 1;
  for (int r = 0; r < 100000; r++)
    for (int i = 0; i < 64; i++) {
      s = s * 1664525u + 1013904223u;
      output_0[i] += (s >> 3) ^ output_0[(i + 7) & 63];
      if (s & 4) output_0[i] ^= s;
    }
  return 0;
}
"""


def speed() -> None:
    """Instructions per second of the simulator, in processor time."""
    from tilewright.targets.coral.machines import MACHINES
    from tilewright.targets.coral.toolchain import compile_c

    elf = compile_c(SPEED, MACHINES["coral"]).elf
    for timing, limit in ((False, 10**9), (True, 20_000_000)):
        simulator = CoralSimulator.load(elf, options=RunOptions(timing=timing))
        began = time.process_time()
        outcome = simulator.run(limit)
        rate = outcome.instructions / (time.process_time() - began) / 1e6
        print(
            f"simulator, {'cycle model' if timing else 'bounds and counts'}: {rate:.0f} M instructions/s"
        )


GEMM = """func.func @main(%a: tensor<16x48xi8>, %b: tensor<48x16xi8>) -> tensor<16x16xi32> {
  %c = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<16x48xi8>, tensor<48x16xi8>) -> tensor<16x16xi32>
  return %c : tensor<16x16xi32>
}
"""


def gemm() -> int:
    """Cycles of the int8 product 16x48x16, whose measured hand-written kernel takes 5,150."""
    made = compile_model(import_mlir(GEMM, "gemm.mlir"))
    cycles = made.run_with_outcome(random_inputs(made.program, 0))[1].region_cycles or 0
    print(f"int8 product 16x48x16: {cycles:,} cycles (a kernel by hand, measured: 5,150)")
    return cycles


def oracle(compiled) -> str:
    """Outputs and instruction counts of every program on our simulator and on QEMU."""
    artifact = compiled.artifact
    said = []
    for entry in artifact.entries.values():
        machine = artifact.machine
        far = any(s.address >= machine.far for s in entry.image.segments)
        arrays = [
            quantised(value, array)
            for value, array in zip(
                entry.program.inputs, random_inputs(entry.program, 7), strict=True
            )
        ]
        here = CoralSimulator(entry.image, machine, RunOptions(external=machine.external))
        for index, array in enumerate(arrays):
            here.write(f"input_{index}", array)
        outcome = here.run()
        with Qemu(zba=machine.zba, external=far) as qemu:
            inputs = {f"input_{k}": array for k, array in enumerate(arrays)}
            there = qemu.run(entry.image, machine, inputs)
            same = True
            for k in range(len(entry.program.outputs)):
                symbol = entry.image.symbol(f"output_{k}")
                same &= here.read(symbol.name).tobytes() == qemu.read(symbol.address, symbol.size)
        counted = there.region_instructions == outcome.region_instructions
        said.append("equal" if same and counted and there.ret == 0 else "DIFFERS")
    return said[0] if len(set(said)) == 1 else ", ".join(said)


def main() -> int:
    parser = argparse.ArgumentParser(description="networks on the Coral machines")
    parser.add_argument("--large", action="store_true", help="also autoencoder, ResNet-8, DS-CNN")
    parser.add_argument("--only", help="only the networks with this in their names")
    parser.add_argument("--no-qemu", action="store_true", help="without the independent oracle")
    chosen = parser.parse_args()
    missing = "asked for" if chosen.no_qemu else qemu_missing()
    speed()
    wrong = gemm() > 5150
    print(f"cycles are estimated (table {TIMING_TABLE}); without QEMU: {missing or 'no'}")
    print(
        f"{'model':<18}{'machine':<15}{'':<6}{'instructions':>13}{'cycles':>12}{'text':>8}{'data':>9}"
        f"  {'verified':<10}{'QEMU':<9}error"
    )
    for name, build in {**SMALL, **(LARGE if chosen.large else {})}.items():
        if chosen.only and chosen.only not in name:
            continue
        cases = [("coral", None), ("coral", "int8"), ("coral-zve32f", None)]
        if name in LARGE:
            cases = [("coral", "int8"), ("coral-highmem", "int8"), ("coral-highmem", None)]
        for machine, quantize in cases:
            head = f"{name:<18}{machine:<15}{quantize or 'f32':<6}"
            imported = build().imported()
            try:
                made = compile_imported(imported, machine, CompileOptions(quantize=quantize))
            except TilewrightError as error:
                print(f"{head}{error.message.split(':')[0]}")
                continue
            with tempfile.TemporaryDirectory() as folder:
                save(made, Path(folder) / "model.twb")
                loaded = load(Path(folder) / "model.twb")
                found = verify(loaded, original=imported)
                there = "-" if missing else oracle(loaded)
            sizes = loaded.artifact.sizes
            wrong |= not found.ok or there == "DIFFERS"
            device = loaded.artifact
            instructions, cycles = counts(device)
            error = found.outputs[0].accuracy
            print(
                f"{head}{instructions:>13,}{f'{cycles:,}' if cycles else '-':>12}{sizes['text']:>8,}"
                f"{sizes['dtcm']['used']:>9,}  {'yes' if found.ok else 'WRONG':<10}{there:<9}"
                f"{error.max_relative if error else 0:.1e}"
            )
    return 1 if wrong else 0


def counts(artifact) -> tuple[int, int]:
    """Instructions and cycles of `main` on random inputs."""
    instructions = cycles = 0
    for entry in artifact.entries.values():
        machine = artifact.machine
        core = CoralSimulator(entry.image, machine, RunOptions(external=machine.external))
        for index, array in enumerate(random_inputs(entry.program, 0)):
            core.write(f"input_{index}", quantised(entry.program.inputs[index], array))
        outcome = core.run()
        instructions += outcome.region_instructions or 0
        cycles += outcome.region_cycles or 0
    return instructions, cycles


if __name__ == "__main__":
    sys.exit(main())
