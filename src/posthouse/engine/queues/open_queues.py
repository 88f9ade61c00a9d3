"""Access modes and share modes of open queues ([MS-MQDMPR] 3.1.1.10, .16, .17)."""

from __future__ import annotations

from posthouse.engine.queues.queue import OpenQueueDescriptor as OpenQueueDescriptor
from posthouse.engine.queues.queue import WaitingMessageReadOperation as WaitingMessageReadOperation
from posthouse.model.properties import QueueAccessType as QueueAccessType
from posthouse.model.properties import QueueShareMode as QueueShareMode

RECEIVING = frozenset({QueueAccessType.RECEIVE, QueueAccessType.RECEIVE_ADMIN})
PEEKING = frozenset({QueueAccessType.PEEK, QueueAccessType.PEEK_ADMIN})
ADMIN = frozenset({QueueAccessType.RECEIVE_ADMIN, QueueAccessType.PEEK_ADMIN})
