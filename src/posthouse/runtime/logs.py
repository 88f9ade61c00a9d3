"""The event log: one line for each event, as text or JSON.

A line is `time level name key=value ...` or one JSON object. Control characters, line separators
and everything that could steer a terminal or pretend to be another line are escaped. A log that
cannot be written is counted and never stops the queue manager. Events that repeat become one line
with their count (`log_repeats.py`).
"""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from posthouse.api.tails import LOG_LEVELS
from posthouse.protocols.handlers.recent_lines import RecentLines
from posthouse.runtime.log_repeats import PERIOD, Repeats, stamp

VALUE_LENGTH_MAX = 2000
FILE_MODE = 0o600
# Controls, invisible and direction-changing characters, lone surrogates, line separators.
_ESCAPED = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:/@+-$\\{}*()")

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The time that stands in front of a line."""
    return datetime.now(UTC)


def plain_value(value: object) -> str | int | float | bool | None:
    """A detail as a JSON value: bytes in hex, everything else as its text, none too long."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value.hex() if isinstance(value, bytes) else str(value)
    return text if len(text) <= VALUE_LENGTH_MAX else text[:VALUE_LENGTH_MAX] + "..."


def text_value(value: object) -> str:
    """A detail in a text line: bare where that is unmistakable, else quoted and escaped."""
    plain = plain_value(value)
    if not isinstance(plain, str):
        return json.dumps(plain)
    if plain and _PLAIN.issuperset(plain):
        return plain
    quoted = json.dumps(plain, ensure_ascii=False)
    return "".join(_escape(character) for character in quoted)


def _escape(character: str) -> str:
    if character.isascii() and character.isprintable():
        return character
    if unicodedata.category(character) not in _ESCAPED:
        return character
    return json.dumps(character)[1:-1] if character != "\x7f" else "\\u007f"


def text_line(moment: datetime, level: str, name: str, details: dict[str, object]) -> str:
    """`2026-11-15T12:00:00.000Z info started name=ALPHA`."""
    return " ".join([stamp(moment), level, text_value(name), *_words(details)])


def _words(details: dict[str, object]) -> list[str]:
    return [f"{text_value(key)}={text_value(value)}" for key, value in details.items()]


def json_line(moment: datetime, level: str, name: str, details: dict[str, object]) -> str:
    """An event as one JSON object, in ASCII."""
    line: dict[str, object] = {"time": stamp(moment), "level": level, "event": name}
    line |= {key: plain_value(value) for key, value in details.items() if key not in line}
    return json.dumps(line, allow_nan=True).replace("\x7f", "\\u007f")


class LogFile:
    """A file that is set aside when it has grown to its size: `name.1` is the youngest."""

    def __init__(self, path: Path, size_max: int, files_kept: int) -> None:
        self.path = path
        self.size_max = size_max
        self.files_kept = files_kept
        self._descriptor = -1
        self._size = 0
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.reopen()

    def reopen(self) -> None:
        """Goes on in the file that has the name now; somebody else may have moved the old one."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self.path, flags, FILE_MODE)
        self.close()
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size

    def write(self, line: str) -> None:
        """One line, in one write."""
        data = line.encode("utf-8", "backslashreplace") + b"\n"
        if self._size and self._size + len(data) > self.size_max:
            self._rotate()
        self._size += os.write(self._descriptor, data)

    def _rotate(self) -> None:
        if self.files_kept:
            for number in range(self.files_kept - 1, 0, -1):
                older = self._numbered(number)
                if older.exists():
                    older.replace(self._numbered(number + 1))
            self.path.replace(self._numbered(1))
        else:
            self.path.unlink(missing_ok=True)
        self.reopen()

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")

    def close(self) -> None:
        """Gives the descriptor back."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class LogStream:
    """Lines on standard error, where a service manager or a container collects them."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr

    def write(self, line: str) -> None:
        """One line."""
        self._stream.write(line + "\n")
        self._stream.flush()

    def reopen(self) -> None:
        """There is nothing to reopen."""

    def close(self) -> None:
        """The stream is not ours to close."""


class Log:
    """Takes events, leaves out those below its level, and writes the rest."""

    def __init__(
        self,
        target: LogFile | LogStream,
        *,
        level: str = "info",
        format: str = "text",
        repeats_max: int = 0,
        clock: Clock = utc_now,
    ) -> None:
        self.failures = 0
        self.recent = RecentLines()
        self.later: Callable[[float, Callable[[], None]], object] | None = None
        self._repeats = Repeats(repeats_max)
        self._counting = False  # a line with a count is due, and a timer is set for it
        self._target = target
        self._least = LOG_LEVELS.index(level)
        self._line = json_line if format == "json" else text_line
        self._clock = clock

    def debug(self, name: str, /, **details: object) -> None:
        """Logs a detail for debugging."""
        self._write("debug", name, details)

    def info(self, name: str, /, **details: object) -> None:
        """Something that happened as it should."""
        self._write("info", name, details)

    def warning(self, name: str, /, **details: object) -> None:
        """Something an operator may want to change."""
        self._write("warning", name, details)

    def error(self, name: str, /, **details: object) -> None:
        """Something that went wrong."""
        self._write("error", name, details)

    def _write(self, level: str, name: str, details: dict[str, object]) -> None:
        if LOG_LEVELS.index(level) < self._least:
            return
        now = self._clock()
        self._write_counts(now)
        if self._repeats.passes(now, level, name, details):
            self._put(now, level, name, details)
        elif not self._counting:
            self._count_later()

    def _write_counts(self, now: datetime, *, all_of_them: bool = False) -> None:
        for level, name, details in self._repeats.ended(now, all_of_them=all_of_them):
            self._put(now, level, name, details)

    def _count_later(self) -> None:
        if self.later is not None:
            self._counting = True
            self.later(PERIOD.total_seconds(), self._count_due)

    def _count_due(self) -> None:
        self._counting = False
        self._write_counts(self._clock())
        if self._repeats.any_left_out:
            self._count_later()

    def _put(self, now: datetime, level: str, name: str, details: dict[str, object]) -> None:
        words = " ".join(_words(details))
        self.recent.add(stamp(now), level, text_value(name), words)
        try:
            self._target.write(self._line(now, level, name, details))
        except OSError:
            self.failures += 1

    def reopen(self) -> None:
        """After somebody else moved the file away (SIGHUP)."""
        try:
            self._target.reopen()
        except OSError:
            self.failures += 1

    def close(self) -> None:
        """What was left out is counted in the last lines."""
        self._write_counts(self._clock(), all_of_them=True)
        self._target.close()


def place_of(error: BaseException) -> str:
    """File and line where an exception was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return ""
    return f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
