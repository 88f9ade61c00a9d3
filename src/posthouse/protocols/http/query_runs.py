"""Statements of SQL in processes of their own, which read messages as their user may.

Each process gets a socket in a folder of its own. It leads to the API, for the caller of the
query and with their role: what they may not read the process cannot read either. Its memory is
bounded by the system, and it is killed when its time is over or its caller has gone.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import Any, Final

import msgspec

from posthouse.api.queries import QueryResultJson
from posthouse.model.errors import InsufficientResources, InvalidParameter, QueueError
from posthouse.net.listening import Listener
from posthouse.protocols.handlers.queries import unavailable
from posthouse.protocols.handlers.query_limits import QueryCall
from posthouse.protocols.http.authentication import ApiIdentity, Gate
from posthouse.protocols.http.background_work import is_of_owner
from posthouse.protocols.http.connection import HttpConnection
from posthouse.protocols.http.door import Admin, AdminDoor

ANSWER_MAX: Final = 16 << 20
"""Bytes of an answer that are read from a process; it keeps to half of that by itself."""
PROGRAM: Final = "posthouse.spark.queries.served"
SOCKET: Final = "api.sock"
FOLDER: Final = "posthouse-query-"
_KEPT: Final = ("PYTHONPATH", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE")
NARROWER: Final = "Name fewer columns, add a condition or a LIMIT, or use posthouse pipeline sql."


class QueryDoor(AdminDoor):
    """The API for one process, which is taken for the caller of the query."""

    name = "query"

    def __init__(self, admin: Admin, identity: ApiIdentity) -> None:
        super().__init__(admin, None, Gate(admin.tokens, admin.hosts, identity))

    def address_of(self, transport: asyncio.Transport) -> str:
        """All of them count together."""
        return "query"

    def refuses(self, transport: asyncio.Transport) -> str:
        """Only the server's own user and root are let in."""
        peer = transport.get_extra_info("socket")
        return "" if is_of_owner(peer) else "query socket: another user"

    def start(self, path: Path) -> None:
        """Listens."""
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            bound.bind(str(path))
        except OSError:
            bound.close()
            raise
        self._listener = Listener(
            lambda admission: HttpConnection(self, admission), self.connections, self.refused
        )
        self._listener.start_on([bound])
        self.admin.enter()


class QueryRuns:
    """Runs statements, each in a process of its own."""

    def __init__(self, admin: Admin, lake: Path | None) -> None:
        self._admin = admin
        self._settings = admin.settings
        self._lake = lake
        remove_abandoned()

    async def run(self, call: QueryCall) -> QueryResultJson:
        """The rows of a statement."""
        identity = ApiIdentity(call.caller, call.role, call.token_id)
        door = QueryDoor(self._admin, identity)
        with _folder() as folder:
            door.start(folder / SOCKET)
            try:
                return await self._answer(call, folder / SOCKET)
            finally:
                await asyncio.shield(door.stop(0.0))

    async def _answer(self, call: QueryCall, path: Path) -> QueryResultJson:
        asked = {
            "socket": str(path),
            "statement": call.statement,
            "rows": call.rows,
            "memory": self._settings.query_memory,
            "lake": str(self._lake) if self._lake is not None and call.reads_lake else None,
        }
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", PROGRAM),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd="/",
            env={name: os.environ[name] for name in _KEPT if name in os.environ},
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(self._settings.query_time_s):
                text = await _exchange(process, msgspec.json.encode(asked))
                code = await process.wait()
        except TimeoutError:
            raise InsufficientResources(
                f"the query was ended after {self._settings.query_time_s} s", NARROWER
            ) from None
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await asyncio.shield(process.wait())
        return self._result(text, code)

    def _result(self, text: bytes, code: int) -> QueryResultJson:
        try:
            found: Any = msgspec.json.decode(text)
        except msgspec.DecodeError:
            memory = f"{self._settings.query_memory >> 20:,} MiB"
            raise InsufficientResources(
                f"the query ended with status {code}: it needs more memory than {memory}, or its "
                "answer is too large",
                NARROWER,
            ) from None
        if (error := found.get("error")) is not None:
            raise _REFUSALS[error["kind"]](error["cause"], error["remedy"])
        return msgspec.convert(found, QueryResultJson)


@contextmanager
def _folder() -> Iterator[Path]:
    """Make a folder for the socket of a query, which is locked as long as this process lives."""
    while True:
        folder = Path(mkdtemp(prefix=FOLDER))
        lock = _locked(folder)
        if lock is not None and folder.exists():
            break
        _remove(folder, lock)  # a queue manager that starts just now took it for abandoned
    try:
        yield folder
    finally:
        _remove(folder, lock)


def remove_abandoned() -> None:
    """Remove the folders of this user's queries whose queue manager was killed."""
    with suppress(OSError):  # without a place for temporary files nothing is left there
        for folder in Path(gettempdir()).glob(f"{FOLDER}*"):
            lock = _locked(folder)
            if lock is not None:
                _remove(folder, lock)


def _locked(folder: Path) -> int | None:
    """Lock a folder of this user; None where another process has done so."""
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        if os.fstat(lock).st_uid == os.geteuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
    except BlockingIOError:
        pass
    os.close(lock)
    return None


def _remove(folder: Path, lock: int | None) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if lock is not None:
        os.close(lock)


async def _exchange(process: asyncio.subprocess.Process, asked: bytes) -> bytes:
    """What a process answers; no more of it is read than an answer may have."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(ConnectionError):
        process.stdin.write(asked)
        await process.stdin.drain()
        process.stdin.close()
    text = bytearray()
    while len(text) <= ANSWER_MAX and (piece := await process.stdout.read(1 << 16)):
        text += piece
    if len(text) > ANSWER_MAX:
        raise InsufficientResources("the answer of the query is too large", NARROWER)
    return bytes(text)


_REFUSALS: Final[dict[str, Callable[[str, str], QueueError]]] = {
    "statement": InvalidParameter,
    "missing": unavailable,
    "memory": InsufficientResources,
}
