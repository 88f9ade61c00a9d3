"""Posthouse: a message queue manager for Linux that speaks MSMQ on the wire.

The public names are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from posthouse import aio as aio
    from posthouse.client.connect import connect as connect
    from posthouse.client.errors import ClientConnectionError as ClientConnectionError
    from posthouse.client.errors import MessageReturned as MessageReturned
    from posthouse.client.errors import ServerUnreachable as ServerUnreachable
    from posthouse.client.errors import SessionEnded as SessionEnded
    from posthouse.client.errors import SessionLost as SessionLost
    from posthouse.client.errors import TransactionAborted as TransactionAborted
    from posthouse.client.errors import TransactionInDoubt as TransactionInDoubt
    from posthouse.client.errors import TransactionUnconfirmed as TransactionUnconfirmed
    from posthouse.client.manager import Consumer as Consumer
    from posthouse.client.manager import Cursor as Cursor
    from posthouse.client.manager import Queue as Queue
    from posthouse.client.manager import QueueManagerClient as QueueManager
    from posthouse.client.manager import QueueManagerClient as QueueManagerClient
    from posthouse.client.manager import Transaction as Transaction
    from posthouse.client.message import Message as Message
    from posthouse.client.msmq import RemoteQueue as RemoteQueue
    from posthouse.client.msmq import RemoteQueueManager as RemoteQueueManager
    from posthouse.client.msmq import msmq as msmq
    from posthouse.client.operations import MessageIds as MessageIds
    from posthouse.client.packets import Draft as Draft
    from posthouse.client.remote.consumer import RemoteConsumer as RemoteConsumer
    from posthouse.client.remote.queue import RemoteCursor as RemoteCursor
    from posthouse.client.send_options import SendOptions as SendOptions
    from posthouse.model import errors as errors
    from posthouse.model.errors import IoTimeout as IoTimeout
    from posthouse.model.errors import QueueError as QueueError
    from posthouse.model.errors import QueueExists as QueueExists
    from posthouse.model.errors import QueueNotFound as QueueNotFound

__version__ = "0.2.0.dev0"

_PLACES = {
    "ClientConnectionError": "posthouse.client.errors",
    "Consumer": "posthouse.client.manager",
    "Cursor": "posthouse.client.manager",
    "Draft": "posthouse.client.packets",
    "IoTimeout": "posthouse.model.errors",
    "Message": "posthouse.client.message",
    "MessageIds": "posthouse.client.operations",
    "MessageReturned": "posthouse.client.errors",
    "Queue": "posthouse.client.manager",
    "QueueError": "posthouse.model.errors",
    "QueueExists": "posthouse.model.errors",
    "QueueManager": "posthouse.client.manager",
    "QueueManagerClient": "posthouse.client.manager",
    "QueueNotFound": "posthouse.model.errors",
    "RemoteConsumer": "posthouse.client.remote.consumer",
    "RemoteCursor": "posthouse.client.remote.queue",
    "RemoteQueue": "posthouse.client.msmq",
    "RemoteQueueManager": "posthouse.client.msmq",
    "SendOptions": "posthouse.client.send_options",
    "ServerUnreachable": "posthouse.client.errors",
    "SessionEnded": "posthouse.client.errors",
    "SessionLost": "posthouse.client.errors",
    "Transaction": "posthouse.client.manager",
    "TransactionAborted": "posthouse.client.errors",
    "TransactionInDoubt": "posthouse.client.errors",
    "TransactionUnconfirmed": "posthouse.client.errors",
    "connect": "posthouse.client.connect",
    "msmq": "posthouse.client.msmq",
}
_MODULES = {"aio": "posthouse.aio", "errors": "posthouse.model.errors"}
_OTHER_NAMES = {"QueueManager": "QueueManagerClient"}
__all__ = [
    "ClientConnectionError",
    "Consumer",
    "Cursor",
    "Draft",
    "IoTimeout",
    "Message",
    "MessageIds",
    "MessageReturned",
    "Queue",
    "QueueError",
    "QueueExists",
    "QueueManager",
    "QueueManagerClient",
    "QueueNotFound",
    "RemoteConsumer",
    "RemoteCursor",
    "RemoteQueue",
    "RemoteQueueManager",
    "SendOptions",
    "ServerUnreachable",
    "SessionEnded",
    "SessionLost",
    "Transaction",
    "TransactionAborted",
    "TransactionInDoubt",
    "TransactionUnconfirmed",
    "__version__",
    "aio",
    "connect",
    "errors",
    "msmq",
    "open",
]


def open(home: str | PathLike[str], *, name: str | None = None) -> QueueManagerClient:
    """A queue manager in this process, on a home that no other process has (docs/python.md).

    The same names as `connect`; what is durable is so when its call returns. `close` stops it.
    """
    from posthouse.client.embedded import open_home

    return open_home(home, name=name, version=__version__)


if not TYPE_CHECKING:  # type checkers and editors read the imports above

    def __getattr__(name):
        if name in _MODULES:
            value = import_module(_MODULES[name])
        elif name in _PLACES:
            value = getattr(import_module(_PLACES[name]), _OTHER_NAMES.get(name, name))
        else:
            raise AttributeError(f"module 'posthouse' has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
