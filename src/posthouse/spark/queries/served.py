"""The process of one query of the API: reads a statement, asks DuckDB, writes the rows.

It is started by the queue manager (`protocols/http/query_runs.py`) and reaches messages over a
socket on which it is the caller of the query. It limits its own memory before anything else, and
ends with the process that started it.
"""

from __future__ import annotations

import ctypes
import http.client
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import msgspec

from posthouse.client.address import Address
from posthouse.client.admin_http import BulkHttp
from posthouse.model.errors import QueueError
from posthouse.model.extras import install_there

BESIDE: Final = 1 << 30  # of address space for programs, threads and their stacks
RESULT_MAX: Final = 8 << 20  # bytes of JSON; an answer with fewer rows follows
_DIE_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG
_NARROWER: Final = "Name fewer columns, add a condition or a LIMIT, or use posthouse pipeline sql."
_ELSEWHERE: Final = "Write it in another way, or let Spark answer it with posthouse pipeline sql."
# What DuckDB states where memory ends; it would go on in files, which it has none of.
_MEMORY: Final = ("Out of Memory", "LocalFileSystem has been disabled")


class Asked(msgspec.Struct):
    """What the queue manager asks."""

    socket: str
    statement: str
    rows: int
    memory: int
    lake: str | None = None


class _SocketConnection(http.client.HTTPConnection):
    """HTTP over a socket of the system."""

    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        """Opens it."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class SocketHttp(BulkHttp):
    """The API over a socket of the system that stands for its caller."""

    def __init__(self, path: str) -> None:
        super().__init__("http://localhost", token="none", retry_s=0.0)
        self._path = path

    def _new(self, address: Address) -> http.client.HTTPConnection:
        return _SocketConnection(self._path, self.timeout_s)


def limit(memory: int) -> None:
    """Bounds what this process may take: memory, files, processor time beside others."""
    resource.setrlimit(resource.RLIMIT_AS, (2 * memory + 2 * BESIDE,) * 2)
    resource.setrlimit(resource.RLIMIT_DATA, (memory + BESIDE,) * 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(10)
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)


def answered(asked: Asked) -> dict[str, Any]:
    """The result as JSON has it, or why there is none."""
    try:
        return _result(asked)
    except ImportError as error:
        missing = error.name or "a package"
        return _error(
            "missing", f"this queue manager has no {missing.partition('.')[0]}", install_there()
        )
    except QueueError as error:
        return _error("statement", error.cause, error.remedy)
    except MemoryError:
        return _error("memory", "the query needs more memory than it may have", _NARROWER)


def _result(asked: Asked) -> dict[str, Any]:
    import duckdb  # noqa: F401 - whether it is there

    from posthouse.spark.queries.arrow_tables import LakeRows
    from posthouse.spark.queries.small.answers import answer
    from posthouse.spark.queries.small.tokens import NeedsSpark
    from posthouse.spark.queries.tables import LiveTables, lake_loader
    from posthouse.spark.rows.values import cells_of, plain

    begun_s = time.monotonic()
    lake = (lake_loader(asked.lake), LakeRows(asked.lake)) if asked.lake else ()
    with SocketHttp(asked.socket) as http_, LiveTables(http_, {"url": http_.url}, *lake) as tables:
        try:
            found = answer(
                asked.statement,
                tables,
                bytes_max=asked.memory // 2,
                rows_max=asked.rows + 1,
                memory=f"{asked.memory >> 21}MB",
            )
        except NeedsSpark as reason:
            if any(words in str(reason) for words in _MEMORY):
                return _error("memory", "the query needs more memory than it may have", _NARROWER)
            remedy = _NARROWER if " MiB" in str(reason) else _ELSEWHERE
            return _error("statement", f"this is not answered here: {reason}", remedy)
    rows, more = list[list[Any]](), found.num_rows > asked.rows
    size = 0
    for row in islice(_plain_rows(cells_of(found), plain), asked.rows):
        size += len(msgspec.json.encode(row))
        if size > RESULT_MAX:
            more = True
            break
        rows.append(row)
    columns = [{"name": one.name, "kind": _kind(one.type)} for one in found.schema]
    ms = round(1000 * (time.monotonic() - begun_s))
    return {"columns": columns, "rows": rows, "more": more, "ms": ms, "count": len(rows)}


def _plain_rows(cells: Any, plain: Any) -> Iterator[list[Any]]:
    for row in cells:
        yield [plain(value) for value in row]


def _kind(type_: Any) -> str:
    from pyarrow import types

    if types.is_integer(type_) or types.is_floating(type_) or types.is_decimal(type_):
        return "number"
    if types.is_timestamp(type_) or types.is_date(type_):
        return "time"
    if types.is_boolean(type_):
        return "flag"
    return "text" if types.is_string(type_) else "other"


def _error(kind: str, cause: str, remedy: str) -> dict[str, Any]:
    return {"error": {"kind": kind, "cause": cause, "remedy": remedy}}


def main() -> None:
    """One statement, from the standard input to the standard output."""
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=Asked)
    limit(asked.memory)
    sys.stdout.buffer.write(msgspec.json.encode(answered(asked)))


if __name__ == "__main__":
    main()
