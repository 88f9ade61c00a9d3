"""Transactions of the blocking client, with databases in them.

Made from `aio_transaction.py` by `python -m tools.blocking_client`: change that file.
"""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import Protocol, Self

from posthouse.client import distributed_operations as joint
from posthouse.client import operations as ops
from posthouse.client.blocking import Channel
from posthouse.client.database_transactions import Joined, run_steps
from posthouse.client.errors import ClientConnectionError, TransactionAborted
from posthouse.client.process_ownership import of_the_parent
from posthouse.client.requests import TransactionHandle
from posthouse.model.errors import QueueError, TransactionSequence


class _Participant(Protocol):
    """Another queue manager: a `QueueManagerClient`."""

    _channel: Channel


class Transaction:
    """Sends and receives that happen all together or not at all."""

    def __init__(self, channel: Channel, joined: Joined | None = None) -> None:
        self._channel = channel
        self._joined = joined
        self._handle: TransactionHandle | None = None
        self._parts: list[Part] = []

    def begin(self) -> Self:
        """Begins it; a `with` statement does that itself."""
        if self._handle is not None:
            raise TransactionSequence("the transaction has begun already")
        self._handle = self._channel.run(ops.begin(self._channel.core))
        if self._joined is not None:
            try:
                run_steps(self._joined.begin(self._handle.identifier))
            except BaseException:
                with contextlib.suppress(ClientConnectionError, QueueError):
                    self._channel.run(ops.abort(self._channel.core, self._take()))
                raise
        return self

    def enlist(self, other: _Participant) -> Part:
        """Makes another queue manager take part; what is sent and received there has `tx=` this.

        The two have to be peers of each other (`posthouse peer create`).
        """
        core = self._channel.core
        self._channel.run(ops.begun(self.handle))
        guid = other._channel.core.guid
        token = self._channel.run(joint.enlist(core, self.handle, guid))
        part = Part(other._channel)
        part._handle = other._channel.run(joint.begin_part(other._channel.core, token))
        self._parts.append(part)
        return part

    def commit(self) -> None:
        """Makes it all happen, durably. Raises `TransactionAborted` where nothing happened."""
        try:
            self._commit(self._take())
        except (QueueError, TransactionAborted):
            self._abort_parts()
            raise
        for part in self._parts:
            part._handle = None

    def _commit(self, handle: TransactionHandle) -> None:
        core, run = self._channel.core, self._channel.run
        if self._joined is None:
            run(ops.commit(core, handle))
            return
        steps = self._joined.commit(
            lambda branches: run(ops.commit(core, handle, branches)),
            lambda: run(ops.abort(core, handle)),
        )
        run_steps(steps)

    def abort(self) -> None:
        """Nothing of it happens: what was received is back in its queues."""
        handle = self._take()
        if self._joined is not None:
            run_steps(self._joined.roll_back())
        self._abort_parts()
        self._channel.run(ops.abort(self._channel.core, handle))

    def _abort_parts(self) -> None:
        """Others would find out by themselves, but later."""
        for part in self._parts:
            if part._handle is not None:
                with contextlib.suppress(ClientConnectionError, QueueError):
                    part.abort()

    @property
    def handle(self) -> TransactionHandle:
        """The transaction in the session."""
        if self._handle is None:
            raise TransactionSequence("the transaction has not begun, or has ended")
        if self._handle.made_in <= self._channel.core.inherited:
            raise of_the_parent("transaction")
        return self._handle

    def _take(self) -> TransactionHandle:
        handle, self._handle = self.handle, None
        return handle

    def __enter__(self) -> Self:
        """Begins it; without other participants, that leaves with the first thing done in it."""
        if self._joined is not None or self._handle is not None:
            return self.begin()
        self._handle = self._channel.begin_transaction()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._handle is None:
            return
        if kind is None:
            self.commit()
        else:
            with contextlib.suppress(ClientConnectionError, QueueError):
                self.abort()


class Part(Transaction):
    """What another queue manager does in a transaction; it ends with that."""

    def __enter__(self) -> Self:
        return self.begin()

    def begin(self) -> Self:
        """It began when it was enlisted."""
        raise TransactionSequence("a part of a transaction has begun already")

    def commit(self) -> None:
        """Only the whole is committed."""
        raise TransactionSequence("commit the transaction that this is a part of")

    def enlist(self, other: _Participant) -> Part:
        """Only the whole takes more participants."""
        raise TransactionSequence("enlist in the transaction that this is a part of")
