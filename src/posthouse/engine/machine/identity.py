"""What is kept of the queue manager itself ([MS-MQDMPR] 3.1.1.1)."""

from __future__ import annotations

import msgspec

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.records import TABLE_MANAGER, Change
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


_MANAGER_KEY = b"manager"
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ManagerRecord).decode


def kept_record(state: State) -> ManagerRecord | None:
    """The record in a store; None: it is new."""
    stored = state.definitions.get((TABLE_MANAGER, _MANAGER_KEY))
    return None if stored is None else _decode(stored)


def provision(core: Ledger) -> ManagerRecord:
    """The record of the queue manager that starts: the one that is kept, or the first (3.1.3)."""
    record = kept_record(core.state) or ManagerRecord(core.new_guid(), core.utc, core.utc)
    record.computer_name = core.settings.computer_name
    record.starts += 1
    return record


def store(core: Ledger, record: ManagerRecord) -> None:
    """Keeps the record."""
    change = Change()
    core.define(TABLE_MANAGER, _MANAGER_KEY, _encode(record), change)
    core.commit(change)
