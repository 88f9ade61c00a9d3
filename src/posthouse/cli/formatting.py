"""`--formatter` of `posthouse send`: text of the command line as a body that .NET reads."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, NoReturn

import typer

from posthouse.formats import FormatError
from posthouse.formats.encode import FORMATTERS, encode_body
from posthouse.formats.encode.activex import variant_of
from posthouse.formats.encode.xml_text import TYPES


class Formatting(NamedTuple):
    """How bodies are written; without a formatter they stay as they are."""

    formatter: str
    type: str
    root: str
    namespace: str

    @property
    def body_type(self) -> int:
        """The type of the bodies."""
        return variant_of(self.type or "string") if self.formatter == "activex" else 0

    def body(self, content: bytes) -> bytes:
        """The body that carries this content."""
        if not self.formatter or self.formatter == "raw":
            return content
        try:
            return self._encoded(content)
        except FormatError as error:
            raise typer.BadParameter(str(error)) from None

    def _encoded(self, content: bytes) -> bytes:
        value = self._value(content)
        if self.formatter == "json":
            return content  # it was checked; numbers keep their digits
        return encode_body(
            value,
            self.formatter,
            type=self.type or None,
            root=self.root or None,
            namespace=self.namespace or None,
        ).body

    def _value(self, content: bytes) -> Any:
        if self.root or self.formatter == "json":
            return _json(content)
        if self.type == "base64Binary":
            return content
        try:
            return content.decode()
        except UnicodeDecodeError:
            raise FormatError("the body is not text in UTF-8") from None


def _json(content: bytes) -> Any:
    """The value; numbers with a point are texts, so that 12.50 keeps its places."""
    try:
        return json.loads(content.decode(), parse_float=str, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"the body is not JSON: {error}") from None


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def check_formatting(how: Formatting, body_type: int) -> None:
    """Refuse options that do not go together, before anything is read or sent."""
    if how.formatter and how.formatter not in FORMATTERS:
        raise typer.BadParameter(
            f"{how.formatter!r} is not a formatter: take one of {', '.join(FORMATTERS)}"
        )
    if how.formatter and how.formatter != "raw" and body_type:
        raise typer.BadParameter("--formatter sets the body type: leave --body-type out")
    if how.type and how.formatter not in ("xml", "activex"):
        raise typer.BadParameter("--type needs --formatter xml or activex")
    if how.root and (how.formatter != "xml" or how.type):
        raise typer.BadParameter("--root needs --formatter xml, and no --type")
    if how.namespace and not how.root:
        raise typer.BadParameter("--namespace needs --root")
    if how.formatter == "xml" and how.type and how.type not in TYPES:
        raise typer.BadParameter(
            f"{how.type!r} is not a type: take one of {', '.join(sorted(TYPES))}"
        )
    try:
        variant_of(how.type or "string" if how.formatter == "activex" else "string")
    except FormatError as error:
        raise typer.BadParameter(str(error)) from None
