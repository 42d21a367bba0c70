"""The order of the calls of a part: what belongs to a layer lies with the layer.

Lowering asks for one output after the other, so a result that only leaves the model may be computed
long after the layer it comes from, and what several layers share in the middle of the first of
them. Layers are recognised as iterations of one loop only where their calls come in the same order.

before: layer 0 with the tables of all, layer 1, …, the projected values of layer 0, of layer 1, …
after:  tables, layer 0 with its projected values, layer 1 with its own, …
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.targets.atlas.model.calls import Call


def by_layers(calls: Sequence[Call]) -> list[Call]:
    """The calls in an order that is as legal as the given one."""
    maker = {made: call for call in calls for made in call.results.values()}
    sources = {c: [maker[t] for t in c.operands.values() if t in maker] for c in calls}
    readers: dict[Call, list[Call]] = {call: [] for call in calls}
    for call in calls:
        for source in dict.fromkeys(sources[call]):
            readers[source].append(call)
    order = _outputs_with_sources(calls, sources, readers)
    place = {call: number for number, call in enumerate(order)}

    def is_shared(call: Call) -> bool:
        return not sources[call] and _spread([place[r] for r in readers[call]], len(order))

    return sorted(order, key=lambda call: not is_shared(call))


def _outputs_with_sources(
    calls: Sequence[Call], sources: dict[Call, list[Call]], readers: dict[Call, list[Call]]
) -> list[Call]:
    """What is computed for an output alone comes right behind what it is computed from."""
    number = {call: place for place, call in enumerate(calls)}
    key = {call: (number[call], 0, 0, 0) for call in calls}
    for call in calls:
        if readers[call]:
            continue
        chain = _only_for(call, sources, readers)
        outside = [s for one in chain for s in sources[one] if s not in chain]
        if outside:
            behind = max(key[source] for source in outside)[0]
            # Of several, the last one first: in the last layer, too, an output comes before what
            # goes on, although both are then computed for an output alone.
            key |= {one: (behind, 1, -number[call], number[one]) for one in chain}
    return sorted(calls, key=lambda call: key[call])


def _spread(readers: Sequence[int], count: int) -> bool:
    """Whether calls at these places of `count` are spread over more than half of what follows."""
    return len(readers) > 1 and 2 * (max(readers) - min(readers)) > count - min(readers)


def _only_for(
    call: Call, sources: dict[Call, list[Call]], readers: dict[Call, list[Call]]
) -> set[Call]:
    """The call, and those whose results nothing else reads."""
    chain, waiting = {call}, list(sources[call])
    while waiting:
        one = waiting.pop()
        if one not in chain and all(reader in chain for reader in readers[one]):
            chain.add(one)
            waiting += sources[one]
    return chain
