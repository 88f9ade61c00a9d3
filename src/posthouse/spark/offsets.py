"""Offsets of streams: how far each queue has been planned.

Spark compares them as JSON texts, keeps them in the checkpoint and hands them back: keys are
sorted, values are whole numbers and texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from posthouse.model.errors import InvalidParameter

VERSION: Final = 1
REMEDY: Final = "The checkpoint belongs to another source or a newer version: use a new one."


class StreamOffset(NamedTuple):
    """Everything up to a queue's lookup id has been planned.

    `purged` has the highest purged ids that were known then: only later purges lose something.
    `epochs` are the leases under which a group's reader planned it. `began` has the ids behind
    which the stream began with each queue: Spark keeps no offset of that, and asks for it again.
    """

    group: str = ""
    queues: Mapping[str, int] = {}
    urls: Mapping[str, str] = {}
    purged: Mapping[str, int] = {}
    epochs: Mapping[str, int] = {}
    began: Mapping[str, int] = {}

    def to_json(self) -> dict[str, Any]:
        """As Spark gets it."""
        json: dict[str, Any] = {"v": VERSION, "group": self.group, "queues": _sorted(self.queues)}
        for name, values in (("epochs", self.epochs), ("purged", self.purged)):
            if known := {key: value for key, value in values.items() if value}:
                json[name] = _sorted(known)
        if self.began:
            json["began"] = _sorted(self.began)
        json["urls"] = _sorted(self.urls)
        return dict(sorted(json.items()))


def _sorted(values: Mapping[str, Any]) -> dict[str, Any]:
    return dict(sorted(values.items()))


def offset_of(json: object) -> StreamOffset:
    """The offset that Spark hands back."""
    if not isinstance(json, dict) or json.get("v") != VERSION:
        raise InvalidParameter("the checkpoint has an offset that is none of this source", REMEDY)
    return StreamOffset(
        group=str(json.get("group", "")),
        queues=_numbers(json, "queues"),
        urls={str(name): str(url) for name, url in _part(json, "urls").items()},
        purged=_numbers(json, "purged"),
        epochs=_numbers(json, "epochs"),
        began=_numbers(json, "began"),
    )


def _part(json: Mapping[str, Any], name: str) -> dict[Any, Any]:
    part = json.get(name, {})
    if not isinstance(part, dict):
        raise InvalidParameter(f"the offset's {name} are no object", REMEDY)
    return part


def _numbers(json: Mapping[str, Any], name: str) -> dict[str, int]:
    part = _part(json, name)
    if not all(type(value) is int and value >= 0 for value in part.values()):
        raise InvalidParameter(f"the offset's {name} are no whole numbers", REMEDY)
    return {str(key): value for key, value in part.items()}
