"""Parts of a transaction at remote readers ([MS-MQRR] 3.2.4.2): enlisted once on each connection.

The local queue manager coordinates. A part lives as long as the connection on which it was begun:
what was received there is undone with it, so nothing of that transaction may go on over another.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from posthouse.client import distributed_operations as joint
from posthouse.client import operations as ops
from posthouse.client.errors import TransactionAborted
from posthouse.client.transaction import Part, Transaction
from posthouse.model.errors import IoTimeout, TransactionSequence

T = TypeVar("T")
SLICE_S: Final = 20.0  # well below the time after which a transaction counts as idle
Begin = Callable[[bytes, bytes], None]
"""R_QMEnlistRemoteTransaction with the transaction's identifier and its token."""


class Reader(Protocol):
    """What remote reads of one computer go over."""

    @property
    def generation(self) -> int:
        """A number that rises with every new connection."""


class RemoteParts:
    """The remote readers of one transaction, each with the connection it was enlisted on."""

    def __init__(self) -> None:
        self._begun: dict[int, tuple[Reader, int]] = {}  # by identity; the reader is kept alive

    def is_begun(self, reader: Reader) -> bool:
        """Whether it takes part. TransactionAborted: it did, and its connection is gone."""
        known = self._begun.get(id(reader))
        if known is None:
            return False
        if known[1] != reader.generation:
            raise TransactionAborted(
                "the connection to another queue manager broke, and its part of the transaction "
                "is undone"
            )
        return True

    def begin(self, reader: Reader, identifier: bytes, token: bytes, begin: Begin) -> None:
        """Enlists it, once: a part that was lost on its way must not be begun again."""
        self._begun[id(reader)] = reader, -1
        begin(identifier, token)
        self._begun[id(reader)] = reader, reader.generation


def join_transaction(
    tx: Transaction, parts: RemoteParts, reader: Reader, peer: str, begin: Begin
) -> bytes:
    """Lets a remote reader take part, once; the identifier by which its calls name it.

    The two queue managers have to be peers; `peer` is the other's name there, or its host.
    """
    if isinstance(tx, Part):
        raise TransactionSequence("join the transaction that this is a part of")
    tx._channel.run(ops.begun(tx.handle))
    identifier = tx.handle.identifier
    if not parts.is_begun(reader):
        token = tx._channel.run(joint.enlist(tx._channel.core, tx.handle, peer))
        parts.begin(reader, identifier, token, begin)
    return identifier


def keep_transaction(tx: Transaction, peer: str) -> None:
    """Informs the coordinator that it is in use, with a participant elsewhere."""
    tx._channel.run(joint.enlist(tx._channel.core, tx.handle, peer))


def wait_in_slices(
    read: Callable[[float], T], timeout: float | None, keep: Callable[[], object]
) -> T:
    """A long wait for what `read` brings, in pieces between which the transaction is kept alive.

    It would end as idle otherwise: its coordinator sees nothing of waits elsewhere (decision 43).
    """
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        left = SLICE_S if end is None else max(end - time.monotonic(), 0.0)
        try:
            return read(min(left, SLICE_S))
        except IoTimeout:
            if end is not None and left <= SLICE_S:
                raise
            keep()
