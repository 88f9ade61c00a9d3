"""`posthouse.msmq`: the queues of any MSMQ, Windows included (docs/remote-read.md).

Messages are sent over the binary protocol: through a local queue manager, through an embedded one,
or straight from this process. They are read over remote read.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from ipaddress import ip_address
from types import TracebackType
from typing import Final, Self, Unpack
from weakref import WeakKeyDictionary

from posthouse.client.binary.sender import BinarySender, portions
from posthouse.client.bodies import Body
from posthouse.client.manager import Queue, QueueManagerClient
from posthouse.client.message import Message
from posthouse.client.operations import MessageIds
from posthouse.client.packets import Draft, PacketMaker, options
from posthouse.client.remote.consumer import WINDOW_MAX
from posthouse.client.remote.login import (
    EPM_PORT,
    LEVELS,
    Authentication,
    Mechanism,
    RemoteLogin,
    RemotePlace,
)
from posthouse.client.remote.management import RemoteManagement
from posthouse.client.remote.queue import ReadableQueue
from posthouse.client.remote.reader import QueueReader, RemoteReader
from posthouse.client.remote.state import ClientIdentity, identity_of_a_program
from posthouse.client.remote.transaction_parts import (
    RemoteParts,
    join_transaction,
    keep_transaction,
)
from posthouse.client.send_options import SendOptions, without_delivery
from posthouse.client.transaction import Transaction
from posthouse.model.durations import Seconds, finite_seconds
from posthouse.model.errors import TransactionUsage, UnsupportedOperation
from posthouse.model.guids import parse_guid
from posthouse.model.names import (
    DirectName,
    MachineName,
    PathName,
    PrivateName,
    PublicName,
    parse_name,
)
from posthouse.protocols.binary.settings import BinarySettings
from posthouse.rpc.providers import auth_type_of

BINARY_PORT: Final = 1801
RECONNECT_S: Final = 30.0
TIMEOUT_S: Final = 60.0  # more than a peer may take to acknowledge one express message
BATCH: Final = 1024  # packets handed to a session at once
BATCH_BYTES: Final = 16 << 20  # of them in memory
_LOOK_S: Final = 0.05
_LOCAL: Final = frozenset({"private$", "system$"})  # what a path without a computer begins with


def msmq(
    host: str,
    *,
    user: str | None = None,
    password: str | None = None,
    binary_port: int = BINARY_PORT,
    rpc_port: int | None = None,
    epm_port: int = EPM_PORT,
    authentication: Authentication | None = None,
    mechanism: Mechanism = "negotiate",
    prefetch: int = 0,
    via: QueueManagerClient | None = None,
    peer: str | None = None,
    home: str | os.PathLike[str] | None = None,
    timeout: Seconds = TIMEOUT_S,
    reconnect: Seconds = RECONNECT_S,
) -> RemoteQueueManager:
    """The queue manager of another computer.

    With `via`, a client of a local queue manager, or `home`, for one in this process, sends are
    done when that queue manager has them; it delivers them, also after restarts, exactly once in a
    transaction. Without either, express and recoverable messages go straight to the other computer
    and are done when it acknowledges them; `timeout` bounds how long nothing may be acknowledged.

    Its queues are read over remote read, as `user` with `password`, where the port is found by the
    endpoint mapper there unless `rpc_port` names it. `authentication` is `privacy`, `integrity`,
    `connect` or `none`: by default `privacy`, `none` without a user. With `prefetch` this many
    messages are locked for this reader ahead of them. A connection that breaks is tried again for
    `reconnect` seconds. Transactions are those of `via`; `peer` is the name that it uses for the
    other queue manager, if not the host. With `via` or `home` the other computer is given the
    identity of that queue manager, else that of a program in a workgroup.
    """
    if via is not None and home is not None:
        raise ValueError("name a local queue manager (via) or a home, not both")
    if not 0 <= prefetch <= WINDOW_MAX:
        raise ValueError(f"prefetch is between 0 and {WINDOW_MAX}")
    login = login_of(user, password, authentication, mechanism)
    place = RemotePlace(host, rpc_port, epm_port)
    through = None
    if home is not None:
        from posthouse.client.embedded import open_home

        through = _Through(open_home(home), own=True)
    elif via is not None:
        through = _Through(via, own=False)
    identify = identity_of_a_program if through is None else through.identity
    timeout_s, reconnect_s = finite_seconds(timeout), finite_seconds(reconnect, "reconnect")
    reader = RemoteReader(
        place, login, timeout_s=timeout_s, reconnect_s=reconnect_s, identify=identify
    )
    management = RemoteManagement(place, login, timeout_s=timeout_s)
    reading = _Reading(reader, management, prefetch, peer or host)
    return RemoteQueueManager(host, binary_port, through, timeout_s, reading)


def login_of(
    user: str | None,
    password: str | None,
    authentication: Authentication | None,
    mechanism: Mechanism,
) -> RemoteLogin:
    """Who asks another computer; raises `ValueError` where that does not go together."""
    auth_type_of(mechanism)
    proves = user is not None or mechanism == "kerberos"
    word = authentication or ("privacy" if proves else "none")
    if word not in LEVELS:
        raise ValueError(f"authentication is one of {', '.join(LEVELS)}")
    if word != "none" and not proves:
        raise ValueError(f"authentication {word} needs user and password")
    return RemoteLogin(user, password, LEVELS[word], mechanism)


class _Through:
    """The queue manager that delivers, and whether it is ours to close."""

    def __init__(self, client: QueueManagerClient, *, own: bool) -> None:
        self.client = client
        self.own = own

    def identity(self) -> ClientIdentity:
        """How it names itself to a computer that is read for it ([MS-MQRR] 3.1.4.2)."""
        status = self.client.status()
        return ClientIdentity(
            parse_guid(status.guid),
            routing_server=status.directory.routing_server,
            workgroup=not status.directory.shared,
        )

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


class _Reading:
    """How queues there are read."""

    def __init__(
        self, reader: RemoteReader, management: RemoteManagement, prefetch: int, peer: str
    ) -> None:
        self.reader = reader
        self.management = management
        self.prefetch = prefetch
        self.through: _Through | None = None
        self._peer = peer
        self._parts: WeakKeyDictionary[Transaction, RemoteParts] = WeakKeyDictionary()

    def joined(self, tx: Transaction, queue: QueueReader) -> bytes:
        """The queue manager there takes part in a transaction of the local one."""
        through = self.through
        if through is None or tx._channel is not through.client._channel:
            raise TransactionUsage(
                "a transaction with another computer needs a local queue manager to decide it",
                "Name the one that begins the transaction: posthouse.msmq(host, via=qm).",
            )
        parts = self._parts.setdefault(tx, RemoteParts())
        return join_transaction(tx, parts, self.reader, self._peer, queue.enlist)

    def keep(self, tx: Transaction) -> None:
        """Something waits there in a transaction of the local queue manager."""
        keep_transaction(tx, self._peer)


class RemoteQueueManager:
    """Another computer's queues; made by `posthouse.msmq`."""

    def __init__(
        self, host: str, port: int, through: _Through | None, timeout_s: float, reading: _Reading
    ) -> None:
        self.host = host
        self.port = port
        self._through = reading.through = through
        self._reading = reading
        self._sender: BinarySender | None = None
        if through is None:
            self._sender = BinarySender(host, port, timeout_s, BinarySettings())
        self._queues: dict[tuple[str, bool], RemoteQueue] = {}

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
        """Ends the sessions; what was read ahead goes back.

        An embedded queue manager gets `wait` seconds to deliver first.
        """
        for queue in list(self._queues.values()):
            queue._stop_reading_ahead()
        self._reading.reader.close()
        self._reading.management.close()
        if self._sender is not None:
            self._sender.close()
        if self._through is not None:
            self._through.close(wait)

    @property
    def in_doubt(self) -> int:
        """How many messages were handed out whose end is not known (decision 42)."""
        return self._reading.reader.in_doubt

    def queue(self, name: str, *, exclusive: bool = False) -> RemoteQueue:
        r"""A queue there, such as `private$\orders`; format names are taken as they are.

        A public queue is `orders`, `HOST\orders` or `PUBLIC=` and its identifier. With
        `exclusive` no other reader can receive from it while it is open here.
        """
        found = self._queues.get((name, exclusive))
        if found is None:
            format_name, reading = self.format_name(name), self._reading
            if self._through is not None:
                queue = self._through.client.queue(format_name)
                found = _QueueThrough(format_name, queue, reading, exclusive)
            else:
                assert self._sender is not None
                maker = PacketMaker(format_name, self.host)
                found = _QueueStraight(format_name, self._sender, maker, reading, exclusive)
            self._queues[name, exclusive] = found
        return found

    def format_name(self, name: str) -> str:
        """The format name of a queue there: `private$\\orders`, `orders`, `HOST\\orders`."""
        parts = name.replace("/", "\\").split("\\")
        if "=" in parts[0]:
            parsed = parse_name(name)
            if not isinstance(parsed, DirectName | PublicName | PrivateName | MachineName):
                raise UnsupportedOperation(f"{name} does not name its computer")
            return str(parsed)
        local = len(parts) == 1 or parts[0].casefold() in _LOCAL
        path = PathName.parse(f".\\{name}" if local else name)
        port = "" if self.port == BINARY_PORT else f":{self.port}"
        return f"DIRECT={_protocol(self.host)}{port}\\{str(path.with_computer('.'))[2:]}"


def _protocol(host: str) -> str:
    try:
        address = ip_address(host)
    except ValueError:
        return f"OS:{host}"
    return f"TCP:[{address}]" if address.version == 6 else f"TCP:{address}"


class RemoteQueue(ReadableQueue, ABC):
    """A queue of another computer, to be sent to and read."""

    def __repr__(self) -> str:
        return f"<RemoteQueue {self.name}>"

    def send(
        self,
        body: Body | Message,
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
        own = transactional or how.get("delivery") == "transactional"
        draft = Draft(body, **without_delivery(how))
        return self.send_many([draft], tx=tx, transactional=own)[0]

    @abstractmethod
    def send_many(
        self,
        bodies: Iterable[Body | Draft | Message],
        *,
        tx: Transaction | None = None,
        transactional: bool = False,
        **how: Unpack[SendOptions],
    ) -> MessageIds:
        """Sends many messages, in order; a `Draft` has options of its own."""


class _QueueThrough(RemoteQueue):
    """By way of a queue manager that delivers."""

    def __init__(self, name: str, queue: Queue, reading: _Reading, exclusive: bool) -> None:
        super().__init__(name, reading, exclusive)
        self._queue = queue

    def send_many(
        self,
        bodies: Iterable[Body | Draft | Message],
        *,
        tx: Transaction | None = None,
        transactional: bool = False,
        **how: Unpack[SendOptions],
    ) -> MessageIds:
        return self._queue.send_many(bodies, tx=tx, transactional=transactional, **how)


class _QueueStraight(RemoteQueue):
    """From this process."""

    def __init__(
        self,
        name: str,
        sender: BinarySender,
        maker: PacketMaker,
        reading: _Reading,
        exclusive: bool,
    ) -> None:
        super().__init__(name, reading, exclusive)
        self._sender = sender
        self._maker = maker

    def send_many(
        self,
        bodies: Iterable[Body | Draft | Message],
        *,
        tx: Transaction | None = None,
        transactional: bool = False,
        **how: Unpack[SendOptions],
    ) -> MessageIds:
        if tx is not None or transactional or how.get("delivery") == "transactional":
            raise TransactionUsage(
                "a transactional message needs a queue manager that keeps its place in the "
                "sequence until the other computer has it",
                "Send through one: posthouse.msmq(host, via=posthouse.connect()) or home=.",
            )
        ids = MessageIds(self._sender.guid)
        for batch in portions(self._maker.packets(bodies, options(how), False), BATCH_BYTES, BATCH):
            ids.add(self._sender.send(batch))
        return ids
