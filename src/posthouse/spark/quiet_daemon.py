"""PySpark's worker daemon, without the error output of readers that stop early.

Spark closes the connection to a worker as soon as `limit` or `show` have their rows, and PySpark
prints the trace of the broken pipe. `session()` starts this module in the place of PySpark's own
where driver and executors are one process. Planning has a daemon of PySpark's own, which no setting
replaces: Spark does not wait for the last bytes of a plan either, so sources call `quiet_planning`.
The process in which a stream is planned ends when the stream is stopped, with the trace of the
connection that was closed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, TextIO

MODULE: Final = "posthouse.spark.quiet_daemon"
STREAM_PLANNER: Final = "pyspark.sql.streaming.python_streaming_source_runner"
CLOSED: Final = 1  # a code with which the daemon ends a worker
_NOISE: Final = "failed to flush the output"
_TRACE: Final = "Traceback (most recent call last):"
_FLUSHED: Final = "outfile.flush()"  # in the daemon, after the work
_CLOSED: Final = ("BrokenPipeError", "ConnectionResetError")


class Quiet:
    """Standard error of a worker that leaves out what a closed connection prints.

    That is one text of a worker that goes on, and the trace, line by line, of one that ends.
    """

    def __init__(self, inner: TextIO) -> None:
        self._inner = inner
        self._dropped = False
        self._trace: list[str] = []  # begun, and its last line has not come

    def write(self, text: str) -> int:
        """Writes, unless it is that noise, or the end of its line."""
        if text.startswith(_TRACE) or self._trace:
            return self._write_trace(text)
        is_end = self._dropped and text == "\n"
        self._dropped = _NOISE in text and any(word in text for word in _CLOSED)
        return len(text) if self._dropped or is_end else self._inner.write(text)

    def _write_trace(self, text: str) -> int:
        self._trace.append(text)
        if text and len(self._trace) > 1 and not text.startswith(" "):  # print() adds an empty text
            whole, self._trace = "".join(self._trace), []
            if not (text.startswith(_CLOSED) and _FLUSHED in whole):
                self._inner.write(whole)
        return len(text)

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


def quiet_planning() -> None:
    """Gives a worker of PySpark's own daemon such a standard error, and the planner of a stream an
    end without a trace; nothing elsewhere."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    if main is None:
        return
    if main.name == "pyspark.daemon" and not isinstance(sys.stderr, Quiet):
        sys.stderr = Quiet(sys.stderr)
    if main.name == STREAM_PLANNER and sys.excepthook is not end_quietly:
        sys.excepthook = end_quietly


def end_quietly(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    """Show the error that ends a process, unless Spark has closed the connection."""
    if not issubclass(kind, BrokenPipeError | ConnectionResetError):
        sys.__excepthook__(kind, error, trace)


if __name__ == "__main__":
    from pyspark import daemon

    daemon.worker = quiet(daemon.worker)
    daemon.manager()
