"""Importing JAX functions: lower to StableHLO, hand the text to its importer.

    imported = import_jax(function, x)
    imported = import_jax(model.apply, x, weights=variables)

`weights` is any tree of arrays that the function takes as its first argument; it goes to
`Imported.weights` under the paths in the tree (`layers.0.w`), not into the IR. Arrays that the
function closes over are constants: large ones become weights without a name of their own.

Needs `pip install "tilewright[jax]"`; jax is imported when a function here is called.

Error codes: TW6208 weights without values, TW6209 jax is not installed, TW6210 the function cannot
be lowered.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.dialects.parsing import parse_text
from tilewright.errors import Location, TilewrightError
from tilewright.frontend.factories import users_place
from tilewright.frontend.imported import Array, Imported
from tilewright.frontend.stablehlo import argument_names, import_stablehlo, main_function
from tilewright.frontend.stablehlo_locations import plain_locations


def load_jax() -> Any:
    """The jax package, or an error that says how to get it."""
    try:
        return importlib.import_module("jax")
    except ImportError as error:
        raise TilewrightError(
            "TW6209",
            f"JAX functions need jax, which cannot be imported ({error})",
            hint='pip install "tilewright[jax]"; StableHLO text needs no jax',
        ) from None


def import_jax(
    function: Callable[..., Any],
    *example_args: Any,
    weights: Any = None,
    source: str | None = None,
    **example_kwargs: Any,
) -> Imported:
    """A JAX function as a module.

    Examples are arrays, or `jax.ShapeDtypeStruct` where only shape and type matter. With `weights`
    the function is called as function(weights, *example_args, **example_kwargs).
    """
    jax = load_jax()
    name = source or getattr(function, "__qualname__", None) or type(function).__name__
    arguments = example_args if weights is None else (weights, *example_args)
    try:
        lowered = jax.jit(function, keep_unused=True).lower(*arguments, **example_kwargs)
        operation = lowered.compiler_ir("stablehlo").operation
        text = operation.get_asm(print_generic_op_form=True, enable_debug_info=True)
    except Exception as error:
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        raise TilewrightError(
            "TW6210",
            f"{name} cannot be lowered: {what}",
            users_place(error, __file__),
            "check that it runs under jax.jit with these inputs",
        ) from error
    module = parse_text(plain_locations(text, name), name)
    tensors = {} if weights is None else named_leaves(weights, name)
    main = main_function(
        {op.properties["sym_name"].data: op for op in module.walk() if op.name == "func.func"},  # type: ignore[attr-defined]
        name,
    )
    given = argument_names(main, main.regions[0].blocks[0])
    names = [*tensors, *_apart(given[len(tensors) :], set(tensors))]
    return import_stablehlo(module, name, tensors, None, names)


def named_leaves(tree: Any, source: str) -> dict[str, Array]:
    """The arrays of a tree by their paths, in the order in which JAX takes a tree apart."""
    jax = load_jax()
    found: dict[str, Array] = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        name = jax.tree_util.keystr(path, simple=True, separator=".") or "weights"
        if isinstance(leaf, jax.ShapeDtypeStruct):
            raise TilewrightError(
                "TW6208",
                f"the weight {name} has a shape but no values",
                Location(source),
                "give the arrays themselves, or pass it among the example inputs",
            )
        if hasattr(leaf, "dtype") and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)  # keys of dropout: lowered functions take their words
        # As the function sees it: a Python number is a scalar of JAX's default type.
        found[name] = np.asarray(leaf if hasattr(leaf, "dtype") else jax.numpy.asarray(leaf))
        if found[name].dtype != (kind := jax.dtypes.canonicalize_dtype(found[name].dtype)):
            found[name] = found[name].astype(kind)
    return found


def _apart(names: list[str], taken: set[str]) -> list[str]:
    """Names of inputs that are not names of weights as well."""
    return [f"{name}_input" if name in taken else name for name in names]
