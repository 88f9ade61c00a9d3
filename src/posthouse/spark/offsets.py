"""Offsets of streams: how far each queue has been planned.

Spark compares them as JSON texts, keeps them in the checkpoint and hands them back: keys are
sorted, values are whole numbers and texts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from posthouse.client.arrow_read import LookupIdentity
from posthouse.model.errors import InvalidParameter

VERSION: Final = 2
FIRST_VERSION: Final = 1
REMEDY: Final = "The checkpoint belongs to another source or a newer version: use a new one."


class StreamOffset(NamedTuple):
    """Everything up to a queue's lookup id has been planned.

    `stream` names the checkpoint: what its reader claims is acknowledged for this stream alone.
    `starts` has the queues that the batch which ends here reads, and after which ids; no others are
    in it. `incarnations`, `created` and `managers` (by computer name) identify these ids and
    queues. `purged` has the highest purged ids that were known then: only later purges lose
    something. `epochs` are the leases under which a group's reader planned it. `began` is version
    1's: the ids after which the stream began with each queue.
    """

    group: str = ""
    queues: Mapping[str, int] = {}
    urls: Mapping[str, str] = {}
    purged: Mapping[str, int] = {}
    epochs: Mapping[str, int] = {}
    began: Mapping[str, int] = {}
    stream: str = ""
    starts: Mapping[str, int] | None = None  # None: version 1, which does not have them
    incarnations: Mapping[str, str] = {}
    created: Mapping[str, str] = {}
    managers: Mapping[str, str] = {}

    def identity(self, queue: str) -> LookupIdentity:
        """What the lookup id of a queue is; empty where version 1 did not keep it."""
        manager = self.managers.get(queue.partition("\\")[0], "")
        return LookupIdentity(
            manager, self.incarnations.get(queue, ""), self.created.get(queue, "")
        )

    def identified(self, known: Mapping[str, LookupIdentity]) -> StreamOffset:
        """Return the offset with what its lookup ids of some queues are."""
        names = {queue.partition("\\")[0]: one.manager for queue, one in known.items()}
        incarnations = {queue: one.incarnation for queue, one in known.items()}
        created = {queue: one.created for queue, one in known.items()}
        return self._replace(
            incarnations={**self.incarnations, **incarnations},
            created={**self.created, **created},
            managers={**self.managers, **names},
        )

    def without(self, queues: Collection[str]) -> StreamOffset:
        """An offset that does not carry these queues along."""
        if not queues:
            return self
        names = ("queues", "purged", "epochs", "began", "incarnations", "created")
        kept: dict[str, Any] = {name: _left(getattr(self, name), queues) for name in names}
        return self._replace(**kept)

    def to_json(self) -> dict[str, Any]:
        """As Spark gets it."""
        json: dict[str, Any] = {
            "v": FIRST_VERSION if self.starts is None else VERSION,
            "group": self.group,
            "queues": _sorted(self.queues),
            "urls": _sorted(self.urls),
        }
        for name, values in (("epochs", self.epochs), ("purged", self.purged)):
            if known := {key: value for key, value in values.items() if value}:
                json[name] = _sorted(known)
        if self.began:
            json["began"] = _sorted(self.began)
        if self.starts is not None:
            json["stream"] = self.stream
            json["from"] = _sorted(self.starts)
            for name in ("incarnations", "created", "managers"):
                json[name] = _sorted(getattr(self, name))
        return dict(sorted(json.items()))


def _left(values: Mapping[str, Any], queues: Collection[str]) -> dict[str, Any]:
    return {queue: value for queue, value in values.items() if queue not in queues}


def _sorted(values: Mapping[str, Any]) -> dict[str, Any]:
    return dict(sorted(values.items()))


def offset_of(json: object) -> StreamOffset:
    """The offset that Spark hands back; those of version 1 have neither stream nor identity."""
    if not isinstance(json, dict) or json.get("v") not in (FIRST_VERSION, VERSION):
        raise InvalidParameter("the checkpoint has an offset of another source", REMEDY)
    return StreamOffset(
        group=str(json.get("group", "")),
        queues=_numbers(json, "queues"),
        urls=_texts(json, "urls"),
        purged=_numbers(json, "purged"),
        epochs=_numbers(json, "epochs"),
        began=_numbers(json, "began"),
        stream=str(json.get("stream", "")),
        starts=None if json["v"] == FIRST_VERSION else _numbers(json, "from"),
        incarnations=_texts(json, "incarnations"),
        created=_texts(json, "created"),
        managers=_texts(json, "managers"),
    )


def _part(json: Mapping[str, Any], name: str) -> dict[Any, Any]:
    part = json.get(name, {})
    if not isinstance(part, dict):
        raise InvalidParameter(f"the offset's {name} are not an object", REMEDY)
    return part


def _texts(json: Mapping[str, Any], name: str) -> dict[str, str]:
    return {str(key): str(value) for key, value in _part(json, name).items()}


def _numbers(json: Mapping[str, Any], name: str) -> dict[str, int]:
    part = _part(json, name)
    if not all(type(value) is int and value >= 0 for value in part.values()):
        raise InvalidParameter(f"the offset's {name} are not whole numbers", REMEDY)
    return {str(key): value for key, value in part.items()}
