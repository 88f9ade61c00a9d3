"""The API for the console: `python -m tools.console_types`.

Writes `types.d.ts` and `lib/routes.js` of `src/posthouse/console` from the types that the server
itself checks requests and writes answers with, so that `tsc` finds where the console and the API
have moved apart; and `lib/words.js` with the names of acts and the meanings of message classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import UNSET, inspect

from posthouse.api.audit_names import ACT_NAMES
from posthouse.api.console import SessionJson, SignInBody
from posthouse.api.routes import ROUTES
from posthouse.api.types import ErrorJson
from posthouse.model.message_classes import MESSAGE_CLASSES

FOLDER: Final = Path(__file__).parent.parent / "src" / "posthouse" / "console"
HEAD: Final = (
    "// Printed by `python -m tools.console_types` from the types of the API. Do not edit.\n"
)
Names = dict[Any, str]
_PLAIN: Final[dict[Any, str]] = {
    inspect.StrType: "string",
    inspect.BytesType: "string",
    inspect.IntType: "number",
    inspect.FloatType: "number",
    inspect.BoolType: "boolean",
    inspect.NoneType: "null",
    inspect.DateTimeType: "string",
    inspect.AnyType: "unknown",
}


def printed() -> dict[Path, str]:
    """The files, as they are to be."""
    return {
        FOLDER / "types.d.ts": _types(),
        FOLDER / "lib" / "routes.js": _table(),
        FOLDER / "lib" / "words.js": _words(),
    }


def _words() -> str:
    """What codes are called where people read them."""
    meanings = {one.word: one.meaning for one in MESSAGE_CLASSES}
    return (
        f"{HEAD}\n{_dictionary('ACTS', 'acts of the audit log', ACT_NAMES)}"
        f"\n{_dictionary('CLASSES', 'classes of messages', meanings)}"
    )


def _dictionary(name: str, about: str, words: dict[str, str]) -> str:
    lines = "".join(f"  [{_quoted(code)}, {_quoted(text)}],\n" for code, text in words.items())
    return (
        f"/** The {about}, in words. @type {{Map<string, string>}} */\n"
        f"export const {name} = new Map([\n{lines}]);\n"
    )


def _table() -> str:
    """Method and path of every route, by its name."""
    lines = "".join(
        f"  {route.name}: [{_quoted(route.method)}, {_quoted(route.path)}],\n" for route in ROUTES
    )
    return (
        f'{HEAD}\n/** @type {{Record<keyof import("../types.js").Routes, [string, string]>}} */\n'
        f"export const ROUTES = {{\n{lines}}};\n"
    )


def _types() -> str:
    """All types of the routes as declarations of TypeScript."""
    wanted = [SessionJson, SignInBody, ErrorJson]
    for route in ROUTES:
        wanted += [route.result, route.params, route.body]
    found: dict[str, inspect.StructType] = {}
    for one in dict.fromkeys(wanted):
        _gather(inspect.type_info(one), found)
    names = {info.cls: name for name, info in found.items()}
    declared = (_declared(name, found[name], names) for name in sorted(found))
    return HEAD + "".join(declared) + _acts(names)


def _acts(names: Names) -> str:
    """Every route: its name, and what goes in and out of it."""
    lines = "".join(
        f"  {route.name}: {{ params: {names[route.params]}; body: {names[route.body]}; "
        f"result: {names[route.result]} }};\n"
        for route in ROUTES
    )
    return f"\nexport interface Routes {{\n{lines}}}\n"


def _gather(info: inspect.Type, found: dict[str, inspect.StructType]) -> None:
    if isinstance(info, inspect.StructType):
        name = info.cls.__name__
        if name in found and found[name].cls is not info.cls:
            name = info.cls.__module__.rpartition(".")[2].title() + name  # another of that name
        if name in found:
            return
        found[name] = info
    for part in _parts(info):
        _gather(part, found)


def _parts(info: Any) -> Iterator[inspect.Type]:
    if isinstance(info, inspect.StructType):
        yield from (field.type for field in info.fields)
    elif isinstance(info, inspect.UnionType):
        yield from info.types
    elif isinstance(info, inspect.Metadata):
        yield info.type
    elif isinstance(info, inspect.ListType | inspect.VarTupleType | inspect.SetType):
        yield info.item_type
    elif isinstance(info, inspect.TupleType):
        yield from info.item_types
    elif isinstance(info, inspect.DictType):
        yield info.value_type


def _declared(name: str, info: inspect.StructType, names: Names) -> str:
    is_request = name.endswith(("Body", "Params"))
    lines = []
    for field in info.fields:
        optional = field.default is UNSET or (is_request and not field.required)
        lines.append(
            f"  {field.encode_name}{'?' if optional else ''}: {_shown(field.type, names)};\n"
        )
    return f"\nexport interface {name} {{\n{''.join(lines)}}}\n"


def _shown(info: Any, names: Names) -> str:
    if type(info) in _PLAIN:
        return _PLAIN[type(info)]
    match info:
        case inspect.StructType():
            return names[info.cls]
        case inspect.Metadata():
            return _shown(info.type, names)
        case inspect.UnionType():
            return " | ".join(dict.fromkeys(_shown(one, names) for one in info.types))
        case inspect.LiteralType():
            return " | ".join(map(_quoted, info.values))
        case inspect.EnumType():
            return " | ".join(_quoted(one.value) for one in info.cls)
        case inspect.ListType() | inspect.VarTupleType() | inspect.SetType():
            return f"Array<{_shown(info.item_type, names)}>"
        case inspect.TupleType():
            return f"[{', '.join(_shown(one, names) for one in info.item_types)}]"
        case inspect.DictType():
            return f"Record<string, {_shown(info.value_type, names)}>"
    raise TypeError(f"no TypeScript for {info}")


def _quoted(value: object) -> str:
    return msgspec.json.encode(value).decode()


def main() -> None:
    """Write the files."""
    for path, text in printed().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
