"""What is sent from one outgoing queue, and again if nothing acknowledges it.

The timer is the Transactional Ack Wait Timer of [MS-MQQB] 3.1.2.6, and the Stream Receipt Wait
Timer of [MC-MQSRM] 3.1.2.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # clients use this module, and do not wait for the engine to load
    from posthouse.engine.manager import QueueManager
    from posthouse.engine.transfer.outgoing_cursor import OutgoingCursor

NEVER = 1 << 62  # a time that does not come


class SendingQueue:
    """An outgoing queue from which a session or a connection sends."""

    __slots__ = (
        "_last_ack",
        "_resend_ms",
        "begins_anew",
        "number",
        "resend_at_ms",
        "resend_index",
        "sender",
    )

    def __init__(self, number: int, resend_ms: tuple[int, ...]) -> None:
        self.number = number
        self.sender: OutgoingCursor | None = None  # begun with the first take
        self.begins_anew = False  # what was taken and not sent has to be taken again
        self.resend_index = 0  # into ResendTimerTable
        self.resend_at_ms = NEVER
        self._resend_ms = resend_ms
        self._last_ack = (0, 0)  # sequence and number of the last acknowledgment of order

    def begin(self, manager: QueueManager, peer: bytes = b"") -> OutgoingCursor:
        """A new session begins with a new sender."""
        self.begins_anew = False
        self.sender = manager.transfer.begin_sending(self.number, peer)
        self._last_ack = self.sender.last_ack
        return self.sender

    @property
    def resend_interval_ms(self) -> int:
        """ResendInterval."""
        return self._resend_ms[self.resend_index]

    def start_timer(self, utc_s: int, now_ms: int) -> None:
        """Starts the timer; administrators see when it ends ([MC-MQSRM] 3.1.7.2.3)."""
        assert self.sender is not None
        interval_ms = self.resend_interval_ms
        self.resend_at_ms = now_ms + interval_ms
        interval_s = interval_ms // 1000
        self.sender.resend_planned(self.resend_index, interval_s, utc_s + interval_s)

    @property
    def has_progress(self) -> bool:
        """Whether acknowledgments of order came since the last look."""
        return self.sender is not None and self.sender.last_ack != self._last_ack

    def look_for_progress(self, utc_s: int, now_ms: int) -> None:
        """Progress takes the interval back to the first one (state-machines 3 d and 8.4 e)."""
        sender = self.sender
        if sender is None or not self.has_progress:
            return
        self._last_ack = sender.last_ack
        self.resend_index, self.resend_at_ms = 0, NEVER
        if sender.unacknowledged:
            self.start_timer(utc_s, now_ms)

    def expire(self, utc_s: int, now_ms: int) -> bool:
        """The timer's event ([MS-MQQB] 3.1.6.5): whether messages are to be sent again."""
        sender = self.sender
        self.look_for_progress(utc_s, now_ms)
        if sender is None or now_ms < self.resend_at_ms:
            return False
        self.resend_at_ms = NEVER
        if not sender.unacknowledged:
            self.resend_index = 0
            return False
        sender.resend()
        self.resend_index = min(self.resend_index + 1, len(self._resend_ms) - 1)
        self.start_timer(utc_s, now_ms)
        return True

    def end(self) -> None:
        """Ends sending: all unacknowledged messages wait again."""
        self.resend_at_ms = NEVER
        self.begins_anew = False
        sender, self.sender = self.sender, None
        if sender is not None:
            sender.end()
