"""Follows the authority that the settings name, while the queue manager runs."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from posthouse.directory.addresses import Address
from posthouse.directory.authority import Authority, AuthorityAway
from posthouse.directory.settings import FILE_REFRESH_S, LDAP_REFRESH_S, DirectorySettings
from posthouse.engine.directory.authority_calls import Answered, AuthorityNeeded
from posthouse.engine.manager import QueueManager
from posthouse.model.errors import ServiceNotAvailable
from posthouse.model.extras import install
from posthouse.protocols.engine_calls import Call, Release
from posthouse.runtime.directory.feed import DirectoryFeed, silent
from posthouse.runtime.directory.file import FileAuthority
from posthouse.runtime.driver import made_again
from posthouse.runtime.loop import Loop

FIRST_WAIT_S: Final = 5.0  # a start waits this long for the authority, then goes on without it
STANDARD_PORT: Final = 1801


def new_guid() -> bytes:
    """A random identifier for a new object."""
    return uuid.uuid4().bytes_le


def open_authority(section: DirectorySettings, home: Path) -> Authority | None:
    """The authority that the settings name; paths are relative to the home."""
    if section.integrated and section.file:
        return FileAuthority(home / section.file, new_guid, section.lock_wait_s)
    if section.source:
        return _open_ldap(section)
    return None


def _open_ldap(section: DirectorySettings) -> Authority:
    try:
        from posthouse.runtime.directory.ldap import open_directory_ldap
    except ModuleNotFoundError as error:
        raise ServiceNotAvailable(
            f"[directory.ldap] needs the extra ldap: {error}",
            f"Install it: {install('ldap')}",
        ) from None
    return open_directory_ldap(section.ldap)


def refresh_pause_s(section: DirectorySettings) -> float:
    """How often it is asked."""
    usual = FILE_REFRESH_S if section.file else LDAP_REFRESH_S
    return float(section.refresh_s or usual)


class FollowedDirectory:
    """A feed beside an event loop: calls that need the authority go on when it has answered."""

    def __init__(
        self,
        desk: Loop,
        authority: Authority,
        section: DirectorySettings,
    ) -> None:
        self._desk = desk
        self.patience_s = float(section.patience_s)
        self._loop = asyncio.get_running_loop()
        self.feed = DirectoryFeed(
            authority,
            self._post,
            refresh_s=refresh_pause_s(section),
            away_s=float(section.online_s),
            patience_s=self.patience_s,
        )
        desk.driver.on_need = self._needed
        desk.manager.directory.refresh_with(lambda whole: self.feed.refresh(whole=whole))

    async def start(self) -> None:
        """Asks for everything; returns when it is there, or when that takes too long."""
        self.feed.start()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.refresh(), FIRST_WAIT_S)

    async def refresh(self) -> None:
        """Asks for changes now."""
        done = asyncio.Event()
        self.feed.refresh(lambda: self._on_loop(done.set), whole=True)
        try:
            await asyncio.wait_for(done.wait(), self.patience_s)
        except TimeoutError:
            self._away()

    def close(self) -> None:
        """Asks no more."""
        self.feed.close()

    def _on_loop(self, call: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: no caller waits
            self._loop.call_soon_threadsafe(call)

    def _post(self, call: Call, back: Callable[[object], None]) -> None:
        self._on_loop(lambda: self._decide(call, lambda answer: back(answer.value)))

    def _decide(self, call: Call, release: Release) -> None:
        """Unless everything ends: then no answer is waited for."""
        if not self._desk.stopped and self._desk.failure is None:
            self._desk.decide(call, release)

    def _needed(self, need: AuthorityNeeded, call: Call, release: Release) -> None:
        """Goes on with the answer, or without it when that takes too long."""

        def answered(answer: Answered) -> None:
            if asked.given_up:
                self.feed.refresh()  # it was carried out all the same: we look what came of it
            else:
                timer.cancel()
                self._decide(made_again(need, answer, call), release)

        def give_up() -> None:
            asked.given_up = True
            self._away()
            away = AuthorityAway(silent(self.patience_s))
            self._decide(made_again(need, away, call), release)

        asked = self.feed.need(need.orders, lambda answer: self._on_loop(lambda: answered(answer)))
        timer = self._loop.call_later(self.patience_s, give_up)

    def _away(self) -> None:
        """The authority neither answers nor fails."""
        reason = silent(self.patience_s)
        self._decide(lambda manager: manager.directory.away(reason), lambda answer: None)


def reached_at(endpoint: str, name: str) -> tuple[str, ...]:
    """The addresses that the directory lists for the listener of the binary protocol.

    A loopback address cannot be reached from elsewhere. A listener on all addresses is found by its
    name, and needs no entry if its port is the usual one.
    """
    address = Address.parse(endpoint)
    host = ip_address(address.host)
    if host.is_loopback:
        return ()
    if not host.is_unspecified:
        return (str(address),)
    return () if address.port == STANDARD_PORT else (str(Address(name, address.port)),)


def tell_addresses(desk: Loop, endpoint: str, name: str) -> None:
    """Enters the addresses of the listeners into the own object."""

    def tell(manager: QueueManager) -> None:
        manager.directory.listens_at(reached_at(endpoint, name))

    desk.decide(tell, lambda answer: None)
