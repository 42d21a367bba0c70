"""`tilewright generate`: a compiled language model goes on from a prompt, token by token."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from tilewright.cli import print_json
from tilewright.errors import Location, TilewrightError

HELP = """Let the language model MODEL.twb (a bundle of `tilewright compile FOLDER`) go on from a prompt.

\b
  tilewright generate smollm2.twb --prompt-ids 1,2,3 --count 20
  tilewright generate smollm2.twb --tokenizer SmolLM2-135M --prompt "Once upon a time"
  tilewright generate smollm2.twb --prompt-ids 1,2,3 --temperature 0.8 --top-k 40 --seed 7

Tokens are printed as they come, each with the cycles of the device it took; those of the prompt
are with the first. Equal seeds give equal tokens. Exits 0, or 2 for bad input, such as a prompt
that the KV cache has no room for.
"""


@click.command("generate", help=HELP)
@click.argument("bundle", metavar="MODEL.twb")
@click.option(
    "--prompt-ids", default=None, metavar="N,N,…", help="The prompt as numbers of tokens."
)
@click.option(
    "--prompt", default=None, metavar="TEXT", help="The prompt as text; needs --tokenizer."
)
@click.option(
    "--tokenizer",
    default=None,
    metavar="FILE|DIR",
    help="A tokenizer.json, or the folder it is in, read by the package `tokenizers`.",
)
@click.option(
    "--count",
    type=click.IntRange(1, 1 << 20),
    default=32,
    show_default=True,
    help="How many tokens.",
)
@click.option(
    "--stop",
    type=click.IntRange(0),
    multiple=True,
    metavar="N",
    help="End with this token. Repeatable.",
)
@click.option(
    "--temperature", type=click.FloatRange(0), default=0.0, help="0 takes the best token."
)
@click.option("--top-k", type=click.IntRange(0), default=0, help="Draw among so many; 0: all.")
@click.option(
    "--top-p",
    type=click.FloatRange(0, 1, min_open=True),
    default=1.0,
    help="Draw among the likeliest.",
)
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, help="Of the draws.")
@click.option("--machine", metavar="NAME", default=None, help="Which simulator.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
def command(
    bundle: str,
    prompt_ids: str | None,
    prompt: str | None,
    tokenizer: str | None,
    count: int,
    stop: tuple[int, ...],
    temperature: float,
    top_k: int,
    top_p: float,
    seed: int,
    machine: str | None,
    as_json: bool,
) -> int:
    from tilewright.runtime.bundle import load_any
    from tilewright.runtime.llm.sampling import Sampling
    from tilewright.runtime.llm.session import LanguageModel
    from tilewright.targets.compiled_model import CompiledEntries

    if (prompt is None) == (prompt_ids is None):
        raise click.UsageError("give --prompt or --prompt-ids")
    if prompt is not None and tokenizer is None:
        raise click.UsageError("--prompt needs --tokenizer, --prompt-ids does not")
    words: Any = None if tokenizer is None else read_tokenizer(tokenizer)
    tokens = _numbers(prompt_ids) if prompt_ids is not None else list(words.encode(prompt).ids)
    program = load_any(bundle)
    if not isinstance(program, CompiledEntries):
        raise TilewrightError(
            "TW3160",
            f"{program.name} is no language model: it has one entry point",
            Location(bundle),
            "tilewright compile FOLDER makes language models",
        )
    model = LanguageModel(program, machine)
    found: list[dict[str, Any]] = []
    told = ""  # of the text so far
    for one in model.stream(tokens, count, Sampling(temperature, top_k, top_p, seed), stop):
        found.append({"token": one.token, "position": one.position, "cycles": one.cycles})
        text = ""
        if words is not None:
            text, told = _more_text(words, [row["token"] for row in found], told)
            found[-1]["text"] = text
        if not as_json:
            shown = f"  {text!r}" if words is not None else ""
            click.echo(f"{one.position:>6}  {one.token:>8}  {one.cycles:>14,} cycles{shown}")
    steps = [row["cycles"] for row in found[1:]]
    average = sum(steps) // len(steps) if steps else 0
    if as_json:
        whole = {"text": words.decode([row["token"] for row in found])} if words is not None else {}
        print_json(
            {
                "model": program.name,
                "target": program.target,
                "prompt": tokens,
                "tokens": found,
                "cycles": model.cycles,
                "cycles_per_token": average,
                **whole,
            }
        )
    else:
        click.echo(
            f"{len(found)} tokens on {program.target}: {model.cycles:,} cycles, the prompt "
            f"{found[0]['cycles']:,}, then {average:,} per token"
        )
    return 0


def _numbers(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 19 for part in parts):
        raise TilewrightError(
            "TW3166", f"{text!r} are no tokens", hint="write numbers, such as --prompt-ids 1,2,3"
        )
    return [int(part) for part in parts]


def _more_text(words: Any, tokens: list[int], told: str) -> tuple[str, str]:
    """What the last token adds to a text, and all that is told then.

    Tokens are decoded together: one alone may lack the space before it, or be a part of a character.
    Such a part is told with the token that completes it.
    """
    whole = words.decode(tokens)
    if whole.endswith("\N{REPLACEMENT CHARACTER}") or not whole.startswith(told):
        return "", told
    return whole[len(told) :], whole


def read_tokenizer(path: str) -> Any:
    """The tokenizer of a file or folder."""
    file = Path(path) / "tokenizer.json" if os.path.isdir(path) else Path(path)
    try:
        from tokenizers import Tokenizer  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise TilewrightError(
            "TW3168",
            "texts need the package tokenizers",
            hint="pip install tokenizers, or give --prompt-ids",
        ) from None
    if not os.path.isfile(file):
        raise TilewrightError("TW3168", "there is no such tokenizer", Location(str(file)))
    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:
        raise TilewrightError(
            "TW3168", f"the tokenizer cannot be read: {error}", Location(str(file))
        ) from None
