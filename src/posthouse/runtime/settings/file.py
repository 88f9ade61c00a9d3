"""Reading `posthouse.toml`: any text gives settings, or one error that states what to change."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeGuard, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

from posthouse.model.settings_kinds import FILE, SIZE, Section
from posthouse.model.text import excerpt, nearest
from posthouse.runtime.settings.settings import Settings

SETTINGS_NAME = "posthouse.toml"
FILE_SIZE_MAX = 1 << 20
_UNITS = {"": 1, "B": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}
_SIZE = re.compile(r"([0-9]{1,18})\s*([A-Za-z]*)", re.ASCII)
SIZE_WORDS = 'a whole number of bytes or a text such as "64MiB"'


class SettingsError(Exception):
    """A settings file that cannot be used; each problem names file, section and setting."""

    def __init__(self, source: str, problems: list[str]) -> None:
        super().__init__(source, problems)
        self.source = source
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(f"{self.source}: {problem}" for problem in self.problems)


class _Wrong(Exception):
    """One value that will not do."""


def read_settings(path: Path, *, must_exist: bool = True) -> Settings:
    """The settings of a file; all defaults where there is none and none was asked for."""
    try:
        with path.open("rb") as file:
            data = file.read(FILE_SIZE_MAX + 1)
    except FileNotFoundError:
        if must_exist:
            raise SettingsError(str(path), ["there is no such file"]) from None
        return Settings()
    except OSError as error:
        if isinstance(error, PermissionError) and not must_exist:
            raise  # it is the home that cannot be used
        if isinstance(error, NotADirectoryError):
            raise SettingsError(
                str(path.parent), ["this is a file, and a home is a folder"]
            ) from None
        raise SettingsError(str(path), [error.strerror or str(error)]) from None
    if len(data) > FILE_SIZE_MAX:
        raise SettingsError(str(path), [f"the file is larger than {FILE_SIZE_MAX} bytes"])
    return parse_settings(data, str(path))


def parse_settings(data: bytes, source: str = SETTINGS_NAME) -> Settings:
    """The settings that a TOML text holds; SettingsError with every problem in it."""
    try:
        table = tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        hint = '; a text stands in quotes: name = "ALPHA"' if "Invalid value" in str(error) else ""
        raise SettingsError(source, [f"not TOML: {excerpt(str(error))}{hint}"]) from None
    problems: list[str] = []
    sections: dict[str, Any] = {}
    for name, value in table.items():
        section = fields_of(Settings).get(name)
        if section is None:
            near = nearest(name, list(fields_of(Settings)))
            shown = excerpt(name)[1:-1]
            home = None if isinstance(value, dict) else _section_with(name)
            if home is not None:
                problems.append(f"{shown}: this belongs to a section: write it below [{home}]")
                continue
            problems.append(f"[{shown}]: there is no such section; the nearest is [{near}]")
        else:
            sections[name] = _section(name, section, value, problems)
    settings = Settings() if problems else Settings(**sections)
    problems += _contradictions(settings)
    if problems:
        raise SettingsError(source, problems)
    return settings


def fields_of(section: type[Struct]) -> dict[str, Any]:
    """The settings of a section: its own, then those it has in common with others.

    A field without a meaning is none of the file's: the program sets it.
    """
    kinds = get_type_hints(section, include_extras=True)
    own = [name for name in section.__annotations__ if name in section.__struct_fields__]
    names = dict.fromkeys([*own, *section.__struct_fields__])
    return {
        name: kinds[name] for name in names if is_section(kinds[name]) or meaning_of(kinds[name])
    }


def is_section(kind: object) -> TypeGuard[type[Struct]]:
    """Whether a field of a section is a section in it."""
    return isinstance(kind, type) and issubclass(kind, Struct)


def _section(name: str, section: type[Struct], value: object, problems: list[str]) -> Struct | None:
    if not isinstance(value, dict):
        problems.append(f"{name}: this is a section; write [{name}] and its settings below")
        return None
    values: dict[str, object] = {}
    for key, given in value.items():
        path, kind = f"[{name}] {key}", fields_of(section).get(key)
        if is_section(kind):
            values[key] = _section(f"{name}.{key}", kind, given, problems)
            continue
        try:
            values[key] = _value(name, key, section, given)
        except _Wrong as wrong:
            problems.append(f"{excerpt(path)[1:-1]}: {wrong}")
    return None if problems else section(**values)


def _value(section_name: str, key: str, section: type[Struct], given: object) -> object:
    known = fields_of(section)
    if key not in known:
        raise _Wrong(_unknown(section_name, key, list(known)))
    kind = known[key]
    if unit_of(kind) == SIZE:
        given = parse_size(given)
    try:
        return msgspec.convert(given, kind)
    except (msgspec.ValidationError, OverflowError) as error:
        raise _Wrong(f"{_reason(str(error))}; allowed: {allowed(kind)}") from None


def _unknown(section_name: str, key: str, known: list[str]) -> str:
    home = _section_with(key)
    if home is not None:
        return f"there is no such setting here; it belongs to [{home}]"
    return f"there is no such setting; the nearest is {nearest(key, known)} in [{section_name}]"


def _section_with(key: str) -> str | None:
    """Return the first section that has a setting of this name."""
    sections = fields_of(Settings).items()
    return next((name for name, section in sections if key in fields_of(section)), None)


def _reason(text: str) -> str:
    """msgspec's words without its marks: `Expected int >= 1`."""
    text = text.replace("`", "").replace(" | null", "").partition(" - at ")[0]
    return text[:1].lower() + text[1:]


def parse_size(given: object) -> object:
    """Bytes of `64MiB`; what is not text is left to the type check."""
    if not isinstance(given, str):
        return given
    found = _SIZE.fullmatch(given.strip())
    if found is None or found[2].upper() not in _UNITS:
        raise _Wrong(f"{excerpt(given)} is not a size; allowed: {SIZE_WORDS}")
    return int(found[1]) * _UNITS[found[2].upper()]


# -- types and notes of a declaration


def metas(kind: object) -> Iterator[Meta]:
    """The notes on a type, the outermost first."""
    notes = getattr(kind, "__metadata__", ())
    yield from (note for note in reversed(notes) if isinstance(note, Meta))


def unit_of(kind: object) -> str:
    """The unit a setting is written in, empty where it has none."""
    for meta in metas(kind):
        if meta.extra:
            return str(meta.extra.get("unit", ""))
    return ""


def meaning_of(kind: object) -> str:
    """What a setting is for; empty where a field is not a setting."""
    return next((meta.description for meta in metas(kind) if meta.description), "")


def bare(kind: object) -> object:
    """The type without its notes."""
    return get_args(kind)[0] if hasattr(kind, "__metadata__") else kind


def allowed(kind: object) -> str:
    """What may stand there, in words."""
    base = bare(kind)
    origin, arguments = get_origin(base), get_args(base)
    if origin is Literal:
        return ", ".join(f'"{choice}"' for choice in arguments)
    if origin in (Union, UnionType):
        return allowed(arguments[0])
    if origin in (list, tuple):
        return "list of texts"
    if origin is dict:
        return "table of texts"
    words = SIZE_WORDS if unit_of(kind) == SIZE else _KINDS[base]
    return ", ".join(filter(None, (words, _range(kind))))


_KINDS: dict[object, str] = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
}


def _range(kind: object) -> str:
    for meta in metas(kind):
        if meta.ge is not None and meta.le is not None:
            shown = size_text if unit_of(kind) == SIZE else _number
            return f"{shown(meta.ge)} to {shown(meta.le)}"
        if meta.max_length is not None:
            return f"at most {meta.max_length} characters"
    return ""


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def size_text(size: float) -> str:
    """`64MiB`; bytes where no unit fits."""
    size = int(size)
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size and size % _UNITS[unit.upper()] == 0:
            return f"{size // _UNITS[unit.upper()]}{unit}"
    return str(size)


# -- what contradicts itself


def _contradictions(settings: Settings) -> Iterator[str]:
    for name in settings.__struct_fields__:
        yield from faults(name, getattr(settings, name))


def faults(name: str, section: Section) -> Iterator[str]:
    """What is wrong in a section of this name, and in the sections in it."""
    for key, wrong in section.faults():
        inner, _, last = key.rpartition(".")
        yield f"[{'.'.join(filter(None, (name, inner)))}] {last}: {wrong}"
    for key, kind in fields_of(type(section)).items():
        value = getattr(section, key)
        if isinstance(value, Section):
            yield from faults(f"{name}.{key}", value)
        elif unit_of(kind) == FILE and value and not Path(value).is_file():
            yield f"[{name}] {key}: there is no file {excerpt(value)}"
