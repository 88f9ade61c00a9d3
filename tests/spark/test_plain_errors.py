"""Errors of workers in one line, and workers that print nothing when Spark has seen enough."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator

import pytest

from posthouse.model.errors import InvalidParameter, QueueNotFound
from posthouse.spark.endpoint import token_of
from posthouse.spark.plain_errors import HIDDEN, plain_errors
from posthouse.spark.quiet_daemon import CLOSED, Quiet, quiet

NOISE = (
    "PySpark daemon failed to flush the output to the worker process:\nTraceback (most recent call "
    "last):\nBrokenPipeError: [Errno 32] Broken pipe\n"
)


@plain_errors("whole", "rows")
class Reader:
    def whole(self, error: Exception | None) -> int:
        if error is not None:
            raise error
        return 1

    def rows(self, error: Exception | None) -> Iterator[int]:
        yield 1
        if error is not None:
            raise error


@pytest.fixture
def hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HIDDEN, "")


@pytest.mark.usefixtures("hidden")
def test_a_refusal_comes_without_a_trace() -> None:
    assert (Reader().whole(None), list(Reader().rows(None))) == (1, [1])
    assert os.environ[HIDDEN] == ""
    with pytest.raises(QueueNotFound):
        Reader().whole(QueueNotFound("x"))
    assert os.environ[HIDDEN] == "1"


@pytest.mark.usefixtures("hidden")
def test_a_refusal_between_rows_does_too() -> None:
    rows = Reader().rows(QueueNotFound("x"))
    assert next(rows) == 1
    with pytest.raises(QueueNotFound):
        next(rows)
    assert os.environ[HIDDEN] == "1"


@pytest.mark.usefixtures("hidden")
def test_a_mistake_of_the_program_keeps_its_trace() -> None:
    with pytest.raises(ZeroDivisionError):
        Reader().whole(ZeroDivisionError())
    assert os.environ[HIDDEN] == ""


def test_a_worker_is_quiet_about_a_closed_connection_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import sys

    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)

    def work(words: str) -> int:
        print(words, file=sys.stderr)
        print(NOISE, file=sys.stderr)
        print("after", file=sys.stderr)
        return 7

    assert quiet(work)("before") == 7
    assert out.getvalue() == "before\nafter\n"
    assert sys.stderr is out
    assert Quiet(out).write("failed to flush the output: disk full") > 0
    assert "disk full" in out.getvalue()


def test_a_worker_whose_connection_is_closed_ends_without_a_word() -> None:
    def broken(error: Exception) -> int:
        raise error

    assert quiet(broken)(BrokenPipeError()) == quiet(broken)(ConnectionResetError()) == CLOSED
    with pytest.raises(OSError, match="disk"):
        quiet(broken)(OSError("disk"))


def test_a_token_comes_from_the_environment_or_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "pht_x\n")
    assert token_of("env:SHOP_TOKEN") == ("pht_x", None)
    assert token_of("/run/secrets/token") == (None, "/run/secrets/token")
    assert token_of(None) == (None, None)
    monkeypatch.delenv("SHOP_TOKEN")
    with pytest.raises(InvalidParameter, match="the variable SHOP_TOKEN"):
        token_of("env:SHOP_TOKEN")
