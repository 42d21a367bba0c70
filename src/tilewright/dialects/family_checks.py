"""What each kernel family demands of shapes and element types, as plain functions over a call."""

from __future__ import annotations

from math import prod

from tilewright.dialects.kernel_call import KernelCall, shape_text
from tilewright.dialects.xdsl_api import (
    AnyFloat,
    Attribute,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    TensorType,
    i1,
)


def _same_shape(call: KernelCall, type_: TensorType, shape: tuple[int, ...], what: str) -> None:
    if tuple(type_.get_shape()) != tuple(shape):
        wanted = "x".join(map(str, shape)) or "a scalar"
        call.fail("TW1203", f"{what} has shape {shape_text(type_)}, needs {wanted}")


def _result_shape(call: KernelCall, shape: tuple[int, ...]) -> None:
    _same_shape(call, call.result, shape, "the result")


def _same_element(call: KernelCall, *types: TensorType) -> None:
    names = [str(type_.element_type) for type_ in types]
    if len(set(names)) > 1:
        call.fail("TW1205", f"element types differ: {', '.join(names)}", "cast the operands first")


def elementwise(call: KernelCall) -> None:
    """Operands of one element type; a float result may be wider, it is computed in its own type."""
    call.check_operand_maps()
    types = call.tensor_types()
    elements = {type_.element_type for type_ in types}
    if len(elements) != 1 or not _wider_float(call.result.element_type, *elements):
        _same_element(call, *types, call.result)


def _wider_float(result: Attribute, operand: Attribute) -> bool:
    return (
        isinstance(result, (Float32Type, Float64Type))
        and isinstance(operand, AnyFloat)
        and result.bitwidth > operand.bitwidth
    )


def cast(call: KernelCall) -> None:
    call.check_operand_maps()


def compare(call: KernelCall) -> None:
    call.check_operand_maps()
    _same_element(call, *call.tensor_types())
    if call.result.element_type != i1:
        call.fail("TW1205", f"compares into {call.result.element_type}, needs i1")


def logical(call: KernelCall) -> None:
    call.check_operand_maps()
    _same_element(call, *call.tensor_types(), call.result)
    if not isinstance(call.result.element_type, IntegerType):
        call.fail("TW1205", f"works on integers, not {call.result.element_type}")


def select(call: KernelCall) -> None:
    call.check_operand_maps()
    condition, *rest = call.tensor_types()
    if condition.element_type != i1:
        call.fail("TW1205", f"the condition has element type {condition.element_type}, needs i1")
    _same_element(call, *rest, call.result)


def reduction(call: KernelCall) -> None:
    types = call.types()
    shape = types["x"].get_shape()
    axes = call.integers("axes") or ()
    rank = len(shape)
    if any(not 0 <= axis < rank for axis in axes) or len(set(axes)) != len(axes):
        call.fail("TW1206", f"axes {list(axes)} do not name distinct dimensions of rank {rank}")
    if call.flag("keepdims"):
        wanted = tuple(1 if i in axes else n for i, n in enumerate(shape))
    else:
        wanted = tuple(n for i, n in enumerate(shape) if i not in axes)
    _result_shape(call, wanted)
    if "init" in types:
        _same_shape(call, types["init"], wanted, "the initial value")


def normalisation(call: KernelCall) -> None:
    types = call.types()
    x = types["x"]
    axis = call.axis(x.get_num_dims())
    _result_shape(call, x.get_shape())
    for name in ("weight", "bias"):
        if name in types:
            _same_shape(call, types[name], (x.get_shape()[axis],), f"the {name}")


def matmul_shapes(
    lhs: tuple[int, ...],
    rhs: tuple[int, ...],
    transpose_lhs: bool,
    transpose_rhs: bool,
) -> tuple[int, ...] | None:
    """The result shape of a (batched) contraction, or None when the operands do not fit."""
    if len(lhs) < 2 or len(rhs) < 2:
        return None
    m, k = (lhs[-1], lhs[-2]) if transpose_lhs else (lhs[-2], lhs[-1])
    inner, n = (rhs[-1], rhs[-2]) if transpose_rhs else (rhs[-2], rhs[-1])
    batch, other = lhs[:-2], rhs[:-2]
    if inner != k or (batch and other and batch != other):
        return None
    return (*(batch or other), m, n)


def resolve_transposes(
    lhs: tuple[int, ...],
    rhs: tuple[int, ...],
    result: tuple[int, ...],
    transpose_lhs: bool,
    transpose_rhs: bool,
) -> tuple[bool, bool] | None:
    """How the operands are meant: as marked, or rhs transposed when nothing else fits.

    before: 1x32, 960x32 -> 1x960, no marks
    after:  (False, True)
    """
    if matmul_shapes(lhs, rhs, transpose_lhs, transpose_rhs) == result:
        return transpose_lhs, transpose_rhs
    if not transpose_lhs and not transpose_rhs and matmul_shapes(lhs, rhs, False, True) == result:
        return False, True
    return None


def matmul(call: KernelCall) -> None:
    types = call.types()
    lhs, rhs, result = types["lhs"], types["rhs"], call.result
    fit = resolve_transposes(
        tuple(lhs.get_shape()),
        tuple(rhs.get_shape()),
        tuple(result.get_shape()),
        call.flag("transpose_lhs"),
        call.flag("transpose_rhs"),
    )
    if fit is None:
        call.fail(
            "TW1203",
            f"{shape_text(lhs)} by {shape_text(rhs)} does not give {shape_text(result)}",
            "lhs is [batch.., m, k], rhs [batch.., k, n]; mark transposed operands",
        )
    if "acc" in types:
        _same_shape(call, types["acc"], result.get_shape(), "the initial value")


def attention(call: KernelCall) -> None:
    types = call.types()
    q, k, v = (tuple(types[name].get_shape()) for name in ("q", "k", "v"))
    if min(len(q), len(k), len(v)) < 2 or not len(q) == len(k) == len(v):
        call.fail("TW1206", "q, k and v need the same rank, at least 2")
    keys, width = (k[-1], k[-2]) if call.flag("transpose_k") else (k[-2], k[-1])
    value_keys, value_width = (v[-1], v[-2]) if call.flag("transpose_v") else (v[-2], v[-1])
    if width != q[-1]:
        call.fail("TW1203", f"q has head width {q[-1]}, k has {width}")
    if keys != value_keys:
        call.fail("TW1203", f"k has {keys} keys, v has {value_keys}")
    group = call.integer("kv_group") or 1
    batch = q[:-2]
    expected = batch if group == 1 else (*batch[:-1], batch[-1] // group) if batch else batch
    if (
        (group != 1 and (not batch or batch[-1] % group))
        or k[:-2] != expected
        or v[:-2] != expected
    ):
        call.fail(
            "TW1203",
            f"q has batch {list(batch)}, k {list(k[:-2])}, v {list(v[:-2])} with kv_group {group}",
            "the last batch dimension of q is kv_group times that of k and v",
        )
    _result_shape(call, (*batch, q[-2], value_width))
    mask = types.get("mask")
    if mask is not None:
        shape = tuple(mask.get_shape())
        wanted = (*batch, q[-2], keys)
        padded = (1,) * (len(wanted) - len(shape)) + shape
        leading = zip(padded[:-2], wanted[:-2], strict=False)
        if (
            len(shape) > len(wanted)
            or padded[-2:] != wanted[-2:]
            or any(have not in (1, want) for have, want in leading)
        ):
            needed = "x".join(map(str, wanted))
            call.fail(
                "TW1203",
                f"the mask has shape {shape_text(mask)}, attention needs {needed}",
                "leading dimensions may be 1 or left out; broadcast the last two first",
            )
        boolean = mask.element_type == i1
        kind = call.string("mask_kind") or ("bool" if boolean else "additive")
        if (kind == "bool") != boolean:
            call.fail("TW1205", f'a mask of {mask.element_type} is not of kind "{kind}"')
    valid = call.integer("valid_keys")
    if valid is not None and not 0 < valid <= keys:
        call.fail("TW1206", f"valid_keys {valid} is outside 1 to {keys}")


def rope(call: KernelCall) -> None:
    types = call.types()
    x = types["x"]
    axis = call.axis(x.get_num_dims())
    _result_shape(call, x.get_shape())
    width = x.get_shape()[axis]
    if width % 2:
        call.fail("TW1203", f"rotates pairs along axis {axis}, whose size {width} is odd")
    cos, sin = types["cos"], types["sin"]
    if cos.get_shape() != sin.get_shape():
        call.fail("TW1203", f"cos is {shape_text(cos)}, sin is {shape_text(sin)}")
    if "operand_maps" in call.attributes:
        return
    shape = tuple(x.get_shape())
    table = (1,) * (len(shape) - cos.get_num_dims()) + tuple(cos.get_shape())
    fits = len(table) == len(shape) and all(
        have in (1, want) or (i == axis and have == want // 2)
        for i, (have, want) in enumerate(zip(table, shape, strict=True))
    )
    if not fits:
        call.fail(
            "TW1203",
            f"cos has shape {shape_text(cos)}, x has {shape_text(x)}",
            "the tables broadcast over leading dimensions and hold all or half of the axis",
        )


def requant(call: KernelCall) -> None:
    types = call.types()
    _result_shape(call, types["x"].get_shape())
    if "scale" in types and "scale" in call.attributes:
        call.fail("TW1204", "has a scale attribute and a scale operand", "keep one of them")


def dequant(call: KernelCall) -> None:
    types = call.types()
    x = types["x"]
    _result_shape(call, x.get_shape())
    block = call.integer("block")
    scale = types.get("scale")
    if block is not None:
        if scale is None:
            call.fail("TW1202", "decodes blocks without a scale operand")
        shape = tuple(x.get_shape())
        axis = call.axis(len(shape))
        if shape[axis] % block:
            call.fail("TW1203", f"axis {axis} of size {shape[axis]} has no whole blocks of {block}")
        wanted = tuple(n // block if i == axis else n for i, n in enumerate(shape))
        _same_shape(call, scale, wanted, "the scale")


def window(size: int, kernel: int, stride: int, dilation: int, low: int, high: int) -> int:
    """How many positions a window takes along one dimension."""
    return (size + low + high - dilation * (kernel - 1) - 1) // stride + 1


def _spatial(call: KernelCall, size: tuple[int, int], kernel: tuple[int, int]) -> tuple[int, int]:
    strides = call.integers("strides") or (1, 1)
    dilations = call.integers("dilations") or (1, 1)
    padding = call.integers("padding") or (0, 0, 0, 0)
    if len(strides) != 2 or len(dilations) != 2 or len(padding) != 4:
        call.fail(
            "TW1204", "needs 2 strides, 2 dilations and 4 padding sizes (top, left, bottom, right)"
        )
    height, width = (
        window(size[i], kernel[i], strides[i], dilations[i], padding[i], padding[i + 2])
        for i in range(2)
    )
    return height, width


def conv2d(call: KernelCall) -> None:
    types = call.types()
    x, w = tuple(types["x"].get_shape()), tuple(types["w"].get_shape())
    if len(x) != 4 or len(w) != 4:
        call.fail("TW1206", "takes a rank-4 image and rank-4 filter")
    groups = call.integer("groups") or 1
    if call.string("layout") == "nhwc_hwcf":
        n, size, channels = x[0], x[1:3], x[3]
        kernel, per_group, filters = w[:2], w[2], w[3]
    else:
        n, channels, size = x[0], x[1], x[2:]
        filters, per_group, kernel = w[0], w[1], w[2:]
    if per_group * groups != channels or filters % groups:
        call.fail(
            "TW1203", f"{channels} channels do not fit filters over {per_group} in {groups} groups"
        )
    height, width = _spatial(call, size, kernel)
    nhwc = call.string("layout") == "nhwc_hwcf"
    _result_shape(call, (n, height, width, filters) if nhwc else (n, filters, height, width))
    if "bias" in types:
        _same_shape(call, types["bias"], (filters,), "the bias")


def pool(call: KernelCall) -> None:
    x = tuple(call.types()["x"].get_shape())
    kernel = call.integers("kernel") or ()
    if len(x) != 4 or len(kernel) != 2:
        call.fail("TW1206", "takes a rank-4 image and a window of 2 sizes")
    nhwc = call.string("layout") == "nhwc"
    height, width = _spatial(call, x[1:3] if nhwc else x[2:], (kernel[0], kernel[1]))
    _result_shape(call, (x[0], height, width, x[3]) if nhwc else (x[0], x[1], height, width))


def transpose(call: KernelCall) -> None:
    x = call.types()["x"]
    permutation = call.integers("permutation") or ()
    if sorted(permutation) != list(range(x.get_num_dims())):
        call.fail(
            "TW1206", f"permutation {list(permutation)} does not order rank {x.get_num_dims()}"
        )
    _result_shape(call, tuple(x.get_shape()[p] for p in permutation))
    _same_element(call, x, call.result)


def reshape(call: KernelCall) -> None:
    x = call.types()["x"]
    if prod(x.get_shape()) != prod(call.result.get_shape()):
        call.fail("TW1203", f"{shape_text(x)} cannot become {shape_text(call.result)}")
    _same_element(call, x, call.result)


def _slice_fits(call: KernelCall, outer: TensorType, inner: TensorType) -> None:
    rank = outer.get_num_dims()
    offsets = call.integers("offsets") or ()
    sizes = call.integers("sizes") or ()
    strides = call.integers("strides") or (1,) * rank
    if not len(offsets) == len(sizes) == len(strides) == rank:
        call.fail("TW1206", f"needs {rank} offsets, sizes and strides")
    for i, n in enumerate(outer.get_shape()):
        if offsets[i] < 0 or (sizes[i] and offsets[i] + (sizes[i] - 1) * strides[i] >= n):
            call.fail("TW1203", f"reaches outside dimension {i} of size {n}")
    if [n for n in sizes if n != 1] != [n for n in inner.get_shape() if n != 1]:
        call.fail("TW1203", f"sizes {list(sizes)} are not the shape {shape_text(inner)}")


def slice_(call: KernelCall) -> None:
    _slice_fits(call, call.types()["x"], call.result)


def insert_slice(call: KernelCall) -> None:
    types = call.types()
    _slice_fits(call, types["into"], types["x"])
    _result_shape(call, types["into"].get_shape())


def concat(call: KernelCall) -> None:
    types = call.tensor_types()
    axis = call.axis(call.result.get_num_dims())
    shapes = [list(t.get_shape()) for t in types]
    total = sum(shape[axis] for shape in shapes if len(shape) > axis)
    for shape in shapes:
        if len(shape) > axis:
            shape[axis] = total
    if any(shape != list(call.result.get_shape()) for shape in shapes):
        call.fail(
            "TW1203",
            f"parts {', '.join(map(shape_text, types))} do not make {shape_text(call.result)}",
        )


def pad(call: KernelCall) -> None:
    shape = call.types()["x"].get_shape()
    low, high = call.integers("low") or (), call.integers("high") or ()
    if not len(low) == len(high) == len(shape):
        call.fail("TW1206", f"needs {len(shape)} low and high sizes")
    _result_shape(call, tuple(n + a + b for n, a, b in zip(shape, low, high, strict=True)))


def fill(call: KernelCall) -> None:
    _ = call.result
    if call.operand_types and call.types()["value"].get_num_dims():
        call.fail(
            "TW1203", "fills with a tensor", "give a scalar: a rank-0 tensor or the value attribute"
        )
    if bool(call.operand_types) == ("value" in call.attributes):
        call.fail("TW1204", "needs either a value attribute or a value operand")


def iota(call: KernelCall) -> None:
    call.axis(call.result.get_num_dims())


def gather(call: KernelCall) -> None:
    types = call.types()
    x, indices = types["x"], types["indices"]
    axis = call.axis(x.get_num_dims())
    shape = tuple(x.get_shape())
    if not isinstance(indices.element_type, (IntegerType, IndexType)):
        call.fail(
            "TW1205", f"indices have element type {indices.element_type}, integers are needed"
        )
    _result_shape(call, (*shape[:axis], *indices.get_shape(), *shape[axis + 1 :]))


def along_axis(call: KernelCall) -> None:
    x = call.types()["x"]
    call.axis(x.get_num_dims())
    _result_shape(call, x.get_shape())


def argmax(call: KernelCall) -> None:
    x = call.types()["x"]
    axis = call.axis(x.get_num_dims())
    shape = tuple(x.get_shape())
    kept = (1,) if call.flag("keepdims") else ()
    _result_shape(call, (*shape[:axis], *kept, *shape[axis + 1 :]))
    if isinstance(call.result.element_type, AnyFloat):
        call.fail("TW1205", "returns positions, which are integers")


def argsort(call: KernelCall) -> None:
    along_axis(call)
    if isinstance(call.result.element_type, AnyFloat):
        call.fail("TW1205", "returns positions, which are integers")


def scatter(call: KernelCall) -> None:
    types = call.types()
    x, indices, updates = types["x"], types["indices"], types["updates"]
    if not isinstance(indices.element_type, (IntegerType, IndexType)):
        call.fail(
            "TW1205", f"indices have element type {indices.element_type}, integers are needed"
        )
    if not x.get_num_dims() or indices.get_num_dims() != 1:
        call.fail("TW1206", "writes rows of x, which needs a dimension, at a vector of indices")
    _same_shape(call, updates, (*indices.get_shape(), *x.get_shape()[1:]), "the updates")
    _same_element(call, x, updates, call.result)
    _result_shape(call, x.get_shape())
