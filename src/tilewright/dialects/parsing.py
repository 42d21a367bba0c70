"""Reading MLIR text, with the user's line in every error.

xDSL's parser is used with three changes (and those of `dense_literals`): every operation remembers where its name stands in the
text; opening a region does not copy the table of all values (that made long functions with
many small regions quadratic); an open string is found out in linear time.

Error code: TW1210 malformed text.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable
from typing import cast

from xdsl.parser.attribute_parser import AttrParser
from xdsl.parser.generic_parser import ParserState
from xdsl.utils.exceptions import DiagnosticException
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRTokenKind

from tilewright.dialects.context import make_context
from tilewright.dialects.dense_literals import LiteralParser
from tilewright.dialects.error_hints import parse_hint
from tilewright.dialects.torch_form import PREFIX, parse_torch_operation
from tilewright.dialects.verification import verify_module as verify_module
from tilewright.dialects.xdsl_api import (
    Block,
    Context,
    FileLineColLoc,
    Input,
    IntAttr,
    ModuleOp,
    Operation,
    ParseError,
    Region,
    SSAValue,
    StringAttr,
    UnknownLoc,
    UnregisteredOp,
)
from tilewright.errors import Location, TilewrightError, plain_reason
from tilewright.file_access import decode_text, read_bytes

# Weights stay outside the text, so a larger file is a mistake.
MOST_BYTES = 1 << 30
BYTECODE = b"ML\xefR"

_OPERATION_NAME = re.compile(r'"?([A-Za-z_][\w$.]*)')
_REGION_OPENERS = (MLIRTokenKind.CARET_IDENT, MLIRTokenKind.R_BRACE)


class _Scope(dict[str, tuple[SSAValue, ...]]):
    """Values by name with an undo log, so that leaving a region costs only what it defined."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[tuple[str, tuple[SSAValue, ...] | None]] = []

    def __setitem__(self, name: str, values: tuple[SSAValue, ...]) -> None:
        self.log.append((name, self.get(name)))
        super().__setitem__(name, values)

    def rewind(self, mark: int) -> None:
        while len(self.log) > mark:
            name, previous = self.log.pop()
            if previous is None:
                super().pop(name, None)
            else:
                super().__setitem__(name, previous)


class _Lexer(MLIRLexer):
    """xDSL's lexer, without its exponential search for the end of an open string."""

    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')


class LocatedParser(LiteralParser):
    """A parser whose operations know their line and column.

    `first_line` is the line of the file at which the text starts; parts of a split file keep
    the line numbers of the whole.
    """

    def __init__(self, context: Context, text: str, file: str, first_line: int = 1) -> None:
        # The base class would make its own lexer; its remaining fields are set here.
        AttrParser.__init__(self, ParserState(_Lexer(Input(text, file))), context)
        self.ssa_values = _Scope()
        self.blocks = {}
        self.forward_block_references = defaultdict(list)
        self.forward_ssa_references = {}
        self._file = StringAttr(file)
        self._first_line = first_line
        # Where the names of the operations being parsed stand, outermost first.
        self.open_operations: list[int] = []
        self._line_starts = [0]
        find = text.find
        position = find("\n")
        while position >= 0:
            self._line_starts.append(position + 1)
            position = find("\n", position + 1)

    def place(self, position: int) -> tuple[int, int]:
        """Line and column of a character, both counted from 1."""
        line = bisect_right(self._line_starts, position)
        return line + self._first_line - 1, position - self._line_starts[line - 1] + 1

    def parse_operation(self) -> Operation:
        start = self._current_token.span
        results = self._parse_op_result_list()
        position = self._current_token.span.start
        self.open_operations.append(position)
        state = self._parser_state
        name_token = self._parse_optional_token(MLIRTokenKind.BARE_IDENT)
        if name_token is not None:
            op_type = self._get_op_by_name(name_token.text)
            foreign = issubclass(op_type, UnregisteredOp)
            if foreign and not name_token.text.startswith(PREFIX):
                self.raise_error(
                    f"there is no operation {name_token.text} with a custom form",
                    at_position=name_token.span,
                )
            state.dialect_stack.append(op_type.dialect_name())
            op = (
                parse_torch_operation(self, op_type, name_token.text)
                if foreign
                else op_type.parse(self)
            )
            if (location := self.parse_optional_location()) is not None:
                op.location = location
        else:
            name = self.expect(self.parse_optional_str_literal, "operation name expected")
            op_type = self._get_op_by_name(name)
            state.dialect_stack.append(op_type.dialect_name())
            op = self._parse_generic_operation(op_type)
        state.dialect_stack.pop()
        self.open_operations.pop()
        if isinstance(op.location, UnknownLoc):
            line, column = self.place(position)
            op.location = FileLineColLoc(self._file, IntAttr(line), IntAttr(column))
        bound = sum(count for _, count in results)
        if bound and len(op.results) != bound:
            self.raise_error(
                f"Operation has {len(op.results)} results, but was given {bound} to bind.",
                at_position=start,
            )
        index = 0
        for span, count in results:
            self._register_ssa_definition(
                span.text[1:], tuple(op.results[index : index + count]), span
            )
            index += count
        return op

    def _parse_dialect_resource_handle(self, dialect_name, interface) -> str:
        """A resource's name; MLIR writes names that are no identifiers as strings."""
        quoted = self.parse_optional_str_literal()
        if quoted is None and (raw := self.parse_optional_bytes_literal()) is not None:
            quoted = raw.decode(errors="replace")  # letters beyond ASCII are written as bytes
        if quoted is None:
            return super()._parse_dialect_resource_handle(dialect_name, interface)
        if (dialect_name, quoted) not in self.dialect_resources:
            quoted = interface.declare_resource(quoted)
            self.dialect_resources.add((dialect_name, quoted))
        return quoted

    def parse_optional_region(self, arguments=None) -> Region | None:
        if self.parse_optional_punctuation("{") is None:
            return None
        region = Region()
        scope = cast(_Scope, self.ssa_values)
        mark = len(scope.log)
        outer_blocks, outer_references = self.blocks, self.forward_block_references
        self.blocks, self.forward_block_references = {}, defaultdict(list)

        if arguments is not None:
            if self._current_token.kind == MLIRTokenKind.CARET_IDENT:
                self.raise_error("invalid block name in region with named arguments")
            arguments = list(arguments)
            entry = Block(arg_types=[argument.type for argument in arguments])
            for block_argument, argument in zip(entry.args, arguments, strict=True):
                self._register_ssa_definition(
                    argument.name.text[1:], (block_argument,), argument.name
                )
                if argument.location is not None:
                    block_argument.location = argument.location
            self._parse_block_body(entry)
            region.add_block(entry)
        elif self._current_token.kind not in _REGION_OPENERS:
            entry = Block()
            self._parse_block_body(entry)
            region.add_block(entry)
        while self.parse_optional_punctuation("}") is None:
            region.add_block(self._parse_block())
        if self.forward_block_references:
            names = ", ".join(f"^{name}" for name in self.forward_block_references)
            self.raise_error(f"the region refers to blocks it does not have: {names}")

        scope.rewind(mark)
        self.blocks, self.forward_block_references = outer_blocks, outer_references
        return region


def parse_text(
    text: str, file: str = "<text>", context: Context | None = None, first_line: int = 1
) -> ModuleOp:
    """The module in `text`, custom or generic form; operations outside a module get one."""
    try:
        parser = LocatedParser(context or make_context(), text, file, first_line)
    except ParseError as error:
        # The first token is read while the parser is made.
        start = error.span.start
        line, column = text.count("\n", 0, start) + first_line, start - text.rfind("\n", 0, start)
        message = _sentence(error)
        place = Location(file, line, column)
        raise TilewrightError("TW1210", message, place, parse_hint(message)) from None
    return _guarded(parser, parser.parse_module)


def _guarded(parser: LocatedParser, parse: Callable[[], ModuleOp]) -> ModuleOp:
    """Run a parse; whatever the text made fail becomes one error at its place."""
    try:
        return parse()
    except TilewrightError as error:
        raise error.at(_current_place(parser)) from None
    except ParseError as error:
        message, hint, position = _parse_message(error, parser)
        line, column = parser.place(position)
        place = Location(parser._file.data, line, column)
        raise TilewrightError("TW1210", message, place, hint or parse_hint(message)) from None
    except RecursionError:
        message = f"{_operation_name(parser)}the text is nested too deeply"
        place = _current_place(parser)
        raise TilewrightError("TW1210", message, place, parse_hint(message)) from None
    except (
        DiagnosticException,
        ValueError,
        TypeError,
        KeyError,
        IndexError,
        AssertionError,
        AttributeError,
        OverflowError,
        NotImplementedError,
        struct.error,
    ) as error:
        # Constructors of xDSL operations check their input with plain exceptions.
        reason = plain_reason(error)
        raise TilewrightError(
            "TW1210",
            f"{_operation_name(parser)}the operation is malformed: {reason}",
            _current_place(parser),
            parse_hint(reason),
        ) from None


def _current_place(parser: LocatedParser) -> Location:
    """The innermost operation being parsed, or where the parser stands."""
    operations = parser.open_operations
    position = operations[-1] if operations else parser._current_token.span.start
    line, column = parser.place(position)
    return Location(parser._file.data, line, column)


def _operation_name(parser: LocatedParser) -> str:
    """The name of the innermost operation being parsed, as the text has it, and a colon."""
    if not parser.open_operations:
        return ""
    found = _OPERATION_NAME.match(parser.lexer.input.content, parser.open_operations[-1])
    return f"{found[1]}: " if found else ""


def _parse_message(error: ParseError, parser: LocatedParser) -> tuple[str, str | None, int]:
    """What a parse error says to the writer of the text: message, hint, and where it is."""
    message, position = _sentence(error), error.span.start
    if "with a custom form" in message:
        return message, "write operations of unknown dialects in generic form", position
    if message.startswith("values used but not defined"):
        name = next(iter(parser.forward_ssa_references))
        place = _first_use(name, parser.lexer.input.content, position)
        hint = "define it above its first use, or correct its name"
        return f"the value %{name} is used but not defined", hint, place
    if parser._current_token.kind == MLIRTokenKind.EOF:
        if message == "could not parse entire input":
            return "the text holds no operation", None, position
        if "expected" not in message:
            hint = "close all braces"
            return "the text ends in the middle of an operation or region", hint, position
    name = _operation_name(parser)
    return message if message.startswith(name) else name + message, None, position


def _first_use(name: str, text: str, otherwise: int) -> int:
    """Where a value is first written outside a comment."""
    for use in re.finditer(rf"%{re.escape(name)}(?![\w$.-])", text):
        line_start = text.rfind("\n", 0, use.start()) + 1
        if "//" not in text[line_start : use.start()]:
            return use.start()
    return otherwise


def _sentence(error: ParseError) -> str:
    """The first line of a parser's message, as one sentence without its stop."""
    message = error.msg.strip().rstrip(".!").splitlines()[0]
    return message if message[1:2].isupper() else message[:1].lower() + message[1:]


def read_text(path: str) -> str:
    """The text of a file, or of standard input for `-`."""
    content = read_bytes(path, MOST_BYTES)
    if content.startswith(BYTECODE):
        hint = "print it as text first, for example with mlir-opt or iree-opt"
        raise TilewrightError("TW1210", "this is MLIR bytecode, not text", Location(path, 1), hint)
    return decode_text(content, path)


def parse_file(path: str, context: Context | None = None) -> ModuleOp:
    """The module in a file (`-`: standard input)."""
    return parse_text(read_text(path), "<stdin>" if path == "-" else path, context)
