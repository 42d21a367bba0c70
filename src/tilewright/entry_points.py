"""Several programs of one network to call: what `tw.compile` gives for a table of models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.program import Program, bound_inputs, known_options
from tilewright.runtime import arguments
from tilewright.runtime.batches import Batches
from tilewright.runtime.bundle import entry_of, load_any
from tilewright.runtime.entry_session import EntrySession, SharedState
from tilewright.targets.compiled_model import CompiledEntries

if TYPE_CHECKING:
    from tilewright.runtime.verify_entries import EntriesVerification


class Entry(Program):
    """One entry point: a program whose state is shared with the others.

    Outputs that are the next value of state are kept and not returned; `run` returns all.
    """

    def __init__(self, session: EntrySession, name: str, original: Any = None) -> None:
        self.name = name
        self.model, self.original = entry_of(session.program, name), original
        self.session = session[name]
        self._kept = frozenset(session.program.written_by(name))

    @property
    def kept(self) -> frozenset[str]:
        return self._kept | super().kept


class EntryPoints:
    """Programs with names that share weights and memory.

    program["prefix"](x)        the outputs of an entry point; program.prefix(x) is the same
    program(x)                  a batch of any size, of a model compiled for several sizes
    program.state["cache"]      memory the entry points share, as an array; can be set
    program.reset_state()       as it was in the beginning
    program.save_state(path), program.load_state(path)
    program.verify()            all entry points, each on the state the ones before it left
    program.report()            cycles of every entry point and layer; print it
    program.save(path)          one file, for `tw.load`
    """

    def __init__(
        self,
        program: CompiledEntries,
        machine: str | None = None,
        originals: Mapping[str, Any] | None = None,
    ) -> None:
        """`originals` is what was compiled, by entry point, to compare with in float32."""
        if not isinstance(program, CompiledEntries):
            raise arguments.wrong("a program", "made by tw.compile or tw.load", program)
        self.program, self.originals = program, dict(arguments.table("originals", originals) or {})
        self.session = EntrySession(program, machine)

    @cached_property
    def entries(self) -> dict[str, Entry]:
        """The entry points by name, in order."""
        return {
            name: Entry(self.session, name, self.originals.get(name))
            for name in self.program.entries
        }

    def __getitem__(self, name: str) -> Entry:
        entry_of(self.program, name)
        return self.entries[name]

    def __getattr__(self, name: str) -> Entry:
        if not name.startswith("_") and name in self.__dict__["program"].entries:
            return self.entries[name]
        raise AttributeError(f"the program has no entry point {name!r}")

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """The outputs for a batch of any size: the entry points that fit it best are run."""
        batches = Batches.of(self.program)
        if batches is None:
            entry_of(self.program, None)
        assert batches is not None
        first = next(iter(self.entries.values()))
        given = bound_inputs(first.model, arrays, named)
        results = batches.run(given, lambda entry, piece: self.entries[entry].run(piece))
        return first.returned(results, [*arrays, *named.values()])

    def __iter__(self) -> Iterator[str]:
        return iter(self.program.entries)

    def __len__(self) -> int:
        return len(self.program.entries)

    # --- memory -------------------------------------------------------------------------

    @property
    def state(self) -> SharedState:
        return self.session.state

    def reset_state(self) -> None:
        self.session.reset_state()

    def save_state(self, path: str | Path) -> None:
        """Write all state as one file."""
        self.session.save_state(path)

    def load_state(self, path: str | Path) -> None:
        """Go on from saved state; that of another program is refused."""
        self.session.load_state(path)

    # --- looking ------------------------------------------------------------------------

    def verify(
        self, inputs: Mapping[str, Mapping[str, Any]] | None = None, **options: Any
    ) -> EntriesVerification:
        """Check all entry points; see `runtime.verify_entries.verify_entries`."""
        from tilewright.runtime.verify import verify
        from tilewright.runtime.verify_entries import verify_entries

        options.setdefault("originals", self.originals)
        inputs = arguments.table("inputs", inputs)
        known_options(options, [*self.program.entries], verify_entries, verify)
        return verify_entries(self.program, inputs, **options)

    def report(self, path: str | Path | None = None, seed: int = 0) -> EntriesSummary:
        """Where the cycles of every entry point go; with a folder, also a page for each."""
        if path is not None:
            Path(path).mkdir(parents=True, exist_ok=True)
        return EntriesSummary(
            self.program.name,
            {
                name: entry.report(None if path is None else Path(path) / f"{name}.html", seed)
                for name, entry in self.entries.items()
            },
        )

    def save(self, path: str | Path) -> None:
        """Write the program as one file, to be read by `tw.load`."""
        from tilewright.runtime.bundle import save

        save(self.program, Path(arguments.path("path", path)))

    def __repr__(self) -> str:
        rows = [f"  {name}: {entry!r}" for name, entry in self.entries.items()]
        kept = f", state {', '.join(self.program.state)}" if self.program.state else ""
        return "\n".join([f"<{self.program.name} for {self.program.target}{kept}", *rows, ">"])


class EntriesSummary:
    """The summaries of all entry points; print it, or ask for `to_json()`."""

    def __init__(self, name: str, entries: dict[str, Any]) -> None:
        self.name, self.entries = name, entries

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "entries": {n: s.to_json() for n, s in self.entries.items()}}

    def __str__(self) -> str:
        return "\n\n".join(f"entry point {name}\n{found}" for name, found in self.entries.items())


def load(path: str | Path, machine: str | None = None) -> Any:
    """The `Program` in a bundle, or the `EntryPoints` of one that has several, ready to run."""
    found = load_any(path)
    if isinstance(found, CompiledEntries):
        return EntryPoints(found, machine)
    return Program(found, machine)
