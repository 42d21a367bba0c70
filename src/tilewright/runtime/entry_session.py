"""Running entry points that share memory.

    program = EntrySession(load_any("policy.twb"))
    program["prefix"].run(tokens=tokens)      writes the state its readers declare
    program["denoise"].run(x=x)               reads it
    program.save_state("here.tws"), program.load_state("here.tws")

A state is kept as its ports have it: what one entry point writes, the next one finds, bit for bit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.io.archive import Member, read_archive, write_archive
from tilewright.io.json_tables import Table, read_document
from tilewright.io.tensor_blob import read_tensors, tensor_pieces
from tilewright.runtime.bundle import entry_of
from tilewright.runtime.manifest import entries_manifest_of, manifest_of
from tilewright.runtime.session import Session
from tilewright.runtime.shared_members import digest
from tilewright.runtime.values import as_port, fitting
from tilewright.targets.artifact import Port, Progress
from tilewright.targets.compiled_model import CompiledEntries
from tilewright.targets.execution import first_state

STATE_FORMAT = "tilewright.state"
STATE_VERSION = 1
_HEADER, _VALUES = "state.json", "state.safetensors"


class SharedState:
    """The values of declared state, by name; what nobody has written has its first value."""

    def __init__(self, program: CompiledEntries) -> None:
        self.program = program
        self.values: dict[str, np.ndarray] = {}

    def __getitem__(self, name: str) -> np.ndarray:
        if name in self.values:
            return self.values[name]
        entry, port = self._reader(name)
        return first_state(self.program.entries[entry], port)

    def __setitem__(self, name: str, value: Any) -> None:
        """Set a state by hand; it has to have the shape and type of its ports."""
        entry, port = self._reader(name)
        self.values[name] = as_port(self.program.entries[entry].ports[port], value)

    def __iter__(self) -> Iterator[str]:
        return iter(self.program.state)

    def port(self, name: str) -> Port:
        """Shape and type of a state."""
        entry, port = self._reader(name)
        return self.program.entries[entry].ports[port]

    def _reader(self, name: str) -> tuple[str, str]:
        if name not in self.program.state:
            known = ", ".join(self.program.state) or "none"
            raise TilewrightError(
                "TW3151", f"{self.program.name} has no state {name!r}", hint=f"it has {known}"
            )
        return next(iter(self.program.state[name].readers.items()))


class EntryPoint(Session):
    """One entry point, with the state it shares with the others."""

    def __init__(self, owner: EntrySession, name: str, *options: Any, **named: Any) -> None:
        super().__init__(owner.program.entries[name], *options, **named)
        self.name, self.owner, self.shared = name, owner, owner.state
        self._reads = owner.program.read_by(name)
        self._writes = owner.program.written_by(name)

    def complete(self, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The inputs with the state that was not given, shared or the entry point's own."""
        for port, state in self._reads.items():
            if port not in values:
                values[port] = self.shared[state]
        return super().complete(values)

    def _note(self, results: Mapping[str, np.ndarray]) -> None:
        """What outputs are the next value of is kept."""
        super()._note(results)
        for port, state in self._writes.items():
            self.shared.values[state] = results[port]

    def identity(self) -> str:
        return f"{identity(self.owner.program)}-{super().identity()}"

    def memory(self) -> dict[str, np.ndarray]:
        """All state of the program: other entry points may read it after this one."""
        return self.owner.state_values()

    def set_memory(self, values: Mapping[str, np.ndarray], place: Location) -> None:
        self.owner.set_state_values(values, place)

    def reset_state(self) -> None:
        """Forget what earlier runs of any entry point left in memory."""
        super().reset_state()
        self.shared.values.clear()


class EntrySession:
    """All entry points of a program, and their memory."""

    def __init__(
        self,
        program: CompiledEntries,
        machine: str | None = None,
        progress: Progress | None = None,
        max_cycles: int | None = None,
        *,
        poisoned: bool = False,
    ) -> None:
        self.program, self.state = program, SharedState(program)
        self.entries = {
            name: EntryPoint(self, name, machine, progress, max_cycles, poisoned=poisoned)
            for name in program.entries
        }

    def __getitem__(self, name: str) -> EntryPoint:
        entry_of(self.program, name)
        return self.entries[name]

    def reset_state(self) -> None:
        """Forget what earlier runs left in memory."""
        for entry in self.entries.values():
            entry.reset_state()

    # --- state as a file ----------------------------------------------------------------

    def state_values(self) -> dict[str, np.ndarray]:
        """All state: `shared/NAME`, and `own/ENTRY/PORT` of entry points that have some."""
        values = {f"shared/{name}": self.state[name] for name in self.state}
        for name, entry in self.entries.items():
            values |= {f"own/{name}/{port}": x for port, x in entry.state.items()}
            for port in self._shared_ports(name):
                values.pop(f"own/{name}/{port}", None)
        return values

    def set_state_values(self, values: Mapping[str, np.ndarray], place: Location) -> None:
        """Take what `state_values` gave; all of it or, when it does not fit, nothing."""
        shared, own = self._sorted(values, place)
        self.state.values = shared
        for name, entry in self.entries.items():
            entry.state = own.get(name, {})

    def save_state(self, path: str | Path) -> None:
        """Write all state as one file, to go on from later."""
        values = self.state_values()
        header = {
            "format": STATE_FORMAT,
            "version": STATE_VERSION,
            "program": identity(self.program),
            "name": self.program.name,
        }
        text = json.dumps(header, indent=1, sort_keys=True).encode() + b"\n"
        members = [Member(_HEADER, [text]), Member(_VALUES, tensor_pieces(values, _VALUES))]
        write_archive(path, members)

    def load_state(self, path: str | Path) -> None:
        """Go on from saved state; that of another program is refused, and then nothing changes."""
        place = Location(str(path))
        members = read_archive(path, "a file of state")
        header = Table(read_document(members, _HEADER, place), "its header", place)
        if header.take("format") != STATE_FORMAT:
            raise TilewrightError("TW3152", "this is no file of state", place)
        if header.integer("version", 1) > STATE_VERSION:
            raise TilewrightError("TW3152", "the state was saved by a newer release", place)
        owner = header.text("name")
        if header.text("program") != identity(self.program):
            raise TilewrightError(
                "TW3152",
                f"the state is that of another program, {owner}",
                place,
                "state fits the bundle whose session saved it, and no other",
            )
        header.done()
        if set(members) != {_HEADER, _VALUES}:
            raise TilewrightError("TW3152", "the file holds other things than state", place)
        self.set_state_values(read_tensors(members[_VALUES], "the state", place), place)

    def _sorted(
        self, values: Mapping[str, np.ndarray], place: Location
    ) -> tuple[dict[str, np.ndarray], dict[str, dict[str, np.ndarray]]]:
        """Values of a file as shared and own state, each checked against its port."""
        shared: dict[str, np.ndarray] = {}
        own: dict[str, dict[str, np.ndarray]] = {}
        for key, array in values.items():
            kind, _, name = key.partition("/")
            entry, _, port = name.partition("/")
            if kind == "shared" and name in self.program.state:
                shared[name] = fitting(self.state.port(name), array, place)
            elif (
                kind == "own"
                and entry in self.entries
                and port in self.program.entries[entry].state
                and port not in self._shared_ports(entry)
            ):
                model = self.program.entries[entry]
                own.setdefault(entry, {})[port] = fitting(model.ports[port], array, place)
            else:
                raise TilewrightError("TW3152", f"the program has no state {key!r}", place)
        missing = sorted(set(self.program.state) - set(shared))
        if missing:
            raise TilewrightError("TW3152", f"the file lacks the state {missing[0]}", place)
        return shared, own

    def _shared_ports(self, entry: str) -> set[str]:
        return set(self.program.read_by(entry))


def identity(program: CompiledEntries) -> str:
    """What tells a program from others: everything its manifests say, hash of the model included."""
    documents = [entries_manifest_of(program, {}, {})]
    documents += [manifest_of(model) for model in program.entries.values()]
    return digest([json.dumps(documents, sort_keys=True).encode()])
