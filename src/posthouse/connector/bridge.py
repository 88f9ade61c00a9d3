"""A connector: reads both connector queues of a foreign site continuously."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from types import TracebackType
from typing import Final, Self

from posthouse.client.errors import SessionEnded
from posthouse.client.manager import QueueManagerClient
from posthouse.client.operations import close_handles
from posthouse.client.requests import QueueHandle
from posthouse.connector.deliveries import Parcel, Refused
from posthouse.connector.locked_reads import Held, end, give_back, settle, take
from posthouse.model.enumerations import QueueAccessType, QueueShareMode
from posthouse.model.errors import InvalidParameter, IoTimeout, QueueNotFound
from posthouse.model.names import ConnectorName, Suffix, parse_format_name

BATCH: Final = 64
LOOK_S: Final = 1.0  # how long a read waits before it is looked whether to stop
TROUBLES_MAX: Final = 3  # queues of the foreign system; then it is itself that has trouble
HELD_MAX: Final = 10_000  # messages for them that are passed by
PASS_S: Final = 5.0  # how long other messages may delay them after the pause
PAUSE_FIRST_S: Final = 0.25
PAUSE_MAX_S: Final = 30.0

HandOver = Callable[[Parcel], None]
Trouble = Callable[[Exception], None]


def _ignore(trouble: Exception) -> None:
    """Reports nothing."""


class _Round:
    """One way through a connector queue; where there is trouble it ends with a pause."""

    def __init__(self, troubles_max: int, pause_s: float, clock: Callable[[], float]) -> None:
        self.served: set[str] = set()
        self.troubled: set[str] = set()
        self.held: list[Held] = []
        self.may_be_more = True
        """Whether there is something after what was read last."""
        self._troubles_max = troubles_max
        self._pause_s = pause_s
        self._clock = clock
        self._until: float | None = None

    def trouble_with(self, queue: str) -> None:
        """Its messages are passed by from now on."""
        self.troubled.add(queue)
        if self._until is None:
            self._until = self._clock() + self._pause_s

    @property
    def left_s(self) -> float:
        """What is left of the pause."""
        return 0.0 if self._until is None else max(0.0, self._until - self._clock())

    @property
    def wait_s(self) -> float:
        """How long to wait for messages before it is looked again what to do."""
        return LOOK_S if self._until is None else min(LOOK_S, self.left_s)

    @property
    def is_stuck(self) -> bool:
        """Whether it is the foreign system itself that has trouble."""
        return len(self.troubled) >= self._troubles_max

    @property
    def is_over(self) -> bool:
        """Whether what is held is to be tried again, or too much of it to go on."""
        held = sum(len(some.lookup_ids) for some in self.held)
        if self._until is None or self.is_stuck or held >= HELD_MAX:
            return True
        late_s = self._clock() - self._until
        return late_s >= (PASS_S if self.may_be_more else 0)


class Connector:
    """The messages for the systems of one foreign site.

    `site` is its name, its GUID or the name of its connector queue. Messages come in order, one
    reader at a time: a second connector waits until the first is gone (`exclusive`).
    """

    def __init__(
        self, manager: QueueManagerClient, site: str, *, exclusive: bool = True, batch: int = BATCH
    ) -> None:
        self.name = _connector_name(manager, site)
        self._channel = manager._channel
        self._batch = batch
        self._share = QueueShareMode.DENY_RECEIVE if exclusive else QueueShareMode.DENY_NONE
        self._stop = threading.Event()
        self._ended: SessionEnded | None = None
        self._handles: dict[bool, QueueHandle] = {}

    def parcels(
        self, *, transactional: bool = False, timeout: float | None = None
    ) -> Generator[Parcel, None, None]:
        """Messages of one of the two queues until none comes within `timeout` seconds.

        Report the outcome of each before you ask for the next one. Outcomes are durable when a
        batch is through, and when the iterator is closed; messages without an outcome go back.
        Raises `MessageReturned` where the connection broke before: these messages come again.
        """
        core, handle = self._channel.core, self._handle(transactional)
        while True:
            try:
                batch = self._channel.run(take(core, handle, self._batch, timeout))
            except IoTimeout:
                return
            try:
                for parcel in batch.parcels:
                    yield parcel
                    if not parcel.said:
                        raise InvalidParameter(
                            f"{parcel} is not settled, and the next message was requested",
                            "First call delivered, received or refused for each message.",
                        )
            finally:
                self._channel.run(settle(core, handle, batch))

    def run(self, hand_over: HandOver, *, on_trouble: Trouble = _ignore) -> None:
        """Hands every message of both queues to `hand_over` until `stop` is called.

        What it returns from is delivered, unless it has said something else of the parcel. Where it
        raises `Refused` the sender learns that. Any other exception is trouble with the foreign
        system: the message stays, and so do those after it for the same queue, and are tried again
        after a growing pause. Messages for other queues go on, past ten thousand that wait; not so
        transactional ones, nor where three queues are in trouble. The two connector queues have a
        thread each.
        """
        threads = [
            threading.Thread(target=self._run, args=(transactional, hand_over, on_trouble))
            for transactional in (False, True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._ended is not None:
            raise self._ended

    def stop(self) -> None:
        """Ends `run` after the messages in hand; for any thread, and for signal handlers."""
        self._stop.set()

    def _run(self, transactional: bool, hand_over: HandOver, on_trouble: Trouble) -> None:
        pause = PAUSE_FIRST_S
        while not self._stop.is_set():
            way = _Round(1 if transactional else TROUBLES_MAX, pause, self._channel.core.clock)
            try:
                self._go_round(way, self._handle(transactional), hand_over, on_trouble)
            except SessionEnded as error:
                self._ended = error
                self.stop()
            except Exception as trouble:
                on_trouble(trouble)
                way.trouble_with(str(self.name))
            if way.troubled <= way.served:
                pause = PAUSE_FIRST_S
            if way.troubled:
                self._stop.wait(way.left_s)
                pause = min(2 * pause, PAUSE_MAX_S)

    def _go_round(
        self, way: _Round, handle: QueueHandle, hand_over: HandOver, on_trouble: Trouble
    ) -> None:
        """Once through the queue, past what is for queues that there is trouble with.

        That stays with us for the pause, so that what is after it comes; then it is tried again.
        """
        core = self._channel.core
        try:
            self._take_some(way, handle, hand_over, on_trouble)
            while not (way.is_over or self._stop.is_set()):
                self._take_some(way, handle, hand_over, on_trouble)
        finally:
            self._channel.run(give_back(core, handle, way.held))

    def _take_some(
        self, way: _Round, handle: QueueHandle, hand_over: HandOver, on_trouble: Trouble
    ) -> None:
        """One batch, if there is one."""
        core = self._channel.core
        try:
            batch = self._channel.run(take(core, handle, self._batch, way.wait_s))
        except IoTimeout:
            way.may_be_more = False
            return
        way.may_be_more = len(batch.parcels) == self._batch
        try:
            for parcel in batch.parcels:
                if self._stop.is_set() or way.is_stuck:
                    break
                if parcel.destination not in way.troubled:
                    self._try(parcel, way, hand_over, on_trouble)
        finally:
            way.held.append(self._channel.run(end(core, handle, batch)))

    def _try(self, parcel: Parcel, way: _Round, hand_over: HandOver, on_trouble: Trouble) -> None:
        try:
            self._hand_over(parcel, hand_over)
        except Exception as trouble:  # the foreign system's may be any
            way.trouble_with(parcel.destination)
            on_trouble(trouble)
        else:
            way.served.add(parcel.destination)

    def _hand_over(self, parcel: Parcel, hand_over: HandOver) -> None:
        try:
            hand_over(parcel)
        except Refused as refusal:
            parcel.refused(str(refusal))
        else:
            if not parcel.said:
                parcel.delivered()

    def _handle(self, transactional: bool) -> QueueHandle:
        if transactional not in self._handles:
            suffix = Suffix.XACTONLY if transactional else Suffix.NONE
            name = str(ConnectorName(self.name.guid, suffix))
            self._handles[transactional] = QueueHandle(name, QueueAccessType.RECEIVE, self._share)
        return self._handles[transactional]

    def close(self) -> None:
        """Gives the queues to others; what nothing was said of goes back."""
        handles, self._handles = self._handles, {}
        self._channel.run(close_handles(self._channel.core, handles.values()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _connector_name(manager: QueueManagerClient, site: str) -> ConnectorName:
    for queue in manager.queues():
        if queue.kind != "connector" or queue.transactional:
            continue
        name = parse_format_name(queue.format_name)
        assert isinstance(name, ConnectorName)
        if site.casefold() in (queue.label.casefold(), str(name).casefold(), _guid_of(name)):
            return name
    raise QueueNotFound(
        f"{manager.name} has no connector queue of the site {site} that you may look at",
        "It has one as a routing server that belongs to the foreign site; `queue list` shows it, "
        "`queue grant NAME USER receive,get-properties` opens it for a connector.",
    )


def _guid_of(name: ConnectorName) -> str:
    return str(name).partition("=")[2].casefold()
