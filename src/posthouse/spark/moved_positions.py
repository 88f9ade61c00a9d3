"""Positions of a checkpoint where a queue manager has another computer name now.

`posthouse rename` keeps messages, lookup ids and the GUID, and changes the names of all queues. A
checkpoint has positions by these names, and the GUID beside them: the stream planner asks here for
the offset under the names of today before it uses it. Must stay true: a position is carried to the
queue manager with its GUID, and to no other that may have the name by now.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, TypeVar

from posthouse.spark.offsets import StreamOffset

_BY_NAME: Final = (
    *("queues", "purged", "epochs", "began", "incarnations", "created"),
    *("urls", "managers"),
)
T = TypeVar("T")


Known = Collection[tuple[str, str]]
"""GUIDs (in small letters) and names of the queue managers that have answered."""


def under_names(offset: StreamOffset, known: Known) -> StreamOffset:
    """Return the offset with the names that queue managers have now."""
    new = _changed(offset, known)
    return renamed(offset, new) if new else offset


def renamed(offset: StreamOffset, new: Mapping[str, str]) -> StreamOffset:
    """Return the offset with new names of computers by their old ones."""
    moved: dict[str, Any] = {name: _moved(getattr(offset, name), new) for name in _BY_NAME}
    starts = None if offset.starts is None else _moved(offset.starts, new)
    return offset._replace(**moved, starts=starts)


def name_of(queue: str, offset: StreamOffset, known: Known) -> str:
    """Return the name that a queue of an offset has now."""
    return _under(_changed(offset, known), queue)


def _changed(offset: StreamOffset, known: Known) -> dict[str, str]:
    """Return the new names of queue managers by their old ones.

    Of two copies of one home, which have one GUID, the copy that has kept the name keeps the
    positions.
    """
    found = dict[str, str]()
    for old, guid in offset.managers.items():
        names = [name for one, name in known if one == guid.lower()]
        if len(names) == 1 and old not in names:
            found[old] = names[0]
    return found


def _moved(values: Mapping[str, T], new: Mapping[str, str]) -> dict[str, T]:
    """Return values under the new names; what is known under a new name already stays."""
    moved = {_under(new, key): value for key, value in values.items()}
    kept = {key: value for key, value in values.items() if _under(new, key) == key}
    return {**moved, **kept}


def _under(new: Mapping[str, str], name: str) -> str:
    """Return the name of a queue, or of a queue manager, under the new ones."""
    machine, sign, rest = name.partition("\\")
    return f"{new.get(machine, machine)}{sign}{rest}"
