"""Positions of a checkpoint where a queue manager has another computer name now.

`posthouse rename` keeps messages, lookup ids and the GUID, and changes the names of all queues. A
checkpoint has positions by these names, and the GUID beside them: the stream planner asks here for
the offset under the names of today before it uses it. Must stay true: a position is carried to the
queue manager with its GUID, and to no other that may have the name by now; none is dropped for the
position of another one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, TypeVar

from posthouse.model.errors import InvalidParameter
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
    if not new:
        return offset
    return renamed(_without_former(offset, new), new)


def _without_former(offset: StreamOffset, new: Mapping[str, str]) -> StreamOffset:
    """Return the offset without other queue managers that had one of the new names before.

    One with positions is refused: they would be taken for those of the renamed one, or be dropped.
    """
    guids = {name: guid.lower() for name, guid in offset.managers.items()}
    for old, name in new.items():
        if name in new or guids.get(name, guids[old]) == guids[old]:
            continue
        if any(_machine(queue) == name for queue in offset.queues):
            raise InvalidParameter(
                f"{old} is called {name} now, and the checkpoint has positions of another queue "
                f"manager that was called {name} and does not answer under another name",
                "Add its address, if it has another name by now. If it is gone for good: "
                f"posthouse pipeline checkpoint move CHECKPOINT --from {name} --to ANOTHER.",
            )
        left = {key: guid for key, guid in offset.managers.items() if key != name}
        offset = offset._replace(managers=left)
    return offset


def alone(offset: StreamOffset, queue: str) -> StreamOffset:
    """Return the offset with nothing of other queue managers than that of a queue."""
    mine = _machine(queue)
    managers = {name: guid for name, guid in offset.managers.items() if name == mine}
    others = [one for one in offset.queues if _machine(one) != mine]
    return offset.without(others)._replace(managers=managers)


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


def _machine(queue: str) -> str:
    return queue.partition("\\")[0]


def _under(new: Mapping[str, str], name: str) -> str:
    """Return the name of a queue, or of a queue manager, under the new ones."""
    machine, sign, rest = name.partition("\\")
    return f"{new.get(machine, machine)}{sign}{rest}"
