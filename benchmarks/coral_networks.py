"""Networks on the Coral machines: instructions, estimated cycles, sizes; verified to the bit.

python benchmarks/coral_networks.py [--large]
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/targets/coral"))

from coral_models import LARGE, SMALL

from tilewright.errors import TilewrightError
from tilewright.targets.coral.compile import CoralOptions, compile_model, random_inputs
from tilewright.targets.coral.simulator import TIMING_TABLE, RunOptions

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
    from tilewright.targets.coral.simulator import CoralSimulator
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


def main() -> int:
    parser = argparse.ArgumentParser(description="networks on the Coral machines")
    parser.add_argument("--large", action="store_true", help="also autoencoder, ResNet-8, DS-CNN")
    chosen = parser.parse_args()
    speed()
    print(f"cycles are estimated (table {TIMING_TABLE})")
    print(
        f"{'model':<18}{'machine':<15}{'':<6}{'instructions':>13}{'cycles':>12}{'text':>8}{'data':>9}  verified"
    )
    wrong = 0
    for name, build in {**SMALL, **(LARGE if chosen.large else {})}.items():
        cases = [("coral", "keep"), ("coral", "int8"), ("coral-zve32f", "keep")]
        if name in LARGE:
            cases = [("coral", "int8"), ("coral-highmem", "int8")]
        for machine, precision in cases:
            head = f"{name:<18}{machine:<15}{precision.replace('keep', 'f32'):<6}"
            try:
                made = compile_model(build().imported(), machine, CoralOptions(precision))
            except TilewrightError as error:
                print(f"{head}{error.message.split(':')[0]}")
                continue
            outcome = made.run_with_outcome(random_inputs(made.program, 0))[1]
            verdict = made.verify(1)
            wrong += not verdict.ok
            print(
                f"{head}{outcome.region_instructions:>13,}{outcome.region_cycles:>12,}"
                f"{made.budget.text:>8,}{made.budget.data_used:>9,}  {'yes' if verdict.ok else 'WRONG'}"
            )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
