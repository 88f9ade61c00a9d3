"""`posthouse.msmq`: the queues of any MSMQ, Windows included (contract, section 4).

Messages are sent over the binary protocol: through a local queue manager, through an embedded one,
or straight from this process.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from ipaddress import ip_address
from types import TracebackType
from typing import Any, Final, NoReturn, Self, Unpack

from posthouse.client.binary_sender import BinarySender
from posthouse.client.bodies import Body
from posthouse.client.manager import Queue, QueueManagerClient
from posthouse.client.operations import MessageIds
from posthouse.client.packets import Draft, PacketMaker, SendOptions, options
from posthouse.client.transaction import Transaction
from posthouse.model.errors import TransactionUsage, UnsupportedOperation
from posthouse.model.names import DirectName, PathName, parse_name
from posthouse.protocols.binary.settings import BinarySettings

BINARY_PORT: Final = 1801
TIMEOUT_S: Final = 60.0  # more than a peer may take to acknowledge one express message
BATCH: Final = 1024  # packets handed to a session at once
_LOOK_S: Final = 0.05


def msmq(
    host: str,
    *,
    user: str | None = None,
    password: str | None = None,
    binary_port: int = BINARY_PORT,
    rpc_port: int | None = None,
    via: QueueManagerClient | None = None,
    home: str | os.PathLike[str] | None = None,
    timeout: float = TIMEOUT_S,
) -> RemoteQueueManager:
    """The queue manager of another computer.

    With `via`, a client of a local queue manager, or `home`, for one in this process, sends are
    done when that queue manager has them; it delivers them, also after restarts, exactly once in a
    transaction. Without either, express and recoverable messages go straight to the other computer
    and are done when it acknowledges them; `timeout` bounds how long nothing may be acknowledged.

    `user`, `password` and `rpc_port` are for reading, which comes with remote read.
    """
    if via is not None and home is not None:
        raise ValueError("name a local queue manager (via) or a home, not both")
    if home is not None:
        from posthouse.client.embedded import open_home

        return RemoteQueueManager(host, binary_port, _Through(open_home(home), own=True), timeout)
    if via is not None:
        return RemoteQueueManager(host, binary_port, _Through(via, own=False), timeout)
    return RemoteQueueManager(host, binary_port, None, timeout)


class _Through:
    """The queue manager that delivers, and whether it is ours to close."""

    def __init__(self, client: QueueManagerClient, *, own: bool) -> None:
        self.client = client
        self.own = own

    def close(self, wait_s: float) -> None:
        """Ours is given the time to deliver; what it still has, it delivers when opened again."""
        if not self.own:
            return
        self.own = False  # once
        end = time.monotonic() + wait_s
        while self._unsent() and time.monotonic() < end:
            time.sleep(_LOOK_S)
        self.client.close()

    def _unsent(self) -> bool:
        return any(queue.messages for queue in self.client.queues(outgoing=True) if queue.state)


class RemoteQueueManager:
    """Another computer's queues; made by `posthouse.msmq`."""

    def __init__(self, host: str, port: int, through: _Through | None, timeout_s: float) -> None:
        self.host = host
        self.port = port
        self._through = through
        self._sender: BinarySender | None = None
        if through is None:
            self._sender = BinarySender(host, port, timeout_s, BinarySettings())
        self._queues: dict[str, RemoteQueue] = {}

    def __repr__(self) -> str:
        return f"<RemoteQueueManager {self.host}:{self.port}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self, wait: float = 10.0) -> None:
        """Ends the session. An embedded queue manager gets `wait` seconds to deliver first."""
        if self._sender is not None:
            self._sender.close()
        if self._through is not None:
            self._through.close(wait)

    def queue(self, name: str) -> RemoteQueue:
        r"""A queue there, such as `private$\orders`; direct format names are taken as they are."""
        found = self._queues.get(name)
        if found is None:
            format_name = self.format_name(name)
            if self._through is not None:
                found = _QueueThrough(format_name, self._through.client.queue(format_name))
            else:
                assert self._sender is not None
                found = _QueueStraight(format_name, self._sender, self.host)
            self._queues[name] = found
        return found

    def format_name(self, name: str) -> str:
        """The direct format name of a queue there."""
        if "=" in name.partition("\\")[0]:
            parsed = parse_name(name)
            if not isinstance(parsed, DirectName):
                raise UnsupportedOperation(f"{name} does not say which computer it is on")
            return str(parsed)
        path = PathName.parse(name if name.startswith(".") else f".\\{name}")
        port = "" if self.port == BINARY_PORT else f":{self.port}"
        return f"DIRECT={_protocol(self.host)}{port}\\{str(path)[2:]}"


def _protocol(host: str) -> str:
    try:
        address = ip_address(host)
    except ValueError:
        return f"OS:{host}"
    return f"TCP:[{address}]" if address.version == 6 else f"TCP:{address}"


class RemoteQueue(ABC):
    """A queue of another computer, to be sent to."""

    def __init__(self, format_name: str) -> None:
        self.name = format_name

    def __repr__(self) -> str:
        return f"<RemoteQueue {self.name}>"

    def send(
        self,
        body: Body,
        *,
        tx: Transaction | None = None,
        transactional: bool = False,
        **how: Unpack[SendOptions],
    ) -> str:
        """Sends a message and returns its identifier.

        Straight to another computer that takes until it acknowledges: milliseconds where Posthouse
        is, half a second or so on Windows for a recoverable message that comes alone, up to ten for
        an express one.
        """
        return self.send_many([Draft(body, **how)], tx=tx, transactional=transactional)[0]

    @abstractmethod
    def send_many(
        self,
        bodies: Iterable[Body | Draft],
        *,
        tx: Transaction | None = None,
        transactional: bool = False,
        **how: Unpack[SendOptions],
    ) -> MessageIds:
        """Sends many messages, in order; a `Draft` has options of its own."""

    def receive(self, *_: Any, **__: Any) -> NoReturn:
        """Reading from another computer needs remote read, which is not there yet."""
        raise UnsupportedOperation(
            f"{self.name} is on another computer, and remote read is not there yet",
            "Receive on that computer, or have it send to a queue here.",
        )

    peek = browse = count = purge = receive


class _QueueThrough(RemoteQueue):
    """By way of a queue manager that delivers."""

    def __init__(self, format_name: str, queue: Queue) -> None:
        super().__init__(format_name)
        self._queue = queue

    def send_many(
        self,
        bodies: Iterable[Body | Draft],
        *,
        tx: Transaction | None = None,
        transactional: bool = False,
        **how: Unpack[SendOptions],
    ) -> MessageIds:
        return self._queue.send_many(bodies, tx=tx, transactional=transactional, **how)


class _QueueStraight(RemoteQueue):
    """From this process."""

    def __init__(self, format_name: str, sender: BinarySender, computer: str) -> None:
        super().__init__(format_name)
        self._sender = sender
        self._maker = PacketMaker(format_name, computer)

    def send_many(
        self,
        bodies: Iterable[Body | Draft],
        *,
        tx: Transaction | None = None,
        transactional: bool = False,
        **how: Unpack[SendOptions],
    ) -> MessageIds:
        if tx is not None or transactional:
            raise TransactionUsage(
                "a transactional message needs a queue manager that keeps its place in the "
                "sequence until the other computer has it",
                "Send through one: posthouse.msmq(host, via=posthouse.connect()) or home=.",
            )
        ids, batch = MessageIds(self._sender.guid), []
        for packet in self._maker.packets(bodies, options(how), False):
            batch.append(packet)
            if len(batch) == BATCH:
                ids.add(self._sender.send(batch))
                batch = []
        if batch:
            ids.add(self._sender.send(batch))
        return ids
