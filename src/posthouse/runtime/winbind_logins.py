"""NTLM logins of domain users: a few threads call winbind, each with a time limit.

An event loop asks and is called back; it never waits. Threads and questions are few, and those who
ask too much are refused at once, so a domain controller that does not answer fills no memory.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Final, Protocol

from posthouse.engine.accounts.logins import network_of
from posthouse.rpc.domain_logins import (
    Answered,
    DomainAway,
    DomainNames,
    DomainProof,
    DomainQuestion,
    DomainRefused,
    DomainVerdict,
)
from posthouse.security.accounts import LoginGuard

THREADS_MAX: Final = 4
WAITING_MAX: Final = 64  # of all clients
OF_ADDRESS_MAX: Final = 8  # of one of them
LOOK_AGAIN_MS: Final = 5_000
BUSY: Final = "too many logins of domain users wait for winbind"
LATE: Final = "winbind did not answer in time"
GUESSED: Final = "too many wrong passwords of this user from there: wait"


class DomainService(Protocol):
    """What verifies logins; `posthouse.runtime.winbind.Winbind` does. Every method may block."""

    def names(self) -> DomainNames:
        """What the domain calls this machine and itself; raises DomainAway."""
        ...

    def authenticate(self, question: DomainQuestion) -> DomainProof:
        """Raises DomainRefused, DomainAway."""
        ...

    def close(self) -> None:
        """Ends the connection."""
        ...


class _Asked:
    """A question on its way; answered once, on the loop."""

    __slots__ = ("address", "answered", "late", "loop", "question")

    def __init__(
        self, question: DomainQuestion, address: str, answered: Answered, limit_s: float
    ) -> None:
        self.question = question
        self.address = address
        self.answered: Answered | None = answered
        self.loop = asyncio.get_running_loop()
        self.late = self.loop.time() + limit_s


class WinbindLogins:
    """The questions of all connections; used by one event loop."""

    def __init__(self, make: Callable[[], DomainService], limit_ms: int) -> None:
        self.names: DomainNames | None = None  # as soon as winbind has answered
        self.trouble = "winbind has not been asked yet"  # the last; empty where there is none
        self.asked = self.refused = self.away = 0
        self._make = make
        self._limit_s = limit_ms / 1000
        self._guard = LoginGuard()
        self._pending: Counter[str] = Counter()  # by address
        self._queue: SimpleQueue[_Asked | None] = SimpleQueue()
        self._threads = 0
        self._looked_ms = _now_ms()
        self._is_closed = False

    @property
    def waiting(self) -> int:
        """Questions that are not answered."""
        return self._pending.total()

    def start(self) -> None:
        """Asks for the names, so that the first client is given the right ones."""
        self._queue.put(None)
        self._add_thread()

    def look_at_trouble(self) -> str:
        """Why users of the domain cannot log in; where that is old, winbind is asked again."""
        now_ms = _now_ms()
        if self.trouble and now_ms - self._looked_ms > LOOK_AGAIN_MS:
            self._looked_ms = now_ms
            self._queue.put(None)
        return self.trouble

    def close(self) -> None:
        """The threads end when they have nothing to do."""
        self._is_closed = True
        for _ in range(self._threads):
            self._queue.put(None)

    def ask(self, question: DomainQuestion, address: str, answered: Answered) -> None:
        """Has a login verified; `answered` is called in a later turn of the loop."""
        self.asked += 1
        address = network_of(address)
        asked = _Asked(question, address, answered, self._limit_s)
        reason = self._objection(question, address)
        self._pending[address] += 1
        if reason:
            asked.loop.call_soon(self._answer, asked, DomainVerdict(None, reason))
            return
        asked.loop.call_at(asked.late, self._answer, asked, DomainVerdict(None, LATE))
        self._queue.put(asked)
        if self._threads < min(THREADS_MAX, self.waiting):
            self._add_thread()

    def _objection(self, question: DomainQuestion, address: str) -> str:
        if self.waiting >= WAITING_MAX or self._pending[address] >= OF_ADDRESS_MAX:
            return BUSY
        return GUESSED if self._guard.wait_ms(_name(question), address, _now_ms()) else ""

    def _answer(self, asked: _Asked, verdict: DomainVerdict, *, guessed: bool = False) -> None:
        """On the loop; of two answers the first counts."""
        answered, asked.answered = asked.answered, None
        if answered is None:
            return
        self._pending[asked.address] -= 1
        if not self._pending[asked.address]:
            del self._pending[asked.address]
        if guessed:
            self._guard.failed(_name(asked.question), asked.address, _now_ms())
            self.refused += 1
        elif verdict.proof is not None:
            self._guard.succeeded(_name(asked.question), asked.address)
        else:
            self.away += 1
        answered(verdict)

    # -- in threads

    def _add_thread(self) -> None:
        self._threads += 1
        Thread(target=self._run, name="posthouse-winbind", daemon=True).start()

    def _run(self) -> None:
        service: DomainService | None = None
        while not self._is_closed:
            asked = self._queue.get()
            if self._is_closed:
                break
            try:
                service = service or self._make()
                if self.names is None or asked is None:
                    self.names = service.names()
                verdict, guessed = self._verdict(service, asked)
            except DomainAway as error:
                _close(service)
                service = None  # a new connection next time
                self.trouble = str(error)
                verdict, guessed = DomainVerdict(None, self.trouble), False
            else:
                self.trouble = ""
            if asked is not None:
                with suppress(RuntimeError):  # the loop may be gone
                    asked.loop.call_soon_threadsafe(self._finish, asked, verdict, guessed)
        _close(service)

    def _finish(self, asked: _Asked, verdict: DomainVerdict, guessed: bool) -> None:
        self._answer(asked, verdict, guessed=guessed)

    def _verdict(self, service: DomainService, asked: _Asked | None) -> tuple[DomainVerdict, bool]:
        """What winbind states, and whether a wrong password was tried."""
        if asked is None or asked.answered is None:  # the time is over
            return DomainVerdict(None, LATE), False
        try:
            proof = service.authenticate(asked.question)
        except DomainRefused as error:
            return DomainVerdict(None, str(error)), True
        own = "" if self.names is None else self.names.domain
        if proof.user.domain.casefold() != own.casefold():
            reason = f"a user of the domain {proof.user.domain}, and this machine is in {own}"
            return DomainVerdict(None, reason), False
        return DomainVerdict(proof), False


def _close(service: DomainService | None) -> None:
    if service is not None:
        service.close()


def _name(question: DomainQuestion) -> str:
    """Under which name failures count: one, however the domain is spelled, if it is at all."""
    return question.user.partition("@")[0]


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
