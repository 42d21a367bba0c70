"""Calls that torch itself does not take apart, in simpler ones: bilinear layers, bags of rows, medians."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def own_decompositions(torch: Any) -> dict[Any, Callable[..., Any]]:
    """Functions for `run_decompositions`, by call."""
    aten = torch.ops.aten

    def trilinear(
        a: Any, b: Any, c: Any, expand_a: list[int], expand_b: list[int], expand_c: list[int],
        summed: list[int], unroll: int = 1,
    ) -> Any:  # fmt: skip
        """The sum over some dimensions of a product of three tensors, each repeated along some."""
        if (expand_a, expand_b, expand_c, summed) == ([1, 3], [0], [1, 2], [2, 3]):
            # a[n, i] b[o, i, j] c[n, j]: a product of matrices, then rows of it with c.
            outputs, rows, columns = b.shape
            flat = b.permute(1, 0, 2).reshape(rows, outputs * columns)
            partial = (a @ flat).reshape(a.shape[0], outputs, columns)
            return (partial * c.unsqueeze(1)).sum(-1)
        spread = []
        for tensor, places in ((a, expand_a), (b, expand_b), (c, expand_c)):
            for place in places:
                tensor = tensor.unsqueeze(place)
            spread.append(tensor)
        product = spread[0] * spread[1] * spread[2]
        return product.sum(summed) if summed else product

    def embedding_bag(
        weight: Any, indices: Any, offsets: Any, scale_grad_by_freq: bool = False, mode: int = 0,
        sparse: bool = False, per_sample_weights: Any = None, include_last_offset: bool = False,
        padding_idx: int = -1,
    ) -> tuple[Any, ...]:  # fmt: skip
        """Rows of a table, added up (mode 0), averaged (1) or their maximum (2) bag by bag: which row
        is in which bag is a matrix of zeros and ones."""
        count, places = indices.shape[0], torch.arange(indices.shape[0])
        starts = offsets[:-1] if include_last_offset else offsets
        ends = torch.cat([offsets[1:], torch.full_like(offsets[:1], count)])
        ends = offsets[1:] if include_last_offset else ends
        member = (places >= starts.unsqueeze(1)) & (places < ends.unsqueeze(1))
        if padding_idx >= 0:
            member = member & (indices != padding_idx)
        rows = weight[indices]
        if per_sample_weights is not None:
            rows = rows * per_sample_weights.unsqueeze(1)
        share = member.to(weight.dtype)
        size = share.sum(1, keepdim=True)
        if mode == 2:
            hidden = torch.where(member.unsqueeze(2), rows.unsqueeze(0), float("-inf")).amax(1)
            result = torch.where(size > 0, hidden, 0.0)
        else:
            result = (share / size.clamp(min=1) if mode == 1 else share) @ rows
        empty = torch.zeros_like(offsets)
        return result, empty, empty, empty

    def median(x: Any) -> Any:
        """The lower of the two in the middle; NaN if there is one, which sorting brings to the end."""
        line = x.reshape(-1).sort()[0]
        return torch.where(line[-1].isnan(), line[-1], line[(line.shape[0] - 1) // 2])

    def nanmedian(x: Any) -> Any:
        """The same of what is no NaN."""
        line = x.reshape(-1).sort()[0]
        numbers = (~line.isnan()).sum().reshape(1)
        return line.gather(0, ((numbers - 1) // 2).clamp(min=0)).reshape(())

    def logcumsumexp(x: Any, dim: int) -> Any:
        """log(sum(exp)) of what comes before every element, with the largest of it taken out."""
        line = x.movedim(dim, -1)
        size = line.shape[-1]
        seen = torch.arange(size).unsqueeze(1) >= torch.arange(size)
        parts = torch.where(seen, line.unsqueeze(-2), float("-inf"))
        return parts.logsumexp(-1).movedim(-1, dim)

    return {
        aten.median.default: median,
        aten.nanmedian.default: nanmedian,
        aten.logcumsumexp.default: logcumsumexp,
        aten._trilinear.default: trilinear,
        aten._embedding_bag.default: embedding_bag,
        aten._embedding_bag_forward_only.default: embedding_bag,
    }
