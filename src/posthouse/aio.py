"""The asyncio client: the names of `posthouse`, awaited (docs/python.md)."""

from posthouse.client.aio_connect import Connecting as Connecting
from posthouse.client.aio_connect import connect as connect
from posthouse.client.aio_manager import Consumer as Consumer
from posthouse.client.aio_manager import Cursor as Cursor
from posthouse.client.aio_manager import Queue as Queue
from posthouse.client.aio_manager import QueueManagerClient as QueueManager
from posthouse.client.aio_manager import QueueManagerClient as QueueManagerClient
from posthouse.client.aio_manager import Transaction as Transaction

__all__ = [
    "Connecting",
    "Consumer",
    "Cursor",
    "Queue",
    "QueueManager",
    "QueueManagerClient",
    "Transaction",
    "connect",
]
