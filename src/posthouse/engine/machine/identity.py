"""Stored properties of the queue manager itself ([MS-MQDMPR] 3.1.1.1)."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from posthouse.engine.ledger.records import TABLE_MANAGER
from posthouse.engine.ledger.state import State


class ManagerRecord(msgspec.Struct, omit_defaults=True):
    """The persistent attributes of the queue manager itself ([MS-MQDMPR] 3.1.1.1).

    Fields that version 0.1 kept beside these, and did not use, are passed over.
    """

    identifier: bytes
    create_time: int
    sequence_timestamp: int  # of TxSequenceIDs: installation, or the last restore
    starts: int = 0
    computer_name: str = ""  # empty: of version 0.1, which did not keep it
    host: str = ""  # the computer and the place of the home at the last start (HostIdentity)


MANAGER_KEY: Final = b"manager"
COPIED_REMEDY: Final = (
    "Two copies of a home are one queue manager with one GUID, and messages go to either: start "
    "one of them only. A copy that is to be another queue manager needs a new home."
)
pack_record = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ManagerRecord).decode


def kept_record(state: State) -> ManagerRecord | None:
    """The record in a store; None: it is new."""
    stored = state.definitions.get((TABLE_MANAGER, MANAGER_KEY))
    return None if stored is None else _decode(stored)


class HostIdentity(NamedTuple):
    """What a computer and the place of a home are known by; an empty part is unknown.

    A volume that is mounted in another container keeps its place. A copy has another one.
    """

    computer: str
    place: str

    def text(self) -> str:
        """As the record keeps it."""
        return "/".join(self)


def host_change(before: str, now: str) -> str:
    """What has changed since the last start; nothing: it is the same home on the same computer."""
    if not before or not now:
        return ""
    changed = [
        was and is_now and was != is_now
        for was, is_now in zip(before.split("/"), now.split("/"), strict=False)
    ]
    if changed[:1] == [True]:
        return "the home was last used on another computer: it was moved or copied"
    if any(changed):
        return "the home is another folder than at the last start: it was copied or put back"
    return ""
