"""Parts of transactions at remote readers, without any."""

from __future__ import annotations

import pytest

from posthouse.client.errors import ServerUnreachable, TransactionAborted
from posthouse.client.remote import transaction_parts as remote_parts
from posthouse.client.remote.transaction_parts import RemoteParts, wait_in_slices
from posthouse.model.errors import IoTimeout


class Reader:
    generation = 1


def test_a_reader_is_enlisted_once() -> None:
    parts, reader, said = RemoteParts(), Reader(), list[tuple[bytes, bytes]]()
    assert not parts.is_begun(reader)
    parts.begin(reader, b"id", b"token", lambda *what: said.append(what))
    assert parts.is_begun(reader)
    assert not parts.is_begun(Reader())
    assert said == [(b"id", b"token")]


@pytest.mark.spec("MS-MQRR 3.2.4.2/1")
def test_a_part_ends_with_its_connection() -> None:
    parts, reader = RemoteParts(), Reader()
    parts.begin(reader, b"id", b"token", lambda *what: None)
    reader.generation = 2
    with pytest.raises(TransactionAborted, match="broke"):
        parts.is_begun(reader)


def test_a_part_that_may_have_begun_is_not_begun_again() -> None:
    parts, reader = RemoteParts(), Reader()

    def break_off(identifier: bytes, token: bytes) -> None:
        raise ServerUnreachable("the connection broke")

    with pytest.raises(ServerUnreachable):
        parts.begin(reader, b"id", b"token", break_off)
    with pytest.raises(TransactionAborted):
        parts.is_begun(reader)


class Clock:
    """Time passes where something waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, comes_at: float) -> None:
        self.now, self.comes_at = 100.0, 100.0 + comes_at
        self.kept: list[float] = []
        monkeypatch.setattr(remote_parts.time, "monotonic", lambda: self.now)

    def read(self, timeout: float) -> str:
        assert timeout <= remote_parts.SLICE_S
        if self.now + timeout >= self.comes_at:
            self.now = max(self.now, self.comes_at)
            return "message"
        self.now += timeout
        raise IoTimeout("nothing")

    def keep(self) -> None:
        self.kept.append(self.now - 100)


def test_a_long_wait_keeps_its_transaction_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, comes_at=50)
    assert wait_in_slices(clock.read, None, clock.keep) == "message"
    assert clock.kept == [20, 40]


@pytest.mark.parametrize("timeout", [0, 5, 20, 45])
def test_a_wait_ends_in_time(monkeypatch: pytest.MonkeyPatch, timeout: float) -> None:
    clock = Clock(monkeypatch, comes_at=50)
    with pytest.raises(IoTimeout):
        wait_in_slices(clock.read, timeout, clock.keep)
    assert clock.now == 100 + timeout
