"""The reference of dialects, kernel families and passes, written from their definitions.

`python -m tilewright.cli.documentation` prints it; `docs/dialects.md` is that text, kept current by
a test.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from dataclasses import dataclass

from tilewright.dialects.iree_ext import IREELinalgExt
from tilewright.dialects.kernel_call import AttributeSpec, Family
from tilewright.dialects.kernel_families import FAMILIES
from tilewright.dialects.linalg_ext import Linalg
from tilewright.dialects.npu_kernel import NPUKernel
from tilewright.dialects.npu_schedule import NPUSchedule
from tilewright.dialects.xdsl_api import TypeAttribute
from tilewright.extensions import DIALECTS, PIPELINES, load
from tilewright.transforms import load_pass, passes

HEADER = """# Dialects, kernel families and passes

Written from the definitions in `src/tilewright/dialects` and `src/tilewright/transforms` by
`python -m tilewright.cli.documentation`; edit those, not this page.
"""


@dataclass(frozen=True)
class OptionDoc:
    name: str
    kind: str
    default: str
    meaning: str


@dataclass(frozen=True)
class PassDoc:
    name: str
    summary: str
    text: str
    options: list[OptionDoc]


def describe_passes() -> list[PassDoc]:
    """Every registered pass, from its class."""
    entries = []
    for name in passes():
        pass_class = load_pass(name)
        text = inspect.cleandoc(pass_class.__doc__ or "")
        hints = typing.get_type_hints(pass_class)
        options = [
            OptionDoc(
                f.name.replace("_", "-"),
                _type_text(hints[f.name]),
                _default_text(f.default),
                f.metadata.get("meaning", ""),
            )
            for f in dataclasses.fields(pass_class)
        ]
        entries.append(PassDoc(name, text.split("\n\n")[0].replace("\n", " "), text, options))
    return entries


def _type_text(kind: object) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind).replace("typing.", "")


def _default_text(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value)


def _operation(op) -> list[str]:
    """One operation: its name, its meaning, its operands, attributes and results."""
    definition = op.get_irdl_definition()
    lines = [f"### `{op.name}`", "", inspect.cleandoc(op.__doc__ or ""), ""]
    rows = [
        ("operands", [name for name, _ in definition.operands]),
        ("results", [name for name, _ in definition.results]),
        ("attributes", [*definition.properties, *definition.attributes]),
        ("traits", sorted(type(trait).__name__ for trait in definition.traits.traits)),
    ]
    for title, names in rows:
        if names:
            lines.append(f"- {title}: {', '.join(f'`{name}`' for name in names)}")
    return [*lines, ""]


def _dialect(dialect) -> list[str]:
    module = inspect.getmodule(next(iter(dialect.operations)))
    lines = [f"## {dialect.name}", "", inspect.cleandoc(module.__doc__ or ""), ""]
    for op in dialect.operations:
        lines += _operation(op)
    for attribute in dialect.attributes:
        mark = "!" if issubclass(attribute, TypeAttribute) else "#"
        lines += [
            f"### `{mark}{attribute.name}`",
            "",
            inspect.cleandoc(attribute.__doc__ or ""),
            "",
        ]
    return lines


def _attribute_text(spec: AttributeSpec) -> str:
    text = f"`{spec.name}` ({spec.kind}"
    if spec.required:
        text += ", required"
    elif spec.default is not None:
        text += f", default {_default_text(spec.default)}"
    return f"{text}): {spec.meaning}"


def _family(family: Family) -> str:
    operands = " ".join(
        f"[{r.name}]" if r.optional else f"{r.name}..." if r.many else r.name for r in family.roles
    )
    attributes = "<br>".join(map(_attribute_text, family.attributes))
    names = ", ".join(f"`{name}`" for name in (family.name, *family.aliases))
    meaning = family.meaning.replace("|", "\\|")
    return f"| {names} | {operands} | {meaning} | {attributes} | {family.runs_on} |"


def render() -> str:
    """The whole page."""
    lines = [HEADER]
    for dialect in (NPUKernel, NPUSchedule, *map(load, DIALECTS.values()), IREELinalgExt):
        lines += _dialect(dialect)
    lines += [
        "## linalg",
        "",
        "Operations of MLIR's linalg dialect that are read in custom and generic form:",
        ", ".join(f"`{op.name}`" for op in Linalg.operations) + ".",
        "",
    ]
    lines += [
        "## Kernel families",
        "",
        "A micro-kernel symbol is `npu_uk_<family>`, with element types appended if wanted",
        "(`npu_uk_matmul_f8E4M3FN_f8E4M3FN_bf16`). The longest family name wins.",
        "",
        "| family | operands | meaning | attributes | runs on |",
        "|---|---|---|---|---|",
        *map(_family, FAMILIES.values()),
        "",
        "## Passes",
        "",
    ]
    for entry in describe_passes():
        lines += [f"### `{entry.name}`", "", "```text", entry.text, "```", ""]
        for option in entry.options:
            lines.append(
                f"- `{option.name}` ({option.kind}, default {option.default})"
                + (f": {option.meaning}" if option.meaning else "")
            )
        if entry.options:
            lines.append("")
    lines += ["## Pipelines", ""]
    for name, steps in PIPELINES.items():
        lines += [f"`{name}`: {', '.join(f'`{step}`' for step in steps)}", ""]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    print(render(), end="")
