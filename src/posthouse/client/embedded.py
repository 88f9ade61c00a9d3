"""An embedded queue manager: runs in this process, with the interface of a connected one.

The session is the one that a server has; only sockets are left out. The caller runs the engine,
and their answer is durable before they get it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from posthouse.client.blocking import Channel, wait_on
from posthouse.client.connect import CONNECT_TIMEOUT_S
from posthouse.client.embedded_delivery import Courier
from posthouse.client.errors import SessionEnded
from posthouse.client.manager import QueueManagerClient
from posthouse.directory.settings import DirectorySettings
from posthouse.engine.manager import QueueManager
from posthouse.model.roles import Role
from posthouse.protocols.engine_calls import Call, Release
from posthouse.protocols.handlers.context import Services
from posthouse.protocols.handlers.dispatch import Api
from posthouse.protocols.handlers.lease_table import Leases
from posthouse.protocols.handlers.rates import Rates
from posthouse.protocols.sessions.protocol import ClientSession
from posthouse.protocols.sessions.session import Finish
from posthouse.runtime.directory.authority import (
    FIRST_WAIT_S,
    open_authority,
    refresh_pause_s,
)
from posthouse.runtime.directory.feed import DirectoryFeed, need_now
from posthouse.runtime.embedded import EmbeddedQueueManager
from posthouse.runtime.home import engine_settings
from posthouse.runtime.ports import PortSet
from posthouse.runtime.settings.file import SETTINGS_NAME, read_settings
from posthouse.security.access import Caller

if TYPE_CHECKING:
    from posthouse.directory.authority import Authority
    from posthouse.runtime.driver import Driver

DEADLINE_MIN_S = 0.001  # a deadline that stays due may not spin


def open_home(
    home: str | os.PathLike[str], *, name: str | None = None, version: str = ""
) -> QueueManagerClient:
    """A queue manager of this process on a home that no other has; `close` stops it.

    Without a name it has the one that the home keeps. It follows the settings of the home that the
    engine and the store read, as `posthouse serve` does. It has no listeners: a port in a name is
    its own if it is one of the documents.
    """
    folder = Path(home)
    sections = read_settings(folder / SETTINGS_NAME, must_exist=False)
    section, machine = sections.directory, sections.queue_manager
    settings = engine_settings(sections, name or machine.name, PortSet.STANDARD)
    settings = replace(settings, software_version=version)
    embedded = EmbeddedQueueManager(folder, settings=settings, store_settings=sections.store)
    embedded.manager.certificates.configure(sections.security)
    link = EmbeddedLink(embedded, version)  # closed by its channel, also when that fails
    if (authority := open_authority(section, folder)) is not None:
        link.follow(authority, section)
    return QueueManagerClient(Channel(link, b"", "embedded", CONNECT_TIMEOUT_S, 0.0))


class EmbeddedDesk:
    """`posthouse.protocols.engine_calls.Desk` without an event loop: `settle` ends a turn."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self._in_turn = False
        self._settling = False
        self.leases = Leases()

    @property
    def manager(self) -> QueueManager:
        """The engine."""
        return self.driver.manager

    def decide(self, call: Call, release: Release) -> None:
        """Runs a call in the current turn."""
        if not self._in_turn:
            self._begin_turn()
        self.driver.decide(call, release)

    def _begin_turn(self) -> None:
        """Leases whose time is over end before anything else is decided."""
        self.driver.begin_turn()
        self._in_turn = True
        due_ms = self.leases.next_ms
        if due_ms is not None and due_ms <= self.driver.clock()[0]:
            self.driver.decide(self.leases.expire, lambda answer: None)

    def settle(self) -> None:
        """Ends turns until no more are asked for: appended, synced, then let out."""
        if self._settling:
            return  # what is being let out asked for more, and gets its turn below
        driver, self._settling = self.driver, True
        try:
            while self._in_turn:
                self._in_turn = False
                driver.end_turn()
                driver.sync()
                driver.release()
        finally:
            self._settling = False
        driver.tidy()

    def look_at_the_clock(self) -> None:
        """A turn of its own for what is due."""
        self._begin_turn()
        self.settle()

    def seconds_left(self) -> float | None:
        """Until the next deadline; None: there is none."""
        found = (self.manager.next_deadline_ms(), self.leases.next_ms)
        deadlines = [one for one in found if one is not None]
        if not deadlines:
            return None
        return max((min(deadlines) - self.driver.clock()[0]) / 1000, DEADLINE_MIN_S)


class EmbeddedLink:
    """The way to a queue manager that is here. Its lock is taken last."""

    def __init__(self, embedded: EmbeddedQueueManager, version: str) -> None:
        self._embedded = embedded
        self._desk = EmbeddedDesk(embedded.driver)
        manager = embedded.manager
        services = Services(
            tokens=manager.tokens,
            machine=manager.machine,
            rates=Rates(),
            version=version,
            leases=self._desk.leases,
        )
        self._api = Api(self._desk, services)
        self._session: ClientSession | None = None
        self._changed = threading.Condition(threading.RLock())
        self._courier = Courier(self._desk, self._changed)
        embedded.driver.on_active = self._courier.active
        self.idle = 0
        self._incoming: list[bytes] = []
        self._woken = False
        self._feed: DirectoryFeed | None = None

    def follow(self, authority: Authority, section: DirectorySettings) -> None:
        """Shares a directory; returns when it is there, or when that takes too long."""
        feed = self._feed = DirectoryFeed(
            authority,
            self._post,
            refresh_s=refresh_pause_s(section),
            away_s=float(section.online_s),
            patience_s=float(section.patience_s),
        )
        self._embedded.driver.on_need = need_now(self._embedded.driver, feed.ask_now)
        self._embedded.manager.directory.refresh_with(lambda whole: feed.refresh(whole=whole))
        feed.start()
        first = threading.Event()
        feed.refresh(first.set)
        first.wait(FIRST_WAIT_S)

    def _post(self, call: Call, back: Callable[[object], None]) -> None:
        with self._changed:
            self._desk.decide(call, lambda answer: back(answer.value))
            self._desk.settle()

    def open(self, timeout: float) -> bytes:
        """Begins the session."""
        self._session = ClientSession(
            self._desk,
            Caller.administrator(),
            Role.ADMINISTER.value,
            self._deliver,
            api=self._call,
            software="posthouse",
        )
        return b""

    def _call(
        self, caller: Caller, role: str, method: str, target: str, body: bytes, done: Finish
    ) -> None:
        self._api.call(caller, Role(role), method, target, body, done, association=self._session)

    def _deliver(self, frames: list[bytes]) -> None:
        self._incoming += frames
        self._changed.notify_all()

    def write(self, data: list[bytes]) -> None:
        """The engine does it at once."""
        with self._changed:
            if self._session is not None:
                self._session.receive(b"".join(data))
                self._desk.settle()

    def read(self, timeout: float | None, room: memoryview | None = None) -> bytes:
        """What has been answered; waits for other threads, and for what the clock brings."""
        with self._changed:
            while not self._incoming and not self._woken:
                if self._session is None:
                    raise SessionEnded("the queue manager has been closed")
                self.idle = threading.get_ident()
                is_woken = wait_on(self._changed, self._desk.seconds_left())
                self.idle = 0
                if not is_woken:
                    self._desk.look_at_the_clock()
            self._woken = False
            data, self._incoming = b"".join(self._incoming), []
            return data

    def look(self) -> bytes:
        """What has been answered; it does not end by itself."""
        with self._changed:
            data, self._incoming = b"".join(self._incoming), []
            return data

    def wake(self) -> None:
        """Somebody wants the reader to look."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def disconnect(self) -> None:
        """Ends the session: its transactions abort, its messages go back."""
        with self._changed:
            session, self._session = self._session, None
            if session is not None:
                session.lost()
                self._desk.settle()
            self._changed.notify_all()

    def close(self) -> None:
        """A clean stop."""
        self._courier.stop()
        if self._feed is not None:
            self._feed.close()
        self.disconnect()
        self._embedded.close()

    def forked(self) -> bool:
        """Leave the home to the parent."""
        self._embedded.forked()
        return False
