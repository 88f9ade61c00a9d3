"""PySpark's daemon for workers, without the noise of readers that have seen enough.

Spark closes the connection to a worker as soon as `limit` or `show` have their rows, and PySpark
prints the trace of the broken pipe. `session()` starts this module in the place of PySpark's own
where driver and executors are one process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, TextIO

MODULE: Final = "posthouse.spark.quiet_daemon"
CLOSED: Final = 1  # a code with which the daemon ends a worker
_NOISE: Final = "failed to flush the output"
_CLOSED: Final = ("BrokenPipeError", "ConnectionResetError")


class Quiet:
    """Standard error of a worker that leaves out what a closed connection prints."""

    def __init__(self, inner: TextIO) -> None:
        self._inner = inner
        self._dropped = False

    def write(self, text: str) -> int:
        """Writes, unless it is that noise, or the end of its line."""
        is_end = self._dropped and text == "\n"
        self._dropped = _NOISE in text and any(word in text for word in _CLOSED)
        return len(text) if self._dropped or is_end else self._inner.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def quiet(worker: Callable[..., Any]) -> Callable[..., Any]:
    """A worker of PySpark's with such a standard error; one whose connection is closed ends."""

    def run(*values: Any) -> Any:
        own = sys.stderr
        sys.stderr = Quiet(own)
        try:
            return worker(*values)
        except (BrokenPipeError, ConnectionResetError):
            return CLOSED
        finally:
            sys.stderr = own

    return run


if __name__ == "__main__":
    from pyspark import daemon

    daemon.worker = quiet(daemon.worker)
    daemon.manager()
