"""The newest lines of the event log, kept in memory to be shown: bounded in number and bytes."""

from __future__ import annotations

from collections import deque
from typing import Final

from posthouse.api.tails import LOG_LEVELS, LogLineJson

LINES_MAX: Final = 1_000
TEXT_MAX: Final = 4_000  # characters of one line
BYTES_MAX: Final = 1 << 20  # of all lines, at four bytes a character at most


class RecentLines:
    """Lines with numbers that only grow; the oldest go first."""

    def __init__(self) -> None:
        self._lines: deque[LogLineJson] = deque()
        self._size = 0
        self.newest = 0  # number of the last line, 0 before the first

    def add(self, time: str, level: str, event: str, text: str) -> None:
        """Keeps one line."""
        self.newest += 1
        if len(text) > TEXT_MAX:
            text = text[:TEXT_MAX] + "..."
        self._lines.append(LogLineJson(self.newest, time, level, event, text))
        self._size += len(text)
        while len(self._lines) > LINES_MAX or self._size > BYTES_MAX // 4:
            self._size -= len(self._lines.popleft().text)

    @property
    def oldest(self) -> int:
        """Number of the oldest line that is kept."""
        return self._lines[0].number if self._lines else self.newest + 1

    def after(self, number: int, level: str, limit: int) -> list[LogLineJson]:
        """Lines above a number, of a level or a more important one, the oldest first."""
        return self._chosen(number, level)[:limit]

    def last(self, level: str, limit: int) -> list[LogLineJson]:
        """The newest lines, the oldest of them first."""
        return self._chosen(0, level)[-limit:]

    def _chosen(self, number: int, level: str) -> list[LogLineJson]:
        levels = LOG_LEVELS[LOG_LEVELS.index(level) :]
        return [line for line in self._lines if line.number > number and line.level in levels]
