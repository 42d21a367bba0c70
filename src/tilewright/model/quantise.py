"""Give every operation of the device the numbers it computes in: the program with encodings.

before: a float model; some operations are the host's
after:  the same function with codes, scales and narrow floats in its types; conversions, exact
        products and rescaling are operations of their own; inputs and outputs keep their types

What is computed is defined by `reference/codes.py` and by the kernel families: the reference
executor runs the result and gives the bits that a machine has to give.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tilewright.dialects.intents import tensor_type
from tilewright.dialects.xdsl_api import ModuleOp, Operation, Region, SSAValue, TensorType, func
from tilewright.frontend.imported import Imported
from tilewright.model.calibrate import watch
from tilewright.model.capture import Graph, Node, dtype_of
from tilewright.model.encoder import CODES, ELEMENTS, FLOATS, VIEWS, Encoder
from tilewright.model.formats import CodeRules, Codes, Floats, Format, Formats, Product
from tilewright.model.partition import main_of
from tilewright.model.quantise_codes import on_codes
from tilewright.model.quantise_products import (
    Chain,
    product_chain,
    quantised_product,
    transposes,
)
from tilewright.model.ranges import MAXIMUM, Range, RangeRule
from tilewright.model.weights import named_weights

Arrays = Mapping[str, np.ndarray]


@dataclass
class Quantised:
    """An encoded model, and its operations of the host with their reasons."""

    model: Imported
    reasons: dict[Operation, str]
    ranges: dict[SSAValue, Range]  # of values of the float model


def quantise(
    model: Imported,
    graph: Graph,
    host: Mapping[Node, str],
    formats: Formats,
    rules: CodeRules,
    samples: Sequence[Arrays],
    per_channel: bool = True,
    same_ranges: Sequence[Sequence[SSAValue]] = (),
    rule: RangeRule = MAXIMUM,
) -> Quantised:
    """The encoded program of a captured model. The given model stays as it is.

    same_ranges: groups of values that share a scale, such as those of identical layers.
    rule: how ranges follow from what the samples show.
    """
    plan = _Plan(graph, host, formats)
    ranges = _ranges(model, plan, samples, same_ranges, rule)
    return _Quantiser(model, plan, rules, ranges, per_channel, rule).run()


class _Plan:
    """Formats of all nodes, and the forms in which values are asked for."""

    def __init__(self, graph: Graph, host: Mapping[Node, str], formats: Formats) -> None:
        self.graph, self.host = graph, host
        self.format: dict[Node, Format] = {}
        for node in graph.nodes:
            if node not in host:
                self.format[node] = self._settled(node, formats(node, graph))
        self.chains: dict[Node, Chain] = {}
        self.absorbed: set[Node] = set()
        for node in graph.nodes:
            if self.is_view(node) or node in self.absorbed:
                continue
            if isinstance(self.format.get(node), (Product, Codes)):
                chain = product_chain(node, graph, self.format)
                self.chains[node] = chain
                self.absorbed.update(chain.absorbed)

    def _settled(self, node: Node, asked: Format) -> Format:
        """Products need constant weights, and codes a float result."""
        narrow = dtype_of(node.result) in FLOATS
        if isinstance(asked, Codes) and not narrow:
            return Floats(asked.otherwise)
        if isinstance(asked, Product) and not (narrow and _has_weights(node, self.graph, asked)):
            return Floats(asked.floats)
        return asked

    def is_view(self, node: Node) -> bool:
        return node not in self.host and node.family in VIEWS

    def demand(self, value: SSAValue) -> set[str]:
        """The forms in which a value is read."""
        found: set[str] = set()
        if any(value is output for _, output in self.graph.outputs):
            found.add(dtype_of(value))
        for user in self.graph.users.get(value, ()):
            if self.is_view(user):
                found |= self.demand(user.result)
            else:
                found.add(self.form_read(user, value))
        return found

    def form_read(self, node: Node, value: SSAValue) -> str:
        """The form in which a node reads one of its operands."""
        own = dtype_of(value)
        if node in self.host or own not in FLOATS:
            return own
        form = self.format[node]
        if isinstance(form, Product):
            data = node.inputs["x" if node.family == "conv2d" else "lhs"]
            if value is not data:
                return own
            return CODES if form.activations == "tensor" else "f32"
        if isinstance(form, Codes):
            return CODES if on_codes(node, self.graph, form) else form.otherwise
        return form.element

    def coded(self) -> list[SSAValue]:
        """Values that may become codes: their ranges are observed."""
        found: dict[SSAValue, None] = {}
        for value in [*self.graph.inputs, *(node.result for node in self.graph.nodes)]:
            if dtype_of(value) in FLOATS and CODES in self.demand(value):
                found[value] = None
        for node, form in self.format.items():
            if isinstance(form, (Product, Codes)) and node in self.chains:
                found[self.chains[node].result] = None
                found[node.result] = None
        return list(found)


def _has_weights(node: Node, graph: Graph, form: Product) -> bool:
    role = {"matmul": "rhs", "conv2d": "w"}.get(node.family)
    # The rows of an operand are along what is summed.
    rows = node.family == "matmul" and not transposes(node)[0]
    return (
        role is not None
        and (form.activations != "row" or rows)
        and node.inputs.get(role) in graph.constants
        and node.inputs.get("acc") is None
        and (node.inputs.get("bias") is None or node.inputs["bias"] in graph.constants)
        and dtype_of(node.inputs[role]) in FLOATS
    )


def _ranges(
    model: Imported,
    plan: _Plan,
    samples: Sequence[Arrays],
    same: Sequence[Sequence[SSAValue]],
    rule: RangeRule,
) -> dict[SSAValue, Range]:
    values = plan.coded()
    ranges: dict[SSAValue, Range] = {value: Range(rule=rule) for value in values}
    if ranges:
        watch(model, {value: seen.observe for value, seen in ranges.items()}, samples)
    for group in same:
        shared = Range(rule=rule)
        for value in group:
            shared.merge(ranges.get(value, Range()))
        ranges.update((value, shared) for value in group if value in ranges)
    return ranges


class _Quantiser:
    def __init__(
        self,
        model: Imported,
        plan: _Plan,
        rules: CodeRules,
        ranges: dict[SSAValue, Range],
        per_channel: bool,
        rule: RangeRule,
    ) -> None:
        self.model, self.plan, self.graph = model, plan, plan.graph
        self.ranges, self.per_channel, self.rule = ranges, per_channel, rule
        self.main = main_of(model.module)
        types = [value.type for value in self.graph.inputs]
        self.encoder = Encoder(self.graph, model.weights, rules, ranges, types)

    def run(self) -> Quantised:
        encoder = self.encoder
        for node in self.graph.nodes:
            encoder.node = node
            if node in self.plan.absorbed:
                continue
            if node in self.plan.host:
                self._on_host(node, self.plan.host[node])
            elif self.plan.is_view(node):
                encoder.views[node.result] = node
            else:
                self._on_device(node, self.plan.format[node])
        encoder.node = None
        results = [encoder.own(value, for_host=True) for _, value in self.graph.outputs]
        encoder.block.add_op(func.ReturnOp(*results))
        kind = ([value.type for value in self.graph.inputs], [value.type for value in results])
        function = func.FuncOp(self.main.sym_name.data, kind, Region([encoder.block]))
        function.attributes.update(self.main.attributes)
        module = ModuleOp([function])
        used = {*named_weights(module), *self.model.state}
        weights = {name: array for name, array in encoder.weights.items() if name in used}
        made = replace(self.model, module=module, weights=weights)
        return Quantised(made, encoder.reasons, self.ranges)

    def _on_host(self, node: Node, reason: str) -> None:
        operands = [self.encoder.own(value, for_host=True) for value in node.operands]
        made = self.encoder.same(node, operands, tensor_type(node.result))
        self.encoder.put(node.result, self.encoder.emit(made, reason))

    def _on_device(self, node: Node, form: Format) -> None:
        chain = self.plan.chains.get(node)
        if isinstance(form, Product) and chain is not None:
            wanted = self.plan.demand(chain.result)
            per_channel, rule = self.per_channel, self.rule
            quantised_product(self.encoder, node, form, chain, wanted, per_channel, rule)
        elif isinstance(form, Codes) and chain is not None:
            make = on_codes(node, self.graph, form)
            if make is None or not make(self.encoder, node, chain):
                for one in (node, *chain.absorbed):
                    self.encoder.node = one
                    self._in_floats(one, Floats(form.otherwise))
        else:
            assert isinstance(form, Floats)
            self._in_floats(node, form)

    def _in_floats(self, node: Node, form: Floats) -> None:
        operands = [
            self.encoder.get(value, form.element) if dtype_of(value) in FLOATS
            else self.encoder.own(value)
            for value in node.operands
        ]  # fmt: skip
        kind = tensor_type(node.result)
        if dtype_of(node.result) in FLOATS:
            element = form.element
            if form.wide and self.plan.demand(node.result) == {CODES}:
                element = form.wide
            kind = _with_element(kind, element)
        self.encoder.put(node.result, self.encoder.emit(self.encoder.same(node, operands, kind)))


def _with_element(kind: TensorType, element: str) -> TensorType:
    return TensorType(ELEMENTS[element], kind.get_shape())
