"""Winbind is asked in threads: how long that may take, how many may ask at a time.

Winbind is an outside program; what stands for it here answers when a test says so. The real one is
asked in tests/process/test_domain_users.py.
"""

from __future__ import annotations

import threading
from queue import SimpleQueue

import pytest

from posthouse.rpc.domain_logins import (
    DomainAway,
    DomainNames,
    DomainProof,
    DomainQuestion,
    DomainRefused,
    DomainVerdict,
)
from posthouse.rpc.pac import DomainUser
from posthouse.runtime import winbind_logins
from posthouse.runtime.winbind_logins import (
    BUSY,
    GUESSED,
    LATE,
    OF_ADDRESS_MAX,
    THREADS_MAX,
    WAITING_MAX,
    WinbindLogins,
)
from posthouse.security.sids import make_sid
from tests.support.loop_server import on_loop, until

ALICE = DomainUser("alice", "CORP", make_sid(5, 21, 1, 2, 3, 1102), (make_sid(5, 21, 1, 2, 3, 9),))
NAMES_THERE = DomainNames("ALPHA", "CORP", "corp.example")
KEY = b"k" * 16


def question(user: str = "alice") -> DomainQuestion:
    return DomainQuestion(user, "CORP", "", bytes(8), b"response")


class Outside:
    """A service whose answers a test gives; each thread has one."""

    def __init__(self) -> None:
        self.answers: SimpleQueue[DomainProof | Exception] = SimpleQueue()
        self.asked: list[str] = []
        self.open = 0
        self.away: Exception | None = None

    def make(self) -> Outside:
        self.open += 1
        return self

    def names(self) -> DomainNames:
        if self.away is not None:
            raise self.away
        return NAMES_THERE

    def authenticate(self, question: DomainQuestion) -> DomainProof:
        self.asked.append(question.user)
        answer = self.answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        self.open -= 1


class Desk:
    """Logins over such a service."""

    def __init__(self, limit_ms: int = 60_000) -> None:
        self.outside = Outside()
        self.logins = WinbindLogins(self.outside.make, limit_ms)
        self.verdicts: list[DomainVerdict] = []
        self.threads = threading.active_count()

    def ask(self, user: str = "alice", address: str = "192.0.2.7") -> None:
        self.logins.ask(question(user), address, self.verdicts.append)

    async def told(self, count: int) -> list[str]:
        await until(lambda: len(self.verdicts) >= count)
        return [verdict.reason for verdict in self.verdicts]

    def let_go(self) -> None:
        self.logins.close()
        for _ in range(WAITING_MAX):
            self.outside.answers.put(DomainAway("over"))


@on_loop
async def test_a_proof_a_refusal_and_a_service_that_is_away() -> None:
    desk = Desk()
    answers = (DomainProof(ALICE, KEY), DomainRefused("wrong"), DomainAway("no winbind"))
    for count, answer in enumerate(answers, 1):
        desk.outside.answers.put(answer)
        desk.ask(f"user{count}")
        await desk.told(count)
    assert [verdict.reason for verdict in desk.verdicts] == ["", "wrong", "no winbind"]
    assert desk.verdicts[0].proof == DomainProof(ALICE, KEY)
    assert desk.logins.names == NAMES_THERE
    assert desk.logins.trouble == "no winbind"
    assert (desk.logins.asked, desk.logins.refused, desk.logins.away) == (3, 1, 1)
    assert desk.logins.waiting == 0
    desk.let_go()


@on_loop
async def test_users_of_other_domains_are_refused() -> None:
    desk = Desk()
    desk.outside.answers.put(DomainProof(ALICE._replace(domain="OTHER"), KEY))
    desk.ask()
    (reason,) = await desk.told(1)
    assert "OTHER" in reason
    assert "CORP" in reason
    assert desk.verdicts[0].proof is None
    desk.let_go()


@on_loop
async def test_an_answer_that_comes_too_late_is_none() -> None:
    desk = Desk(limit_ms=100)
    desk.ask()
    assert await desk.told(1) == [LATE]
    desk.outside.answers.put(DomainProof(ALICE, KEY))
    desk.outside.answers.put(DomainProof(ALICE, KEY))
    desk.ask()
    await desk.told(2)
    assert len(desk.verdicts) == 2
    assert desk.logins.waiting == 0
    desk.let_go()


@on_loop
async def test_threads_and_questions_are_bounded() -> None:
    desk = Desk()
    for number in range(OF_ADDRESS_MAX + 3):
        desk.ask(f"user{number}")
    assert await desk.told(3) == [BUSY] * 3
    for number in range(WAITING_MAX):
        desk.ask(f"other{number}", f"198.51.100.{number}")
    refused = OF_ADDRESS_MAX + 3
    assert (await desk.told(3 + OF_ADDRESS_MAX))[:refused] == [BUSY] * refused
    assert desk.logins.waiting == WAITING_MAX
    await until(lambda: len(desk.outside.asked) == THREADS_MAX)
    assert threading.active_count() - desk.threads <= THREADS_MAX
    for _ in range(WAITING_MAX):
        desk.outside.answers.put(DomainProof(ALICE, KEY))
    await desk.told(refused + WAITING_MAX)
    assert desk.logins.waiting == 0
    desk.let_go()


@on_loop
async def test_who_guesses_has_to_wait_and_the_domain_is_not_asked() -> None:
    desk = Desk()
    reasons: list[str] = []
    for count in range(1, 12):
        desk.outside.answers.put(DomainRefused("wrong"))
        desk.ask("alice")
        reasons = await desk.told(count)
        if reasons[-1] == GUESSED:
            break
    assert reasons[-1] == GUESSED
    asked = len(desk.outside.asked)
    desk.ask("ALICE")
    assert (await desk.told(len(reasons) + 1))[-1] == GUESSED
    assert len(desk.outside.asked) == asked
    desk.let_go()


@on_loop
async def test_other_spellings_and_addresses_do_not_go_around_the_wait() -> None:
    """A domain has several names, and a client of IPv6 has 2^64 addresses."""
    desk = Desk()
    for number in range(12):
        asked = question("alice@corp.example" if number % 2 else "alice")
        asked = asked._replace(domain=("CORP", "corp.example", "")[number % 3])
        desk.outside.answers.put(DomainRefused("wrong"))
        desk.logins.ask(asked, f"2001:db8::{number + 1:x}", desk.verdicts.append)
        await desk.told(number + 1)
    assert desk.verdicts[-1].reason == GUESSED
    assert len(desk.outside.asked) < 12
    desk.let_go()


@on_loop
async def test_trouble_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()
    desk.outside.away = DomainAway("no winbind")
    desk.logins.start()
    await until(lambda: desk.logins.trouble == "no winbind")
    assert desk.logins.names is None
    desk.outside.away = None
    monkeypatch.setattr(winbind_logins, "LOOK_AGAIN_MS", -1)
    assert desk.logins.look_at_trouble() == "no winbind"
    await until(lambda: not desk.logins.trouble)
    assert desk.logins.names == NAMES_THERE
    desk.let_go()
