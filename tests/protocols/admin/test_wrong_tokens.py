"""Guesses of tokens are logged and slowed by address; a right token is served at once (F17)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from posthouse.protocols.handlers.refusals import TooManyTokens
from posthouse.protocols.http import wrong_tokens
from posthouse.protocols.http.wrong_tokens import FREE, SPACING_MS, WAIT_MAX_MS, WrongTokens
from tests.protocols.admin.api_rig import ApiRig, with_api

STATUS = "/api/v1/status"
WRONG = f"pht_{'00' * 8}_{'11' * 32}"


class Guessing:
    """A clock by hand, and what the log is told."""

    def __init__(self) -> None:
        self.now = 0
        self.told: list[tuple[str, str, str]] = []
        self.wrong = WrongTokens(lambda *told: self.told.append(told), lambda: self.now)

    def pauses(self, count: int, address: str = "192.0.2.7") -> list[int]:
        return [self.wrong.pause_ms(address) for _ in range(count)]


def test_the_first_are_answered_at_once_and_further_ones_later_and_later() -> None:
    guessing = Guessing()
    assert guessing.pauses(FREE) == [0] * FREE
    assert guessing.pauses(3) == [SPACING_MS, 2 * SPACING_MS, 3 * SPACING_MS]
    assert guessing.told == [("", "192.0.2.7", "wrong token")] * (FREE + 3)
    assert guessing.pauses(1, "192.0.2.8") == [0]
    guessing.now += 3 * SPACING_MS
    assert guessing.pauses(1) == [SPACING_MS]


def test_where_too_many_wait_the_connection_is_closed_and_nothing_is_logged() -> None:
    guessing = Guessing()
    waiting = FREE + WAIT_MAX_MS // SPACING_MS
    guessing.pauses(waiting)
    for _ in range(1000):
        with pytest.raises(TooManyTokens):
            guessing.pauses(1)
    assert len(guessing.told) == waiting
    guessing.now += SPACING_MS
    assert guessing.pauses(1) == [WAIT_MAX_MS]
    guessing.now += WAIT_MAX_MS + wrong_tokens.FORGOTTEN_MS
    assert guessing.pauses(1) == [0]


def test_all_addresses_of_one_network_of_ipv6_count_together() -> None:
    guessing = Guessing()
    pauses = [guessing.pauses(1, f"2001:db8::{at:x}")[0] for at in range(FREE + 1)]
    assert pauses[-1] == SPACING_MS


def test_a_right_token_is_served_while_guesses_of_its_address_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wrong_tokens, "FREE", 2)
    monkeypatch.setattr(wrong_tokens, "SPACING_MS", 600_000)
    monkeypatch.setattr(wrong_tokens, "WAIT_MAX_MS", 600_000)

    async def work(rig: ApiRig) -> None:
        assert [(await rig.get(STATUS, token=WRONG)).status for _ in range(2)] == [401] * 2
        waits = asyncio.create_task(rig.get(STATUS, token=WRONG))
        assert (await rig.get(STATUS)).status == 200
        too_many = await rig.get(STATUS, token=WRONG)
        assert (too_many.status, too_many.headers["Connection"]) == (429, "close")
        assert (await rig.get(STATUS, token=None)).status == 401  # none was shown: no guess
        assert (await rig.get(STATUS)).status == 200
        assert not waits.done()
        waits.cancel()

    with_api(tmp_path, work)


def test_guesses_by_sessions_count_and_wait_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wrong_tokens, "FREE", 1)
    monkeypatch.setattr(wrong_tokens, "SPACING_MS", 10)
    monkeypatch.setattr(wrong_tokens, "WAIT_MAX_MS", 10)

    async def work(rig: ApiRig) -> None:
        told: list[tuple[str, str, str]] = []
        now = [0]
        rig.admin.wrong_tokens = WrongTokens(lambda *one: told.append(one), lambda: now[0])
        head = (
            "GET /api/v1/session HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
            f"Upgrade: posthouse/1\r\nAuthorization: Bearer {WRONG}\r\n\r\n"
        ).encode()
        answers = [(await rig.raw(head)).split(b"\r\n")[0] for _ in range(3)]
        assert [line.split()[1] for line in answers] == [b"401", b"401", b"429"]
        assert told == [("", "127.0.0.1", "wrong token")] * 2

    with_api(tmp_path, work)
