"""Files in TOML that users write: schemas of bodies, rules of watches."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from posthouse.model.errors import InvalidParameter

T = TypeVar("T")


def read_table(path: Path, remedy: str) -> dict[str, Any]:
    """The table in a file; one that cannot be read is refused."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidParameter(f"{path} cannot be read: {error}", remedy) from None


def struct_of(
    table: dict[str, Any],
    kind: type[T],
    source: str,
    remedy: str,
    decode: Callable[[type, Any], Any] | None = None,
) -> T:
    """The table as a struct; what does not fit is refused."""
    try:
        return msgspec.convert(table, kind, dec_hook=decode)
    except msgspec.ValidationError as error:
        raise InvalidParameter(f"{source}: {error}", remedy) from None
