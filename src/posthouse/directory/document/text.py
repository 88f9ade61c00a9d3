"""The directory's document as TOML text: read strictly, written to be reviewed."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from posthouse.directory.document.parts import Document
from posthouse.directory.document.writing import Names, part_of
from posthouse.directory.objects import DirectoryObject
from posthouse.model.errors import InvalidParameter

HEAD = """\
# The directory of this enterprise. Machines, sites, lists and aliases are named by their names.
# Change it, look at what would happen with `posthouse directory import FILE --dry-run`, and import
# it on every queue manager that shares it.
"""
SHOWN_MAX = 60
_PLACE = re.compile(r"\$\.([a-z]+)(?:\[(\d+)\])?")


def parse_document(text: str, where: str) -> Document:
    """The document of a text; what is wrong with it is told with its line in `where`."""
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        why = "it is nested too deep" if isinstance(error, RecursionError) else error
        raise InvalidParameter(f"{where} is not TOML: {why}", "Correct it there.") from None
    try:
        return msgspec.convert(content, Document)
    except msgspec.ValidationError as error:
        raise InvalidParameter(
            f"{where}{_line(text, str(error))}: {error}",
            "`posthouse directory export` shows how it is written.",
        ) from error


def _line(text: str, error: str) -> str:
    """The line where the part begins that an error speaks of."""
    found = _PLACE.search(error)
    if found is None:
        return ""
    heading = rf"^[ \t]*\[+[ \t]*{found[1]}[ \t]*\]+"
    starts = [match.start() for match in re.finditer(heading, text, re.MULTILINE)]
    at = int(found[2] or 0)
    return f", line {text.count(chr(10), 0, starts[at]) + 1}" if at < len(starts) else ""


def written(document: Document) -> str:
    """The text of the file; equal documents give equal texts."""
    content = msgspec.to_builtins(document, builtin_types=(datetime,))
    lines = [HEAD]
    enterprise = content.pop("enterprise", None)
    if enterprise:
        lines += ["[enterprise]", *_fields(enterprise), ""]
    for name, parts in content.items():
        for part in parts:
            lines += [f"[[{name}]]", *_fields(part), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


class FieldChange(NamedTuple):
    """A field of the document that changes, as the file has it; empty where it is as usual."""

    field: str
    before: str
    after: str


def field_changes(
    before: DirectoryObject, after: DirectoryObject, names: Names
) -> list[FieldChange]:
    """What is different between two states of an object, in the words of its part."""
    old, new = (
        msgspec.to_builtins(part_of(value, names), builtin_types=(datetime,))
        for value in (before, after)
    )
    return [
        FieldChange(name, *(_short(part[name]) if name in part else "" for part in (old, new)))
        for name in dict.fromkeys((*old, *new))
        if old.get(name) != new.get(name)
    ]


def _short(value: object) -> str:
    """One line, as long as somebody reads it; keys and certificates are longer."""
    text = " ".join(written_value(value).split())
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."


def _fields(part: Mapping[str, Any]) -> list[str]:
    return [f"{name} = {written_value(value)}" for name, value in part.items()]


def written_value(value: object) -> str:
    """JSON's texts and numbers are TOML's; what could hide in a text is escaped as TOML does.

    Values of long lists stand on lines of their own, so that a change of one is seen as that.
    """
    if isinstance(value, list):
        texts = [written_value(one) for one in value]
        line = f"[{', '.join(texts)}]"
        if len(line) <= 80 or len(texts) < 2:
            return line
        return "[\n" + "".join(f"  {text},\n" for text in texts) + "]"
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return "".join(map(_shown, json.dumps(value, ensure_ascii=False)))


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"
