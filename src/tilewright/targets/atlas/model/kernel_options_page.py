"""What options the kernels of whole models have, as a page: `docs/kernel-options.md` is its text."""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.model.kernel_records import RECORDS, KernelRecord
from tilewright.targets.atlas.model.typed_options import table

HEAD = """# Options of the kernels of whole models

The options that `npu_kernel.launch` takes on Atlas, kernel by kernel ([waist.md](waist.md)). Options that are not needed
can be left out. What is no option of a kernel, or has another type, is an error (TW1717).
`tilewright kernels options` prints this page from the classes in `targets/atlas/model/kernel_options*.py`.
"""


def render(names: Iterable[str] = ()) -> str:
    """The page, or what it says of some kernels."""
    chosen = list(names)
    for name in chosen:
        if name not in RECORDS:
            raise TilewrightError(
                "TW0051",
                f"there is no kernel {name} of whole models",
                hint=f"kernels are {', '.join(RECORDS)}",
            )
    sections = [_section(RECORDS[name]) for name in chosen or RECORDS]
    return "\n".join(sections if chosen else [HEAD, *sections])


def _section(record: KernelRecord) -> str:
    lines = [f"## {record.name}", "", f"{record.meaning[0].upper()}{record.meaning[1:]}.", ""]
    rows = list(table(record.options))
    if not rows:
        return "\n".join([*lines, "No options.", ""])
    lines += ["| option | type | default | meaning |", "|---|---|---|---|"]
    lines += [f"| {' | '.join((f'`{name}`', *rest))} |" for name, *rest in rows]
    return "\n".join([*lines, ""])
