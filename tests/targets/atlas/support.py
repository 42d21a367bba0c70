"""What the Atlas tests share: both machines, short ways to assemble and to set state."""

from __future__ import annotations

import numpy as np

from tilewright.targets.atlas.assembler import assemble
from tilewright.targets.atlas.machine import PythonMachine
from tilewright.targets.atlas.native import NativeMachine
from tilewright.targets.atlas.policy import Policy
from tilewright.targets.atlas.profile import load_profile
from tilewright.targets.atlas.program import Program
from tilewright.targets.atlas.text_isa import parse_text_isa

MACHINES = [PythonMachine, NativeMachine]
Machine = PythonMachine | NativeMachine


def program_of(text: str, profile: str) -> Program:
    """Assembly for atlas-v1, the key=value form for atlas-v0."""
    if profile == "atlas-v0":
        return parse_text_isa(text, load_profile(profile))
    return assemble(text, load_profile(profile))


def machine_with(
    kind: type[Machine], text: str, profile: str = "atlas-v1", **policy: object
) -> Machine:
    """A machine of this kind, loaded and ready to run."""
    machine = kind(load_profile(profile), Policy(**policy))  # type: ignore[arg-type]
    machine.load(program_of(text, profile))
    return machine


def bf16(values: object) -> np.ndarray:
    """bf16 patterns of values that bf16 holds exactly."""
    return (np.asarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def set_tile(machine: Machine, register: int, patterns: np.ndarray) -> None:
    """Write bf16 patterns [32, 16 or 32] into one register or a pair."""
    for k in range(patterns.shape[1] // 16):
        half = np.ascontiguousarray(patterns[:, 16 * k : 16 * k + 16], "<u2")
        machine.write_register(f"m{register + k}", half.tobytes())


def get_tile(machine: Machine, register: int, registers: int = 2) -> np.ndarray:
    """bf16 patterns of one register or a pair."""
    halves = []
    for k in range(registers):
        raw = machine.read_register(f"m{register + k}")
        assert isinstance(raw, bytes)
        halves.append(np.frombuffer(raw, "<u2").reshape(32, 16))
    return np.concatenate(halves, axis=1)


def set_bytes(machine: Machine, register: str, codes: np.ndarray) -> None:
    machine.write_register(register, np.ascontiguousarray(codes, np.uint8).tobytes())


def get_bytes(machine: Machine, register: str) -> np.ndarray:
    raw = machine.read_register(register)
    assert isinstance(raw, bytes)
    return np.frombuffer(raw, np.uint8)
