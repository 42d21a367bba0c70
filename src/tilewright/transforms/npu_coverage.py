"""`npu-coverage`: which ops bind to what, which do not and why."""

from __future__ import annotations

import json as json_module
import sys
from dataclasses import dataclass, field

from tilewright.dialects.xdsl_api import Context, ModuleOp, ModulePass
from tilewright.errors import TilewrightError
from tilewright.io.file_access import write_text
from tilewright.transforms.convert_linalg_to_npu_kernel import ConvertLinalgToNPUKernel
from tilewright.transforms.linalg_to_kernel.coverage import coverage_of


@dataclass(frozen=True)
class NPUCoverage(ModulePass):
    """Report which kernel each tensor op would become, which have none, and why.

    before: any module with linalg, tensor and attention ops, or with kernel intents
    after:  the same module; the table is on standard error
    """

    name = "npu-coverage"

    json: str = field(
        default="", metadata={"meaning": "also write every op to this file (- is standard output)"}
    )
    unmapped: str = field(
        default="error", metadata={"meaning": "host: ops without a mapping count as the host's"}
    )
    strict: bool = field(default=False, metadata={"meaning": "an op without a mapping is an error"})

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        settings = ConvertLinalgToNPUKernel(unmapped=self.unmapped).settings()
        coverage = coverage_of(op, settings)
        print(coverage.table(), file=sys.stderr)
        if self.json:
            write_text(self.json, json_module.dumps(coverage.to_json(), indent=2) + "\n")
        missing = coverage.count("unbound")
        if self.strict and missing:
            first = next(row for row in coverage.rows if row.state == "unbound")
            raise TilewrightError(
                "TW1227",
                f"{missing} of {len(coverage.rows)} tensor ops have no kernel; the first is "
                f"{first.op}: {first.reason}",
                first.location,
                first.hint,
            )
