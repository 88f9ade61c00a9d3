"""What differs between messages and their schema, counted; and a schema learned from messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from posthouse.spark.conform.schema import (
    REASON_MAX,
    WHOLE,
    Content,
    Misfit,
    Schema,
    content_of,
    paths_of,
)

ROWS_MAX: Final = 10_000
"""Differences that are told apart."""
_NOTHING: Final = "null"


class DriftRow(NamedTuple):
    """One difference, and the messages that have it."""

    body: str
    kind: str  # new, missing, type, unreadable, unknown
    field: str
    expected: str
    found: str
    messages: int
    first_seen: datetime
    last_seen: datetime
    example: int  # lookup id of the first one


class Judged(NamedTuple):
    """A message; `reason` is why it does not fit, empty: it does."""

    lookup_id: int
    queue: str
    reason: str


class Drift:
    """The differences of all messages that were looked at."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._rows: dict[tuple[str, ...], DriftRow] = {}
        self.messages = 0
        self.encrypted = 0
        self.misfits = 0
        self.others = 0  # differences above the limit

    @property
    def rows(self) -> list[DriftRow]:
        """The differences, the most frequent first."""
        return sorted(self._rows.values(), key=lambda row: (-row.messages, row[:4]))

    def judge(self, row: Mapping[str, Any]) -> Judged | None:
        """Counts what differs in a message; None: only its receiver can open it."""
        if row.get("encrypted"):
            self.encrypted += 1
            return None
        self.messages += 1
        content = content_of(row)
        name, found, refused = self._found(content, row)
        for misfit in found:
            self._add(name, misfit, row)
        self.misfits += bool(refused)
        reason = f"schema {name}: " + "; ".join(misfit.text for misfit in refused)
        return Judged(row["lookup_id"], row["queue"], reason[:REASON_MAX] if refused else "")

    def _found(
        self, content: Content, row: Mapping[str, Any]
    ) -> tuple[str, list[Misfit], list[Misfit]]:
        """The schema's name, all that differs, and what of it is refused."""
        body = self._schema.of(content, row.get("label") or "")
        if body is None:
            kind = content.kind or "none"
            one = Misfit("unknown", "", "", f"no body of the schema matches (type {kind[:200]})")
            return "?", [one], [one]
        if content.error:
            one = Misfit("unreadable", "", "", content.error[:200])
            return body.name, [one], [one]
        found = body.misfits(content)
        return body.name, found, [one for one in found if body.is_refused(one)]

    def _add(self, name: str, misfit: Misfit, row: Mapping[str, Any]) -> None:
        at = row["arrived_time"]
        key = (name, *misfit)
        known = self._rows.get(key)
        if known is not None:
            first, last = min(known.first_seen, at), max(known.last_seen, at)
            count = known.messages + 1
            self._rows[key] = known._replace(messages=count, first_seen=first, last_seen=last)
        elif len(self._rows) < ROWS_MAX:
            kind, path, expected, found = misfit
            self._rows[key] = DriftRow(
                name, kind, path, expected, found, 1, at, at, row["lookup_id"]
            )
        else:
            self.others += 1


class _Seen:
    """What was seen of the bodies of one kind."""

    def __init__(self) -> None:
        self.messages = 0
        self.fields: dict[str, tuple[int, set[str]]] = {}

    def add(self, content: Content) -> None:
        """One more body."""
        self.messages += 1
        found: dict[str, set[str]] = {}
        for path, type in paths_of(content):
            types = found.setdefault(
                path.replace("[]", "") if content.is_text_only else path, set()
            )
            types.add(type)
            if "[]." in path:
                types.add(_NOTHING)  # not each element of a list need have it
        for path, types in found.items():
            count, known = self.fields.get(path, (0, set()))
            self.fields[path] = count + 1, known | types

    def lines(self) -> Iterator[str]:
        """The fields, as lines of a schema."""
        mixed = [path for path, (_, types) in self.fields.items() if _common(types) == "any"]
        below = tuple(f"{path}{sign}" for path in mixed for sign in ".[")
        for path, (count, types) in self.fields.items():
            if path.startswith(below):
                continue  # what is below a field of any type is free
            optional = _NOTHING in types or (count < self.messages and path != WHOLE)
            yield f"{_quoted(path)} = {_quoted(_common(types) + '?' * optional)}"


def _common(types: set[str]) -> str:
    known = types - {_NOTHING}
    if len(known) == 1:
        return known.pop()
    if known == {"integer", "number"}:
        return "number"
    return "text" if known and known <= {"text", "time", "guid"} else "any"


def _quoted(text: str) -> str:
    """A text of TOML."""
    signs = {"\\": "\\\\", '"': '\\"', "\x7f": "\\u007f"}
    return (
        '"'
        + "".join(
            signs.get(sign) or (sign if sign >= " " else f"\\u{ord(sign):04x}") for sign in text
        )
        .encode("utf-8", "replace")
        .decode()
        + '"'
    )


def learned(rows: Iterable[Mapping[str, Any]]) -> str:
    """A schema that all of these messages fit, as text of a file."""
    kinds: dict[str, _Seen] = {}
    for row in rows:
        content = content_of(row)
        if not row.get("encrypted") and not content.error:
            kinds.setdefault(content.kind[:500], _Seen()).add(content)
    parts = []
    for kind, seen in sorted(kinds.items(), key=lambda one: not one[0]):
        name = _quoted(kind[:120] or "messages")
        pattern = kind.replace("[", "[[]") or "*"
        lines = "\n".join(seen.lines())
        parts.append(
            f"[[body]]\nname = {name}\ntype = {_quoted(pattern)}\n[body.fields]\n{lines}\n"
        )
    return "\n".join(parts)
