"""Schemas of bodies: a list of fields by path, for XML, JSON and all else that can be decoded.

A body is decoded first (docs/formats.md), so that one list serves what XmlMessageFormatter,
BinaryFormatter, WCF and message buses write. JSON Schema would call each number of an XML body a
string, and XSD cannot look at JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from posthouse.formats import Decoded, decode
from posthouse.model.errors import InvalidParameter
from posthouse.spark.toml_files import read_table, struct_of

Type = Literal["text", "integer", "number", "flag", "time", "guid", "object", "list", "any"]
TYPES: Final = ("text", "integer", "number", "flag", "time", "guid", "object", "list", "any")
DEPTH_MAX: Final = 32
PATHS_MAX: Final = 2000
"""Fields of one body that are looked at."""
REASON_MAX: Final = 500
_PATH: Final = re.compile(r"[^.\[\]]+(?:\[\])*(?:\.[^.\[\]]+(?:\[\])*)*")
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?", re.ASCII)
_TIME: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?"
    r"(?:Z|[+-][0-9]{2}:[0-9]{2})?)?",
    re.ASCII,
)
_GUID: Final = re.compile(r"\{?[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\}?", re.ASCII)
_FLAGS: Final = ("true", "false", "0", "1")
_TEXT_ONLY: Final = frozenset({"xml", "wcf"})
"""Formats whose leaves are all texts: a number is a text that reads as one."""
WHOLE: Final = "$"
"""The path of a body that is one value."""
_MISSING: Final = object()


class Field(NamedTuple):
    """A field that bodies have."""

    path: str
    type: str
    optional: bool = False


class Misfit(NamedTuple):
    """What is wrong with a field of a body."""

    kind: str  # missing, type, new, unreadable, unknown
    path: str
    expected: str
    found: str

    @property
    def text(self) -> str:
        """In words, without values of the message."""
        if self.kind == "missing":
            return f"{self.path} is missing"
        if self.kind == "new":
            return f"{self.path} is not in the schema"
        if self.kind == "type":
            return f"{self.path} is {self.found}, not {self.expected}"
        return self.found


class _Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(min_length=1, max_length=120)]
    fields: Annotated[dict[str, str], Meta(min_length=1, max_length=PATHS_MAX)]
    type: Annotated[str, Meta(min_length=1, max_length=500)] = "*"
    label: Annotated[str, Meta(min_length=1, max_length=249)] = "*"
    new_fields: Literal["allow", "refuse"] = "allow"


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    body: Annotated[list[_Body], Meta(min_length=1, max_length=200)]


class BodySchema(NamedTuple):
    """The fields of the bodies of one kind, chosen by message type and label."""

    name: str
    type: str
    label: str
    fields: tuple[Field, ...]
    refuses_new: bool = False

    def is_meant(self, kind: str, label: str) -> bool:
        """Whether a message is of this kind."""
        return fnmatchcase(kind.lower(), self.type.lower()) and fnmatchcase(
            label.lower(), self.label.lower()
        )

    def misfits(self, content: Content) -> list[Misfit]:
        """All that differs: fields that are missing or of another type, then new ones."""
        found: dict[tuple[str, str], Misfit] = {}
        for field in self.fields:
            for value in _values(content.value, _steps(field.path), content.is_text_only):
                misfit = _judged(field, value, content.is_text_only)
                if misfit is not None:
                    found.setdefault((misfit.kind, misfit.path), misfit)
        for path, type in self._new(content):
            found.setdefault(("new", path), Misfit("new", path, "", type))
        return list(found.values())

    def _new(self, content: Content) -> Iterator[tuple[str, str]]:
        known = {_plain(field.path, content.is_text_only) for field in self.fields}
        parents = {
            path[:place]
            for path in known
            for place, sign in enumerate(path)
            if sign == "." or path[place : place + 2] == "[]"
        }
        free = [
            _plain(field.path, content.is_text_only) for field in self.fields if field.type == "any"
        ]
        for path, type in paths_of(content):
            plain = _plain(path, content.is_text_only)
            if plain in known or (plain in parents and type in ("object", "list")):
                continue
            if any(plain.startswith((f"{one}.", f"{one}[")) for one in free):
                continue
            yield path, type

    def is_refused(self, misfit: Misfit) -> bool:
        """Whether a message with it does not fit, or only drifts."""
        return misfit.kind != "new" or self.refuses_new


class Schema(NamedTuple):
    """All kinds of bodies; the first one that matches a message holds."""

    bodies: tuple[BodySchema, ...]

    def of(self, content: Content, label: str) -> BodySchema | None:
        """The kind of a message."""
        for body in self.bodies:
            if body.is_meant(content.kind, label):
                return body
        return None


class Content(NamedTuple):
    """What is in a body."""

    kind: str  # the type that a bus names, the root of XML, the type of a .NET object; or empty
    value: Any
    is_text_only: bool
    error: str = ""


def content_of(row: Mapping[str, Any]) -> Content:
    """The body of a message, decoded."""
    correlation = row.get("correlation_id") or ""
    found = decode(
        row["body"] or b"",
        body_type=row.get("body_type") or 0,
        extension=row.get("extension") or b"",
        label=row.get("label") or "",
        app_specific=row.get("app_specific") or 0,
        correlation_id=bytes.fromhex(correlation),
    )
    body: Decoded = found.body or found
    details, value, form = body.details, body.value, body.format
    wrapped = details.get("inner")
    if isinstance(wrapped, dict) and "value" in wrapped:  # XML or JSON in a <string>
        details = details | wrapped
        value, form = wrapped["value"], str(wrapped.get("format"))
    kind = (found.meaning.message_type if found.meaning else None) or details.get("root")
    error = found.error or body.error or ""
    if not error and form in ("bytes", "empty"):
        error = "the body is empty" if form == "empty" else "the body is not readable"
    return Content(str(kind or details.get("root_type") or ""), value, form in _TEXT_ONLY, error)


def read_schema(path: Path) -> Schema:
    """The schema in a file; whatever is wrong with it is refused."""
    return schema_of(read_table(path, _REMEDY), str(path))


_REMEDY: Final = "docs/pipelines.md describes schemas; --learn writes one from messages."


def schema_of(table: dict[str, Any], source: str = "the schema") -> Schema:
    """The schema in a table of TOML."""
    found = struct_of(table, _File, source, _REMEDY)
    bodies = []
    for body in found.body:
        fields = tuple(_field(*one, f"{source}: {body.name}") for one in body.fields.items())
        refuses = body.new_fields == "refuse"
        bodies.append(BodySchema(body.name, body.type, body.label, fields, refuses))
    names = [body.name for body in bodies]
    if len(set(names)) < len(names):
        raise InvalidParameter(f"{source}: two bodies have the same name", _REMEDY)
    return Schema(tuple(bodies))


def _field(path: str, type: str, source: str) -> Field:
    optional, name = type.endswith("?"), type.removesuffix("?")
    if not _PATH.fullmatch(path) or path.count(".") >= DEPTH_MAX:
        raise InvalidParameter(
            f"{source}: {path[:100]!r} is not a path such as Lines[].Sku", _REMEDY
        )
    if name not in TYPES:
        raise InvalidParameter(
            f"{source}: {path} is {type[:40]!r}, which is not one of {', '.join(TYPES)}", _REMEDY
        )
    return Field(path, name, optional)


# -- values


def _steps(path: str) -> list[str]:
    return path.replace("[]", ".[]").split(".")


def _plain(path: str, is_text_only: bool) -> str:
    """In XML an element that may be repeated looks like one that may not, when there is one."""
    return path.replace("[]", "") if is_text_only else path


def _values(value: Any, steps: list[str], is_text_only: bool) -> Iterator[Any]:
    """The values at a path, `_MISSING` where there is none; an empty list has none at all."""
    if not steps or value is _MISSING:
        yield value
        return
    first, rest = steps[0], steps[1:]
    if first == WHOLE:
        yield from _values(value, rest, is_text_only)
    elif first == "[]":
        if isinstance(value, list):
            for inner in value:
                yield from _values(inner, rest, is_text_only)
        elif value is not None and is_text_only:
            yield from _values(value, rest, is_text_only)
        elif value is not None:
            yield value  # of another type than a list
    elif isinstance(value, list) and is_text_only:
        for inner in value:
            yield from _values(inner, steps, is_text_only)
    elif isinstance(value, dict) and first in value:
        yield from _values(value[first], rest, is_text_only)
    elif rest[:1] != ["[]"]:  # a list that is not there has no values
        yield _MISSING


def type_of(value: Any, is_text_only: bool) -> str:
    """The type of a value in the words of schemas; texts of XML are what they read as."""
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, list):
        return "list"
    if isinstance(value, dict):
        return "object"
    if not isinstance(value, str):
        return "null"
    if _GUID.fullmatch(value):
        return "guid"
    if len(value) <= 40 and _TIME.fullmatch(value):
        return "time"
    if is_text_only:
        if value in ("true", "false"):
            return "flag"
        if _INTEGER.fullmatch(value):
            return "integer"
        if len(value) <= 60 and _NUMBER.fullmatch(value):
            return "number"
    return "text"


def fits(value: Any, type: str, is_text_only: bool) -> bool:
    """Whether a value is of a type."""
    found = type_of(value, is_text_only)
    if type in ("any", found):
        return True
    if type == "number":
        text = isinstance(value, str) and len(value) <= 60 and bool(_NUMBER.fullmatch(value))
        return found == "integer" or text  # decimals are texts with their places
    if type == "text":
        return isinstance(value, str)
    if type == "flag":
        return is_text_only and value in _FLAGS
    return type == "list" and is_text_only and value is not None


def _judged(field: Field, value: Any, is_text_only: bool) -> Misfit | None:
    if value is _MISSING or value is None:
        if field.optional or (value is None and field.type == "any"):
            return None
        return Misfit("missing", field.path, field.type, "null" if value is None else "")
    if fits(value, field.type, is_text_only):
        return None
    return Misfit("type", field.path, field.type, type_of(value, is_text_only))


def paths_of(content: Content) -> Iterator[tuple[str, str]]:
    """The fields of a body with their types, up to a number of them."""
    found: dict[tuple[str, str], None] = {}
    waiting: list[tuple[str, Any, int]] = [("", content.value, 0)]
    looked = 0
    while waiting and len(found) < PATHS_MAX and looked < 50 * PATHS_MAX:
        path, value, depth = waiting.pop()
        looked += 1
        if path or not isinstance(value, dict | list):
            found[path or WHOLE, type_of(value, content.is_text_only)] = None
        if depth >= DEPTH_MAX:
            continue
        if isinstance(value, dict):
            waiting += [
                (f"{path}.{name}" if path else name, inner, depth + 1)
                for name, inner in reversed(value.items())
                if name and not name.startswith("$") and not set(name) & set(".[]")
            ]
        elif isinstance(value, list):
            waiting += [(f"{path or WHOLE}[]", inner, depth + 1) for inner in reversed(value)]
    yield from found
