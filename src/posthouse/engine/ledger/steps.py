"""Splits work on many messages into steps of bounded size.

A CHANGE record and a group of records are bounded, and so is the time others may be kept waiting.
"""

from __future__ import annotations

from posthouse.engine.ledger.records import WANT_ACKNOWLEDGMENT, Row
from posthouse.engine.settings import EngineSettings
from posthouse.model.errors import QueueError

_RECORDED = 64  # bytes that the log needs for the end or the new row of a message
ANSWERED_MAX = 100  # messages of a step that leave something when they end, which takes longer


class Allowance:
    """The messages and bytes that a step of a turn may still handle."""

    __slots__ = ("_answered", "bytes", "messages")

    def __init__(self, settings: EngineSettings) -> None:
        self.messages = settings.step_messages
        self.bytes = settings.step_bytes
        self._answered = max(1, settings.step_messages // ANSWERED_MAX)

    def spend(self, row: Row) -> None:
        """A message ends; an acknowledgment of that may repeat its body."""
        self.messages -= self._answered if row.wants else 1
        self.bytes -= _RECORDED + (row.size if row.wants & WANT_ACKNOWLEDGMENT else 0)

    @property
    def spent(self) -> bool:
        """Whether the rest has to wait for the next turn."""
        return self.messages <= 0 or self.bytes <= 0


class SteppedWork:
    """Work that takes several turns; its caller is answered when it is done."""

    __slots__ = ("done", "error")

    def __init__(self) -> None:
        self.done = False
        self.error: QueueError | None = None  # why it ends before its time
