"""The directory's document as a TOML file: read strictly, written to be reviewed."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from posthouse.directory.document import Document
from posthouse.model.errors import InvalidParameter

FILE_SIZE_MAX = 256 << 20
HEAD = """\
# The directory of this enterprise. Machines, sites and lists are named by their names.
# Change it, look at what would happen with `posthouse directory import FILE --dry-run`, and import
# it on every queue manager that shares it.
"""


def read_file(file: Path) -> Document:
    """The document of a file; what is wrong with it is told with its place."""
    try:
        if file.stat().st_size > FILE_SIZE_MAX:
            raise InvalidParameter(f"{file} is larger than {FILE_SIZE_MAX >> 20} MiB")
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidParameter(f"{file} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidParameter(f"{file} is not TOML: {error}", "Correct it there.") from error
    try:
        return msgspec.convert(content, Document)
    except msgspec.ValidationError as error:
        raise InvalidParameter(
            f"{file}: {error}", "`posthouse directory export` shows how it is written."
        ) from error


def written(document: Document) -> str:
    """The text of the file; equal documents give equal texts."""
    content = msgspec.to_builtins(document)
    lines = [HEAD]
    enterprise = content.pop("enterprise", None)
    if enterprise:
        lines += ["[enterprise]", *_fields(enterprise), ""]
    for name, parts in content.items():
        for part in parts:
            lines += [f"[[{name}]]", *_fields(part), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _fields(part: Mapping[str, Any]) -> list[str]:
    return [f"{name} = {_value(value)}" for name, value in part.items()]


def _value(value: object) -> str:
    """JSON's texts and numbers are TOML's; what could hide in a text is escaped as TOML does."""
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return "".join(map(_shown, json.dumps(value, ensure_ascii=False)))


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"
