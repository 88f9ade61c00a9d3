"""Errors of workers in one line, and workers that print nothing when Spark has seen enough."""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Iterator
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

import pytest

import pyspark_posthouse
from posthouse.model.errors import InvalidParameter, QueueNotFound
from posthouse.spark.endpoint import token_of
from posthouse.spark.plain_errors import HIDDEN, plain_errors
from posthouse.spark.quiet_daemon import CLOSED, STREAM_PLANNER, Quiet, quiet, quiet_planning

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


class Ended:
    """A connection that fails when the rest of a plan is to go out."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def flush(self) -> None:
        raise self._error


def ended(error: Exception, out: io.StringIO) -> str:
    """What a worker of PySpark's daemon prints when its connection fails so, and what comes next.

    Its own flush is in the trace; that of this class, as one in C, is not.
    """
    outfile, own = Ended(error), sys.stderr
    sys.stderr = Quiet(out)
    try:
        outfile.flush()
    except OSError:
        traceback.print_exc()
        print("and on", file=sys.stderr)
    finally:
        sys.stderr = own
    return out.getvalue()


def test_a_plan_whose_end_spark_does_not_wait_for_prints_nothing() -> None:
    assert ended(BrokenPipeError(32, "Broken pipe"), io.StringIO()) == "and on\n"


def test_any_other_trace_is_printed_whole() -> None:
    found = ended(OSError(28, "No space left on device"), io.StringIO())
    assert found.startswith("Traceback (most recent call last):\n  File")
    assert found.endswith("OSError: [Errno 28] No space left on device\nand on\n")
    out = io.StringIO()
    kept = Quiet(out)
    for line in ("Traceback (most recent call last):\n", "  in a task\n", "BrokenPipeError: x\n"):
        kept.write(line)
    assert "in a task" in out.getvalue()


def test_only_workers_of_the_daemon_of_pyspark_are_made_quiet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = sys.stderr
    monkeypatch.setattr(sys, "stderr", own)
    quiet_planning()
    assert sys.stderr is own
    main = ModuleType("__main__")
    main.__spec__ = ModuleSpec("pyspark.daemon", None)
    monkeypatch.setitem(sys.modules, "__main__", main)
    quiet_planning()
    assert isinstance(sys.stderr, Quiet)
    once = sys.stderr
    quiet_planning()
    assert sys.stderr is once


def test_the_planner_of_a_stream_that_was_stopped_ends_without_a_trace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Spark closes its connection; whatever else ends that process is shown."""
    own = sys.excepthook
    monkeypatch.setattr(sys, "excepthook", own)
    quiet_planning()
    assert sys.excepthook is own
    main = ModuleType("__main__")
    main.__spec__ = ModuleSpec(STREAM_PLANNER, None)
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert find_spec(STREAM_PLANNER) is not None, "PySpark has another name for it now"
    quiet_planning()
    sys.excepthook(BrokenPipeError, BrokenPipeError(32, "Broken pipe"), None)
    assert capsys.readouterr().err == ""
    sys.excepthook(ValueError, ValueError("a fault"), None)
    assert "ValueError: a fault" in capsys.readouterr().err


def test_a_worker_that_only_looks_for_sources_is_quiet_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's first look imports the source and makes none."""
    monkeypatch.setattr(sys, "stderr", sys.stderr)
    main = ModuleType("__main__")
    main.__spec__ = ModuleSpec("pyspark.daemon", None)
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.delitem(sys.modules, "posthouse.spark.source", raising=False)
    assert pyspark_posthouse.DefaultSource.__name__ == "PosthouseSource"
    assert isinstance(sys.stderr, Quiet)
    monkeypatch.setattr(sys, "stderr", sys.__stderr__)
    monkeypatch.delitem(sys.modules, "posthouse.spark.lakes.source", raising=False)
    import_module("posthouse.spark.lakes.source")
    assert isinstance(sys.stderr, Quiet)
