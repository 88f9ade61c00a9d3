"""A connector: both connector queues of a foreign site, read on and on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from types import TracebackType
from typing import Final, Self

from posthouse.client.errors import SessionEnded
from posthouse.client.manager import QueueManagerClient
from posthouse.client.operations import close_handles
from posthouse.client.requests import Handle
from posthouse.connector.parcels import Parcel, Refused
from posthouse.connector.reading import Batch, settle, take
from posthouse.model.enumerations import QueueAccessType, QueueShareMode
from posthouse.model.errors import InvalidParameter, IoTimeout, QueueNotFound
from posthouse.model.names import ConnectorName, Suffix, parse_format_name

BATCH: Final = 64
LOOK_S: Final = 1.0  # how long a read waits before it is looked whether to stop
TROUBLES_MAX: Final = 3  # queues of the foreign system; then it is itself that has trouble
PAUSE_FIRST_S: Final = 0.25
PAUSE_MAX_S: Final = 30.0

HandOver = Callable[[Parcel], None]
Trouble = Callable[[Exception], None]


def _ignore(trouble: Exception) -> None:
    """Nobody wants to know."""


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
        self._handles: dict[bool, Handle] = {}

    def parcels(
        self, *, transactional: bool = False, timeout: float | None = None
    ) -> Generator[Parcel, None, None]:
        """Messages of one of the two queues until none comes within `timeout` seconds.

        Say of each what became of it before the next one is asked for: what was said is durable
        when a batch is through, and when the iterator is closed; what was not goes back. Raises
        `MessageReturned` where the connection broke before: these messages come again.
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
                            f"nothing was said of {parcel}, and the next one is asked for",
                            "Call delivered, received or refused of each first.",
                        )
            finally:
                self._channel.run(settle(core, handle, batch))

    def run(self, hand_over: HandOver, *, on_trouble: Trouble = _ignore) -> None:
        """Hands every message of both queues to `hand_over` until `stop` is called.

        What it returns from is delivered, unless it has said something else of the parcel. Where it
        raises `Refused` the sender learns that. Any other exception is trouble with the foreign
        system: the message stays, and so do those behind it for the same queue, and are tried again
        after a growing pause. Messages for other queues go on, as far as a batch reaches; not so
        transactional ones. The two connector queues have a thread each.
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
        core, handle, pause = self._channel.core, self._handle(transactional), PAUSE_FIRST_S
        while not self._stop.is_set():
            handed = troubled = 0
            try:
                batch = self._channel.run(take(core, handle, self._batch, LOOK_S))
                handed, troubled = self._hand_over_all(
                    batch, handle, hand_over, on_trouble, 1 if transactional else TROUBLES_MAX
                )
            except IoTimeout:
                pass
            except SessionEnded as error:
                self._ended = error
                self.stop()
            except Exception as trouble:
                on_trouble(trouble)
                troubled = 1
            if handed or not troubled:
                pause = PAUSE_FIRST_S
            if troubled:
                self._stop.wait(pause)
                pause = min(2 * pause, PAUSE_MAX_S)

    def _hand_over_all(
        self, batch: Batch, handle: Handle, hand_over: HandOver, on_trouble: Trouble, most: int
    ) -> tuple[int, int]:
        """How many messages were handed over, and how many queues there was trouble with."""
        handed, troubled = 0, set[str]()
        try:
            for parcel in batch.parcels:
                if self._stop.is_set() or len(troubled) >= most:
                    break
                if parcel.destination in troubled:
                    continue
                try:
                    self._hand_over(parcel, hand_over)
                    handed += 1
                except Exception as trouble:  # the foreign system's may be any
                    troubled.add(parcel.destination)
                    on_trouble(trouble)
        finally:
            self._channel.run(settle(self._channel.core, handle, batch))
        return handed, len(troubled)

    def _hand_over(self, parcel: Parcel, hand_over: HandOver) -> None:
        try:
            hand_over(parcel)
        except Refused as refusal:
            parcel.refused(str(refusal))
        else:
            if not parcel.said:
                parcel.delivered()

    def _handle(self, transactional: bool) -> Handle:
        if transactional not in self._handles:
            suffix = Suffix.XACTONLY if transactional else Suffix.NONE
            name = str(ConnectorName(self.name.guid, suffix))
            self._handles[transactional] = Handle(name, QueueAccessType.RECEIVE, self._share)
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
