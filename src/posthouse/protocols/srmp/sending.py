"""Sends an outgoing queue over HTTP: the Stream Receipt Wait Timer ([MC-MQSRM] 3.1.2.2)."""

from __future__ import annotations

from typing import NamedTuple

from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import OutgoingQueueState
from posthouse.engine.transfer.outgoing_cursor import OutgoingCursor
from posthouse.engine.transfer.protocol_interface import Outbound
from posthouse.protocols.sending_queue import NEVER, SendingQueue
from posthouse.protocols.srmp.settings import SrmpSettings


class TakenPosts(NamedTuple):
    """Messages on their way out, and whose they are."""

    sender: OutgoingCursor
    messages: list[Outbound]
    has_more: bool


class SrmpSendingQueue(SendingQueue):
    """All but looking is called from inside the engine's turns.

    A sender lives as long as nothing goes wrong, also while its connection is closed for idleness:
    what waits for its stream receipt only is not sent again by a new connection.
    """

    __slots__ = ("_settings", "remind_at_ms", "reminds")

    def __init__(self, number: int, settings: SrmpSettings) -> None:
        super().__init__(number, settings.resend_ms)
        self.remind_at_ms = NEVER  # then the last message goes once more, if any wait for the end
        self.reminds = False
        self._settings = settings

    def take(self, manager: QueueManager, now_ms: int) -> TakenPosts:
        """The next messages; they are about to be sent (3.1.7.7-8)."""
        sender = self._sender(manager)
        self.look_for_progress(manager.machine.utc, now_ms)
        settings = self._settings
        reminder, self.reminds = sender.reminder() if self.reminds else [], False
        messages = reminder + sender.take(settings.send_batch_messages, settings.send_batch)
        if self.resend_at_ms == NEVER and any(message.transactional for message in messages):
            self.start_timer(manager.machine.utc, now_ms)
        return TakenPosts(sender, messages, sender.waiting)

    def _sender(self, manager: QueueManager) -> OutgoingCursor:
        if self.sender is None or self.begins_anew or not self.sender.live:
            return self.begin(manager)
        manager.transfer.set_state(self.sender.queue, OutgoingQueueState.CONNECTED)
        return self.sender

    def acknowledged(self, numbers: list[int]) -> None:
        """200: others have them now. Those of streams stay until their receipts (3.1.7.2.5)."""
        if self.sender is not None and self.sender.live:
            self.sender.acknowledged(numbers)

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
