"""The activations of recurrent layers, with their coefficients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.frontend import near_zero
from tilewright.frontend.onnx_lowering import Lowering
from tilewright.frontend.onnx_nodes import unsupported
from tilewright.frontend.onnx_ops_elementwise import hard_sigmoid_of, leaky_relu_of, softsign_of
from tilewright.frontend.onnx_values import element

Function = Callable[[SSAValue], SSAValue]


@dataclass(frozen=True)
class Gate:
    """An activation: what it computes, and its alpha and beta where a node gives none."""

    compute: Callable[..., SSAValue]
    alpha: float | None = None
    beta: float | None = None


def _thresholded(low: Lowering, x: SSAValue, alpha: float, _: float) -> SSAValue:
    return low.apply("select", low.compare("gt", x, alpha), x, low.constant(0, x), to=element(x))


def _scaled_tanh(low: Lowering, x: SSAValue, alpha: float, beta: float) -> SSAValue:
    inner = low.apply("elementwise_tanh", low.apply("elementwise_mul", x, beta))
    return low.apply("elementwise_mul", inner, alpha)


def _affine(low: Lowering, x: SSAValue, alpha: float, beta: float) -> SSAValue:
    return low.apply("elementwise_add", low.apply("elementwise_mul", x, alpha), beta)


GATES: dict[str, Gate] = {
    "affine": Gate(_affine, 1.0, 0.0),
    "elu": Gate(lambda low, x, alpha, _: near_zero.elu(low.apply, x, alpha), 1.0),
    "hardsigmoid": Gate(hard_sigmoid_of, 0.2, 0.5),
    "leakyrelu": Gate(lambda low, x, alpha, _: leaky_relu_of(low, x, alpha), 0.01),
    "relu": Gate(lambda low, x, *_: low.apply("elementwise_relu", x)),
    "scaledtanh": Gate(_scaled_tanh, 1.0, 1.0),
    "sigmoid": Gate(lambda low, x, *_: low.apply("elementwise_sigmoid", x)),
    "softplus": Gate(lambda low, x, *_: near_zero.softplus(low.apply, x)),
    "softsign": Gate(lambda low, x, *_: softsign_of(low, x)),
    "tanh": Gate(lambda low, x, *_: low.apply("elementwise_tanh", x)),
    "thresholdedrelu": Gate(_thresholded, 1.0),
}


def functions(
    low: Lowering, names: Sequence[str], alphas: Sequence[float], betas: Sequence[float]
) -> list[Function]:
    """Activations by name; each takes the next coefficients if it has any."""
    unknown = [name for name in names if name.lower() not in GATES]
    if unknown:
        unsupported(f"the activation {unknown[0]}")
    alpha, beta = iter(alphas), iter(betas)
    found = [_bound(low, GATES[name.lower()], alpha, beta) for name in names]
    if next(alpha, None) is not None or next(beta, None) is not None:
        unsupported("more coefficients than its activations take")
    return found


def _bound(low: Lowering, gate: Gate, alphas: Iterator[float], betas: Iterator[float]) -> Function:
    alpha = None if gate.alpha is None else next(alphas, gate.alpha)
    beta = None if gate.beta is None else next(betas, gate.beta)
    return lambda x: gate.compute(low, x, alpha, beta)
