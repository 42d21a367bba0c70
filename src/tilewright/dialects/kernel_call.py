"""One call of a kernel family: its operands by role, its attributes by kind, ready to check.

`npu_kernel.ukernel_generic` and `npu_schedule.ukernel_launch` are both such calls. Verifiers,
tiling, coverage and the reference executor read them through `KernelCall` and never by position.

Error codes: TW1201 dynamic shape, TW1202 operands, TW1203 shapes, TW1204 attributes,
TW1205 element types, TW1206 axes and ranks, TW1207 operand maps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from tilewright.dialects.xdsl_api import (
    AffineConstantExpr,
    AffineDimExpr,
    AffineMap,
    AffineMapAttr,
    ArrayAttr,
    Attribute,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    UnitAttr,
)
from tilewright.errors import TilewrightError


@dataclass(frozen=True)
class Role:
    """An operand's name and whether it may be left out; `many` takes all that remain."""

    name: str
    optional: bool = False
    many: bool = False


def roles(text: str) -> tuple[Role, ...]:
    """Operand roles from "a b [optional] many*"."""
    return tuple(Role(w.strip("[]*"), w.startswith("["), w.endswith("*")) for w in text.split())


@dataclass(frozen=True)
class AttributeSpec:
    """An attribute's name, kind, default (None: none) and meaning.

    Kinds: integer, float, string, unit, integers, maps, value (integer or float), strings.
    """

    name: str
    kind: str
    meaning: str
    default: Any = None
    required: bool = False
    choices: tuple[str, ...] = ()


OPERAND_MAPS = AttributeSpec(
    "operand_maps", "maps", "one map per operand from the result's dimensions; identity when absent"
)


def axis(default: int | None = None) -> AttributeSpec:
    """The attribute that says which dimension is meant."""
    return AttributeSpec(
        "axis", "integer", "the dimension, negative counts from the end", default, default is None
    )


@dataclass(frozen=True)
class Family:
    """A kernel family: what it is called, what it takes, what it means, where it runs."""

    name: str
    meaning: str
    roles: tuple[Role, ...]
    attributes: tuple[AttributeSpec, ...] = ()
    check: Callable[[KernelCall], None] | None = None
    kind: str = "elementwise"
    runs_on: str = "npu"
    state: str | None = None
    aliases: tuple[str, ...] = field(default=())

    def attribute(self, name: str) -> AttributeSpec | None:
        return next((spec for spec in self.attributes if spec.name == name), None)


_KIND_CHECKS: dict[str, Callable[[Attribute], bool]] = {
    "integer": lambda a: isinstance(a, IntegerAttr),
    "float": lambda a: isinstance(a, FloatAttr),
    "value": lambda a: isinstance(a, (FloatAttr, IntegerAttr)),
    "string": lambda a: isinstance(a, StringAttr),
    "unit": lambda a: isinstance(a, UnitAttr),
    "integers": lambda a: isinstance(a, DenseArrayBase),
    "maps": lambda a: isinstance(a, ArrayAttr) and all(isinstance(m, AffineMapAttr) for m in a),
    "strings": lambda a: isinstance(a, ArrayAttr) and all(isinstance(m, StringAttr) for m in a),
}

ROLES_ATTRIBUTE = AttributeSpec(
    "roles",
    "strings",
    "operand names in order, needed when an optional one before another is left out",
)


@dataclass(frozen=True)
class KernelCall:
    """A symbol with operand types, attributes and result type, bound to its family."""

    family: Family
    symbol: str
    operand_types: tuple[Attribute, ...]
    attributes: Mapping[str, Attribute]
    result_type: Attribute

    def fail(self, code: str, message: str, hint: str | None = None) -> NoReturn:
        raise TilewrightError(code, f'"{self.symbol}": {message}', None, hint)

    # Operands

    def role_names(self) -> tuple[str, ...]:
        """The role of each operand, in order; fails when they do not fit the family."""
        count = len(self.operand_types)
        given = self.attributes.get("roles")
        if isinstance(given, ArrayAttr):
            names = tuple(name.data for name in given if isinstance(name, StringAttr))
            known = {role.name for role in self.family.roles}
            if len(names) != count or not set(names) <= known or len(set(names)) != count:
                self.fail(
                    "TW1202",
                    f"roles {list(names)} do not name the {count} operands",
                    f"use names of {sorted(known)}, one per operand",
                )
            return names
        roles = [role for role in self.family.roles if not self._is_scalar(role.name)]
        if roles and roles[-1].many:
            first = len(roles) - 1
            if count <= first:
                self.fail("TW1202", f"needs at least {first + 1} operands, got {count}")
            return tuple([role.name for role in roles[:first]] + [roles[-1].name] * (count - first))
        needed = sum(not role.optional for role in roles)
        if not needed <= count <= len(roles):
            wanted = str(needed) if needed == len(roles) else f"{needed} to {len(roles)}"
            self.fail(
                "TW1202",
                f"takes {wanted} operands ({', '.join(r.name for r in roles)}), got {count}",
            )
        return tuple(role.name for role in roles[:count])

    def _is_scalar(self, role: str) -> bool:
        return f"scalar_{role}" in self.attributes

    def operands_by_role(self, operands: Sequence) -> dict[str, object]:
        """Role name -> the operand (any sequence parallel to the operands); `many` gives a list."""
        result: dict[str, object] = {}
        many = {role.name for role in self.family.roles if role.many}
        for name, operand in zip(self.role_names(), operands, strict=True):
            if name in many:
                bucket = result.setdefault(name, [])
                assert isinstance(bucket, list)
                bucket.append(operand)
            else:
                result[name] = operand
        return result

    def types(self) -> dict[str, TensorType]:
        """Role name -> tensor type, for families without a `many` role."""
        return dict(zip(self.role_names(), self.tensor_types(), strict=True))

    def tensor_types(self) -> tuple[TensorType, ...]:
        return tuple(self._tensor(t, f"operand {i}") for i, t in enumerate(self.operand_types))

    @property
    def result(self) -> TensorType:
        return self._tensor(self.result_type, "the result")

    def _tensor(self, type_: Attribute, what: str) -> TensorType:
        if not isinstance(type_, TensorType):
            self.fail("TW1205", f"{what} has type {type_}, a ranked tensor is needed")
        if any(size < 0 for size in type_.get_shape()):
            self.fail(
                "TW1201",
                f"{what} has the dynamic shape {shape_text(type_)}",
                "make all dimensions static before kernels are chosen",
            )
        return type_

    # Attributes

    def check_attributes(self) -> None:
        """Every attribute is known and of its kind, and the required ones are there."""
        for name, value in self.attributes.items():
            if "." in name:
                continue
            spec = ROLES_ATTRIBUTE if name == "roles" else self.family.attribute(name)
            if spec is None:
                known = ", ".join(a.name for a in self.family.attributes) or "none"
                self.fail(
                    "TW1204",
                    f"family {self.family.name} has no attribute {name}",
                    f"it has: {known}",
                )
            if not _KIND_CHECKS[spec.kind](value):
                self.fail("TW1204", f"attribute {name} is {value}, expected {spec.kind}")
            if spec.choices and self.string(name) not in spec.choices:
                self.fail(
                    "TW1204",
                    f'attribute {name} is "{self.string(name)}"',
                    f"use one of {', '.join(spec.choices)}",
                )
        for spec in self.family.attributes:
            if spec.required and spec.name not in self.attributes:
                self.fail("TW1204", f"attribute {spec.name} is missing", spec.meaning)

    def _default(self, name: str) -> Any:
        spec = self.family.attribute(name)
        return None if spec is None else spec.default

    def integer(self, name: str) -> int | None:
        value = self.attributes.get(name)
        return value.value.data if isinstance(value, IntegerAttr) else self._default(name)

    def floating(self, name: str) -> float | None:
        value = self.attributes.get(name)
        return value.value.data if isinstance(value, FloatAttr) else self._default(name)

    def value(self, name: str) -> int | float | None:
        value = self.attributes.get(name)
        if isinstance(value, (FloatAttr, IntegerAttr)):
            return value.value.data
        return self._default(name)

    def string(self, name: str) -> str | None:
        value = self.attributes.get(name)
        return value.data if isinstance(value, StringAttr) else self._default(name)

    def flag(self, name: str) -> bool:
        return name in self.attributes

    def integers(self, name: str) -> tuple[int, ...] | None:
        value = self.attributes.get(name)
        if isinstance(value, DenseArrayBase):
            return tuple(int(v) for v in value.get_values())
        return self._default(name)

    def axis(self, rank: int, name: str = "axis") -> int:
        """The axis attribute counted from the front; fails outside the rank."""
        value = self.integer(name)
        if value is None:
            self.fail("TW1204", f"attribute {name} is missing")
        if not -rank <= value < rank:
            self.fail("TW1206", f"{name} {value} is outside rank {rank}")
        return value % rank

    def operand_maps(self) -> tuple[AffineMap, ...]:
        """One map per operand from the result's dimensions; identity where none are given."""
        given = self.attributes.get("operand_maps")
        if given is None:
            identity = AffineMap.identity(self.result.get_num_dims())
            return (identity,) * len(self.operand_types)
        assert isinstance(given, ArrayAttr)
        return tuple(entry.data for entry in given if isinstance(entry, AffineMapAttr))

    def check_operand_maps(self) -> None:
        """Every operand's shape is what its map selects from the result's shape."""
        shape = self.result.get_shape()
        maps = self.operand_maps()
        if len(maps) != len(self.operand_types):
            self.fail(
                "TW1207", f"has {len(maps)} operand maps for {len(self.operand_types)} operands"
            )
        for index, (map_, type_) in enumerate(zip(maps, self.tensor_types(), strict=True)):
            if map_.num_dims != len(shape) or map_.num_symbols:
                self.fail(
                    "TW1207",
                    f"operand map {index} takes {map_.num_dims} dims, the result has {len(shape)}",
                )
            wanted = []
            for expression in map_.results:
                if isinstance(expression, AffineDimExpr):
                    wanted.append(shape[expression.position])
                elif isinstance(expression, AffineConstantExpr) and expression.value == 0:
                    wanted.append(1)
                else:
                    self.fail(
                        "TW1207",
                        f"operand map {index} has the result {expression}",
                        "only dimensions and the constant 0 (a broadcast) are allowed",
                    )
            if tuple(wanted) != tuple(type_.get_shape()):
                self.fail(
                    "TW1203",
                    f"operand {index} has shape {shape_text(type_)}, "
                    f"its map needs {'x'.join(map(str, wanted)) or 'a scalar'}",
                    "broadcast it with operand_maps"
                    if "operand_maps" not in self.attributes
                    else None,
                )


def shape_text(type_: TensorType) -> str:
    """A tensor type's shape as in MLIR, without the element type."""
    return "x".join("?" if n < 0 else str(n) for n in type_.get_shape()) or "a scalar"
