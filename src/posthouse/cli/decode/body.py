"""`posthouse decode --body`: what an application put into a message."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import typer

from posthouse.cli.messages.decoded_view import print_decoded
from posthouse.cli.output import print_json
from posthouse.formats import DEFAULT
from posthouse.formats import decode as decode_message
from posthouse.formats.values import guid_bytes


class BodyOptions(NamedTuple):
    """The properties of a message beside its body."""

    body_type: int
    extension: Path | None
    label: str
    app_specific: int
    correlation_id: str
    code_page: str


def decode_body(body: Path, how: BodyOptions, json: bool) -> None:
    """Decode and print. Bytes that break their own format have a result as well: the reason."""
    result = decode_message(
        _read(body),
        body_type=how.body_type,
        extension=b"" if how.extension is None else _read(how.extension),
        label=how.label,
        app_specific=how.app_specific,
        correlation_id=_correlation_id(how.correlation_id),
        code_page=how.code_page,
    )
    if json:
        print_json(result.to_json())
    else:
        print_decoded(result)


def _read(path: Path) -> bytes:
    stream = sys.stdin.buffer if str(path) == "-" else path.open("rb")
    with stream:
        return stream.read(DEFAULT.size + 1)


def _correlation_id(text: str) -> bytes:
    guid, slash, number = text.partition("\\")
    try:
        if slash:
            return guid_bytes(guid) + int(number).to_bytes(4, "little")
        data = bytes.fromhex(text)
    except (ValueError, OverflowError):
        data = b"?"
    if len(data) not in (0, 20):
        raise typer.BadParameter("--correlation-id has 40 hex digits, or is guid\\number")
    return data
