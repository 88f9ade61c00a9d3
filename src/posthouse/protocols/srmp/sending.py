"""Sends an outgoing queue over HTTP: the Stream Receipt Wait Timer ([MC-MQSRM] 3.1.2.2)."""

from __future__ import annotations

from typing import NamedTuple

from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import OutgoingQueueState
from posthouse.engine.transfer.outgoing_cursor import OutgoingCursor
from posthouse.engine.transfer.protocol_interface import Outbound
from posthouse.protocols.srmp.settings import SrmpSettings

NEVER = 1 << 62  # a time that does not come


class TakenPosts(NamedTuple):
    """Messages on their way out, and whose they are."""

    sender: OutgoingCursor
    messages: list[Outbound]
    has_more: bool


class SrmpSendingQueue:
    """All but looking is called from inside the engine's turns.

    A sender lives as long as nothing goes wrong, also while its connection is closed for idleness:
    what waits for its stream receipt only is not sent again by a new connection.
    """

    __slots__ = (
        "_last_ack",
        "_resend_ms",
        "_settings",
        "begins_anew",
        "number",
        "remind_at_ms",
        "reminds",
        "resend_at_ms",
        "resend_index",
        "sender",
    )

    def __init__(self, number: int, settings: SrmpSettings) -> None:
        self.number = number
        self.sender: OutgoingCursor | None = None  # begun with the first take
        self.begins_anew = False  # what was taken and not sent has to be taken again
        self.remind_at_ms = NEVER  # then the last message goes once more, if any wait for the end
        self.reminds = False
        self.resend_index = 0  # into ResendTimerTable
        self.resend_at_ms = NEVER
        self._settings = settings
        self._resend_ms = settings.resend_ms
        self._last_ack = (0, 0)  # stream and number of the last receipt

    def take(self, manager: QueueManager, now_ms: int) -> TakenPosts:
        """The next messages; they are about to be sent (3.1.7.7-8)."""
        sender = self._begin(manager)
        self._look_for_progress(manager.machine.utc, now_ms)
        settings = self._settings
        reminder, self.reminds = sender.reminder() if self.reminds else [], False
        messages = reminder + sender.take(settings.send_batch_messages, settings.send_batch)
        if self.resend_at_ms == NEVER and any(message.transactional for message in messages):
            self._start(manager.machine.utc, now_ms)
        return TakenPosts(sender, messages, sender.waiting)

    def _begin(self, manager: QueueManager) -> OutgoingCursor:
        if self.sender is None or self.begins_anew or not self.sender.live:
            self.begins_anew = False
            self.sender = manager.transfer.begin_sending(self.number)
            self._last_ack = _last_ack_of(self.sender)
        else:
            manager.transfer.set_state(self.sender.queue, OutgoingQueueState.CONNECTED)
        return self.sender

    def acknowledged(self, numbers: list[int]) -> None:
        """200: others have them now. Those of streams stay until their receipts (3.1.7.2.5)."""
        if self.sender is not None and self.sender.live:
            self.sender.acknowledged(numbers)

    def _start(self, utc_s: int, now_ms: int) -> None:
        """Starts the timer; administrators see when it ends, 3.1.7.2.3."""
        assert self.sender is not None
        interval_ms = self._resend_ms[self.resend_index]
        self.resend_at_ms = now_ms + interval_ms
        interval_s = interval_ms // 1000
        self.sender.transfer.resend_planned(
            self.sender.queue, self.resend_index, interval_s, utc_s + interval_s
        )

    def _look_for_progress(self, utc_s: int, now_ms: int) -> None:
        """A receipt takes the interval back to the first one (state-machines 8.4 e)."""
        sender = self.sender
        if sender is None or (last := _last_ack_of(sender)) == self._last_ack:
            return
        self._last_ack = last
        self.resend_index, self.resend_at_ms = 0, NEVER
        if sender.unacknowledged:
            self._start(utc_s, now_ms)

    def expire(self, manager: QueueManager, now_ms: int) -> bool:
        """Stream Receipt Wait Timer (3.1.6.2): whether messages are to be sent again."""
        sender, utc_s = self.sender, manager.machine.utc
        self._look_for_progress(utc_s, now_ms)
        if sender is None or now_ms < self.resend_at_ms:
            return False
        self.resend_at_ms = NEVER
        if not sender.unacknowledged:
            self.resend_index = 0
            return False
        sender.resend()
        self.resend_index = min(self.resend_index + 1, len(self._resend_ms) - 1)
        self._start(utc_s, now_ms)
        return True

    def remind_later(self, now_ms: int, *, is_new: bool = False) -> None:
        """What has arrived waits for its final receipts, which go to where it was posted from.

        Our address may have changed since, so the last message is posted again: soon after a start,
        and each time that nothing was posted for as long as the longest resend interval.
        """
        table = self._resend_ms
        self.remind_at_ms = now_ms + (table[0] if is_new else table[-1])

    def remind(self, manager: QueueManager) -> bool:
        """Whether anything waits for its final receipt: then the next take brings a reminder."""
        queue = manager.queues.get(self.number)
        self.reminds = queue is not None and bool(manager.transfer.arrived(queue))
        return self.reminds

    def end(self) -> None:
        """Ends sending: all unacknowledged messages wait again."""
        self.resend_at_ms = NEVER
        self.begins_anew = False
        sender, self.sender = self.sender, None
        if sender is not None:
            sender.end()


def _last_ack_of(sender: OutgoingCursor) -> tuple[int, int]:
    info = sender.transfer.info(sender.queue)
    return info.last_ack_id, info.last_ack_number
