"""The log: one line for each event, and nothing in it that steers a terminal."""

from __future__ import annotations

import contextlib
import io
import json
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.runtime.log_repeats import KINDS_MAX, stamp
from posthouse.runtime.logs import VALUE_LENGTH_MAX, Log, LogFile, LogStream, json_line, text_line

MOMENT = datetime(2026, 11, 15, 12, 0, 0, 5000, UTC)
HOSTILE = 'a\nb\x1b[2J\u202e\u2028"\x7f\ud800 c='


def log_to(stream: io.StringIO, **options: str) -> Log:
    return Log(LogStream(stream), clock=lambda: MOMENT, **options)


def test_a_text_line_has_time_level_name_and_details() -> None:
    stream = io.StringIO()
    log_to(stream).info("started", name="ALPHA", pid=1, label="two words", key=b"\x01\xff", no=None)
    assert stream.getvalue() == (
        "2026-11-15T12:00:00.005Z info started"
        ' name=ALPHA pid=1 label="two words" key=01ff no=null\n'
    )


def test_a_json_line_is_one_object() -> None:
    stream = io.StringIO()
    log_to(stream, format="json").error("failed", cause=ValueError("x"), level="mine", count=2)
    assert json.loads(stream.getvalue()) == {
        "time": "2026-11-15T12:00:00.005Z",
        "level": "error",
        "event": "failed",
        "cause": "x",
        "count": 2,
    }


def test_the_newest_lines_are_kept_to_be_shown() -> None:
    log = log_to(io.StringIO(), format="json")
    log.debug("below the level")
    log.warning("full", name="ALPHA", label=HOSTILE)
    (line,) = log.recent.after(0, "debug", 10)
    assert (line.time, line.level, line.event) == ("2026-11-15T12:00:00.005Z", "warning", "full")
    assert line.text == text_line(MOMENT, "warning", "full", {"name": "ALPHA", "label": HOSTILE})[
        len("2026-11-15T12:00:00.005Z warning full ") :
    ]  # fmt: skip


def test_events_below_the_level_are_left_out() -> None:
    stream = io.StringIO()
    log = log_to(stream, level="warning")
    log.debug("one")
    log.info("two")
    log.warning("three")
    log.error("four")
    assert [line.split()[2] for line in stream.getvalue().splitlines()] == ["three", "four"]


@pytest.mark.parametrize("line", [text_line, json_line])
def test_hostile_text_is_escaped(line: object) -> None:
    shown = line(MOMENT, "info", "event", {"label": HOSTILE})  # type: ignore[operator]
    assert shown.isprintable()
    assert "\\u001b[2J" in shown
    assert "\\u202e" in shown


DANGEROUS = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@given(st.text(), st.text(), st.one_of(st.text(), st.binary(), st.integers(), st.floats()))
def test_any_event_is_one_line_without_dangerous_characters(
    name: str, key: str, value: object
) -> None:
    for line in (text_line, json_line):
        shown = line(MOMENT, "info", name, {key: value})
        assert not DANGEROUS & {unicodedata.category(character) for character in shown}
        assert len(shown.splitlines()) == 1


@given(st.text(), st.text())
def test_a_value_cannot_pretend_to_be_another(first: str, second: str) -> None:
    """However strange, it reads back as itself: quoted values are JSON."""
    shown = text_line(MOMENT, "info", "e", {"a": first, "b": second}).split(" ", 3)[3]
    rest = shown.removeprefix("a=")
    if rest.startswith('"'):
        value, end = json.JSONDecoder(strict=True).raw_decode(rest)
    else:
        value, end = rest.partition(" ")[0], rest.index(" ")
    cut = first if len(first) <= VALUE_LENGTH_MAX else first[:VALUE_LENGTH_MAX] + "..."
    assert value == cut
    assert rest[end:].startswith(" b=")


def test_a_long_value_is_cut() -> None:
    assert len(text_line(MOMENT, "info", "e", {"a": "x" * 100_000})) < VALUE_LENGTH_MAX + 100


def test_a_full_file_is_set_aside_and_the_oldest_goes(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "posthouse.log"
    file = LogFile(path, size_max=20, files_kept=2)
    for number in range(5):
        file.write(f"line {number} 0123456789")
    file.close()
    assert path.read_text() == "line 4 0123456789\n"
    assert (tmp_path / "logs" / "posthouse.log.1").read_text() == "line 3 0123456789\n"
    assert (tmp_path / "logs" / "posthouse.log.2").read_text() == "line 2 0123456789\n"
    assert len(list(path.parent.iterdir())) == 3
    assert path.stat().st_mode & 0o777 == 0o600


def test_without_old_files_the_log_begins_anew(tmp_path: Path) -> None:
    file = LogFile(tmp_path / "log", size_max=20, files_kept=0)
    file.write("a" * 19)
    file.write("b")
    file.close()
    assert (tmp_path / "log").read_text() == "b\n"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_log_goes_on_where_it_was_and_counts_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("a" * 19 + "\n")
    file = LogFile(tmp_path / "log", size_max=21, files_kept=1)
    file.write("bb")
    file.close()
    assert (tmp_path / "log").read_text() == "bb\n"


def test_a_log_that_was_moved_away_is_reopened(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = Log(LogFile(path, 1000, 1), clock=lambda: MOMENT)
    log.info("one")
    path.rename(tmp_path / "moved")
    log.info("two")
    log.reopen()
    log.info("three")
    log.close()
    assert [line.split()[2] for line in (tmp_path / "moved").read_text().splitlines()] == [
        "one",
        "two",
    ]
    assert path.read_text().split()[2] == "three"


def test_a_log_that_cannot_be_written_is_counted_and_stops_nobody(tmp_path: Path) -> None:
    with contextlib.suppress(OSError), open("/dev/full", "w") as full:
        log = Log(LogStream(full), clock=lambda: MOMENT)
        log.info("there is no room for this")
    assert log.failures == 1
    log = Log(LogFile(tmp_path / "log", 1000, 1), clock=lambda: MOMENT)
    (tmp_path / "log").unlink()
    (tmp_path / "log").symlink_to(tmp_path / "elsewhere")
    log.reopen()
    assert log.failures == 1
    log.info("still the old file")
    log.close()
    assert not (tmp_path / "elsewhere").exists()


# -- events that repeat


class Watch:
    """A clock and a timer by hand."""

    def __init__(self) -> None:
        self.now = MOMENT
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def __call__(self) -> datetime:
        return self.now

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self.timers.append((seconds, call))

    def forward(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        due, self.timers = self.timers, []
        for _, call in due:
            call()


def counted(most: int = 3, **options: Any) -> tuple[Log, Watch, io.StringIO]:
    stream, watch = io.StringIO(), Watch()
    log = Log(LogStream(stream), clock=watch, repeats_max=most, **options)
    log.later = watch.later
    return log, watch, stream


def test_events_that_repeat_become_one_line_with_their_count() -> None:
    log, watch, stream = counted()
    for number in range(1000):
        log.info("session_opened", address="10.6.6.6", peer=number)
        watch.now += timedelta(milliseconds=1)
    assert stream.getvalue().count("\n") == 3
    assert [seconds for seconds, _ in watch.timers] == [10.0]
    watch.forward(10)
    (line,) = stream.getvalue().splitlines()[3:]
    first, last = (stamp(MOMENT + timedelta(milliseconds=each)) for each in (3, 999))
    assert line == (
        f"{stamp(watch.now)} info session_opened repeated=997 first={first} last={last}"
        " address=10.6.6.6 peer=999"
    )
    log.info("session_opened", address="10.6.6.6", peer=1)  # a new period
    assert stream.getvalue().endswith("session_opened address=10.6.6.6 peer=1\n")
    watch.forward(20)
    assert stream.getvalue().count("\n") == 5


def test_what_goes_on_repeating_is_counted_in_each_period() -> None:
    log, watch, stream = counted()
    for _ in range(5):
        for _ in range(10):
            log.info("session_opened", address="10.6.6.6")
        watch.forward(10)
    assert stream.getvalue().count("repeated=7") == 5
    assert stream.getvalue().count("\n") == 20


def test_other_names_and_addresses_are_not_held_back() -> None:
    log, _, stream = counted()
    for _ in range(10):
        log.warning("session_opened", address="10.6.6.6")
    log.info("session_opened", address="10.7.7.7")
    log.error("failed", cause="disk")
    assert stream.getvalue().count("\n") == 5


def test_what_a_user_did_is_always_written() -> None:
    log, _, stream = counted()
    for number in range(50):
        log.info("queue_created", queue=number, by="ada")
    assert stream.getvalue().count("\n") == 50


def test_the_end_of_the_log_counts_what_was_left_out() -> None:
    log, _, stream = counted(format="json")
    for _ in range(10):
        log.info("peer_not_reached", to="a")
    log.close()
    last = json.loads(stream.getvalue().splitlines()[-1])
    assert (last["event"], last["repeated"], last["level"]) == ("peer_not_reached", 7, "info")


def test_addresses_that_are_made_up_count_together() -> None:
    log, _, stream = counted()
    for number in range(KINDS_MAX + 500):
        log.info("session_opened", address=f"10.{number >> 8}.{number & 255}.1")
    assert stream.getvalue().count("\n") == KINDS_MAX + 3


def test_a_clock_that_is_set_back_ends_the_period() -> None:
    log, watch, stream = counted()
    for _ in range(5):
        log.info("tick")
    watch.now -= timedelta(hours=1)
    log.info("tick")
    assert stream.getvalue().count("repeated=2") == 1
