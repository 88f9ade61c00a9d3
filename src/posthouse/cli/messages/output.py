"""Output of `receive` and `peek`: whole, rows, JSON, raw, by a template, as files.

A handler returns when the message has left this process. A caller that takes messages ends each one
after that, so a message that could not be written stays in its queue.
"""

from __future__ import annotations

import difflib
import re
import string
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import msgspec
import typer

from posthouse.cli.messages.folder import MessageFolder
from posthouse.cli.messages.view import HeadedRows, as_json, decoded_text, show_one
from posthouse.cli.output import complain, json_line, print_json, safe, say
from posthouse.model.message_json import MessageJson

Handler = Callable[[MessageJson], None]

_DECODED: Final = "decoded"
_ATTRIBUTES: Final = {
    field.encode_name: field.name for field in msgspec.structs.fields(MessageJson)
} | {_DECODED: _DECODED}
FIELDS: Final = tuple(_ATTRIBUTES)
_ESCAPE: Final = re.compile(r"\\(x[0-9a-fA-F]{2}|.|$)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "\\": "\\"}

Raw = Annotated[
    bool,
    typer.Option(
        "--raw",
        help="Write only the bodies, byte for byte. On a terminal, control characters are escaped.",
    ),
]
Hex = Annotated[
    bool,
    typer.Option("--hex", help="Print bodies as hex with an ASCII column, without decoding."),
]
Separator = Annotated[
    str | None,
    typer.Option(
        "--separator",
        metavar="TEXT",
        help="With --raw or --format: text to write after each message. Escapes: \\n \\r \\t \\0 "
        "\\\\ \\xHH. Default: a newline; nothing after a single raw body.",
    ),
]
Template = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="TEMPLATE",
        help="Print each message by this template, with fields of the message JSON: "
        "'{lookup_id} {label} {body_text}'. A body that is not text is printed as hex; "
        "{decoded} is the decoded body; {{ is a brace; escapes as for --separator.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Write each body to a new file in this folder, with the properties as JSON in a "
        "second file, and print the names.",
    ),
]


class Output(NamedTuple):
    """Options of several commands: how messages are printed."""

    raw: Raw = False
    hexed: Hex = False
    separator: Separator = None
    template: Template = None
    out: Out = None

    def handler(self, *, json: bool, single: bool, rows: bool = False) -> Handler:
        """What takes each message; refuses what does not go together before any is read.

        `single`: at most one message comes. `rows`: several are a table for people.
        """
        self._check(json)
        if self.out is not None:
            return _filed(MessageFolder(self.out), json)
        if json:
            return lambda message: print_json(as_json(message))
        if self.raw:
            return _raw(_separator(self.separator, "" if single else "\\n"))
        if self.template is not None:
            return _formatted(self.template, _separator(self.separator, "\\n"))
        if rows and not self.hexed:
            return HeadedRows()
        return _Whole(self.hexed)

    def _check(self, json: bool) -> None:
        if sum((self.raw, self.hexed, self.template is not None, self.out is not None)) > 1:
            raise typer.BadParameter("give one of --raw, --hex, --format and --out")
        if json and (self.raw or self.hexed or self.template is not None):
            raise typer.BadParameter(
                "give --json, --raw, --hex or --format: each prints in its own way"
            )
        if self.separator is not None and not self.raw and self.template is None:
            raise typer.BadParameter("--separator goes with --raw or --format")


class _Whole:
    """All of each message, with an empty line between two."""

    def __init__(self, hexed: bool) -> None:
        self._first = True
        self._hexed = hexed

    def __call__(self, message: MessageJson) -> None:
        if not self._first:
            say("")
        self._first = False
        show_one(message, hexed=self._hexed)


def _raw(separator: bytes) -> Handler:
    def write(message: MessageJson) -> None:
        data = (message.body or b"") + separator
        if sys.stdout.isatty():
            _show(data)
        else:
            _put(data)

    return write


def _put(data: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _show(data: bytes) -> None:
    """Bytes on a terminal, which must not obey them."""
    lines = data.decode("utf-8", "backslashreplace").split("\n")
    sys.stdout.write("\n".join(map(safe, lines)))


def _formatted(template: str, separator: bytes) -> Handler:
    parts = list(_parts(template))

    def write(message: MessageJson) -> None:
        text = "".join(
            literal + (safe(_value(message, field)) if field else "") for literal, field in parts
        )
        _put(text.encode("utf-8", "surrogateescape") + separator)

    return write


def _filed(folder: MessageFolder, json: bool) -> Handler:
    def write(message: MessageJson) -> None:
        body, properties = folder.write(message)
        if json:
            print_json(
                {
                    "lookup_id": message.lookup_id,
                    "id": message.id,
                    "body_file": str(body),
                    "properties_file": str(properties),
                }
            )
        else:
            say(str(body))

    return write


# -- templates


def _separator(text: str | None, default: str) -> bytes:
    return _unescaped(default if text is None else text, "--separator").encode(
        "utf-8", "surrogateescape"
    )


def _unescaped(text: str, option: str) -> str:
    def replaced(found: re.Match[str]) -> str:
        escape = found[1]
        if len(escape) == 3:
            return bytes.fromhex(escape[1:]).decode("utf-8", "surrogateescape")
        if escape not in _ESCAPES:
            raise typer.BadParameter(
                f"{option}: {safe(found[0])} is not an escape; there are \\n \\r \\t \\0 \\\\ \\xHH"
            )
        return _ESCAPES[escape]

    return _ESCAPE.sub(replaced, text)


def _parts(template: str) -> Iterator[tuple[str, str]]:
    """Texts, each with the field that follows it."""
    try:
        parsed = list(string.Formatter().parse(template))
    except ValueError as error:
        raise typer.BadParameter(
            f"--format: {error}. Write '{{lookup_id}} {{label}}', and {{{{ for a brace"
        ) from None
    if not any(field is not None for _, field, _, _ in parsed):
        raise typer.BadParameter("--format names no field: nothing of a message would be printed")
    for literal, field, spec, conversion in parsed:
        if field is not None and (spec or conversion or field not in _ATTRIBUTES):
            raise typer.BadParameter(_unknown(field, spec, conversion))
        yield _unescaped(literal, "--format"), field or ""


def _unknown(field: str, spec: str | None, conversion: str | None) -> str:
    if field in _ATTRIBUTES:
        return f"--format: {{{field}}} stands alone, without : or !"
    near = difflib.get_close_matches(field[:32], FIELDS, 1, 0.5)
    hint = f"did you mean {{{near[0]}}}?" if near else f"there are {', '.join(FIELDS)}"
    return f"--format: a message has no field {{{safe(field)}}}; {hint}"


def _value(message: MessageJson, field: str) -> str:
    if field == _DECODED:
        return decoded_text(message)
    value = getattr(message, _ATTRIBUTES[field])
    if field == "body_text" and value is None:
        return (message.body or b"").hex(" ")
    if value is None or value is msgspec.UNSET:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ",".join(value)
    return json_line(value).strip('"')


# -- failures


@contextmanager
def leaving(*, taking: bool) -> Iterator[None]:
    """Messages leave the process here; where they cannot, their place in the queue is named."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        if taking:
            complain("The message could not be written; it stays in the queue.")
        if error.filename is None:
            error.filename = "standard output"
        raise
