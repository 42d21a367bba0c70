"""Editor support: a VS Code extension that colours assembly, made from the table."""

from __future__ import annotations

import json
import re
from typing import Any

from tilewright.targets.atlas.assembly.directives import DIRECTIVES
from tilewright.targets.atlas.assembly.pseudo import PSEUDO, SPECIAL
from tilewright.targets.atlas.assembly.statements import CHANNELS
from tilewright.targets.atlas.isa import OPCODES
from tilewright.targets.atlas.isa_reference import GROUPS, group_of
from tilewright.targets.riscv_registers import ABI_NAMES

_SCOPES = {
    "scalar": "keyword.operator.scalar",
    "control": "keyword.control",
    "memory": "support.function.memory",
    "matrix": "support.function.matrix",
    "vector": "support.function.vector",
    "dma": "support.function.dma",
}


def extension() -> dict[str, str]:
    """File name -> content of the extension's folder."""
    return {
        "package.json": _json(_package()),
        "language-configuration.json": _json(_language()),
        "syntaxes/atlas.tmLanguage.json": _json(grammar()),
    }


def _json(value: Any) -> str:
    return json.dumps(value, indent=2) + "\n"


def _package() -> dict[str, Any]:
    return {
        "name": "atlas-assembly",
        "displayName": "Atlas assembly",
        "description": "Colours for Atlas NPU assembly",
        "publisher": "tilewright",
        "version": "0.1.0",
        "engines": {"vscode": "^1.70.0"},
        "categories": ["Programming Languages"],
        "contributes": {
            "languages": [
                {
                    "id": "atlas",
                    "aliases": ["Atlas assembly"],
                    "extensions": [".S"],
                    "configuration": "./language-configuration.json",
                }
            ],
            "grammars": [
                {
                    "language": "atlas",
                    "scopeName": "source.atlas",
                    "path": "./syntaxes/atlas.tmLanguage.json",
                }
            ],
        },
    }


def _language() -> dict[str, Any]:
    return {
        "comments": {"lineComment": "#", "blockComment": ["/*", "*/"]},
        "brackets": [["(", ")"]],
        "autoClosingPairs": [["(", ")"]],
    }


def grammar() -> dict[str, Any]:
    """The TextMate grammar: mnemonics by group, registers, numbers, labels, directives."""
    patterns: list[dict[str, Any]] = [
        {"name": "comment.line", "match": r"(#|//).*$"},
        {"name": "comment.block", "begin": r"/\*", "end": r"\*/"},
        {"name": "entity.name.label", "match": r"\b[A-Za-z_][A-Za-z0-9_.]*(?=:)"},
        {"name": "keyword.directive", "match": rf"(?<!\S)({_any(DIRECTIVES)})(?!\S)"},
    ]
    for group in GROUPS:
        names = [row.mnemonic for row in OPCODES if group_of(row) == group]
        channel = rf"\.ch[0-{CHANNELS - 1}]" if group == "dma" else ""
        patterns.append(_words(_SCOPES[group], names, channel))
    patterns += [
        _words("keyword.operator.pseudo", [*PSEUDO, *SPECIAL], ""),
        {
            "name": "variable.register",
            "match": rf"(?i)\b(x([12]?[0-9]|3[01])|e([12]?[0-9]|3[01])|m([1-5]?[0-9]|6[0-3])"
            rf"|w[01]|acc[01]|fp|{_any(ABI_NAMES)})\b",
        },
        {
            "name": "constant.numeric",
            "match": r"(?i)\b(0x[0-9a-f_]+|0b[01_]+|0o[0-7_]+|[0-9][0-9_.e]*)\b",
        },
        {"name": "support.function.part", "match": r"%(hi|lo)\b"},
    ]
    return {
        "$schema": "https://raw.githubusercontent.com/martinring/tmlanguage/master/tmlanguage.json",
        "name": "Atlas assembly",
        "scopeName": "source.atlas",
        "patterns": patterns,
    }


def _any(names: tuple[str, ...] | list[str]) -> str:
    ordered = sorted(names, key=lambda name: (-len(name), name))
    return "|".join(re.escape(name) for name in ordered)


def _words(scope: str, names: list[str], suffix: str) -> dict[str, str]:
    # A mnemonic ends where no further part of a longer one follows.
    return {
        "name": scope,
        "match": rf"(?i)(?<![A-Za-z0-9_.])({_any(names)}){suffix}(?![A-Za-z0-9_.])",
    }
