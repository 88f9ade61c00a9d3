"""A database with the two-phase methods of the DB-API, in memory: what joining is tried on."""

from __future__ import annotations

from typing import Any, NamedTuple


class Xid(NamedTuple):
    format_id: int
    gtrid: str
    bqual: str


class DatabaseError(Exception):
    """The database refuses."""


class Database:
    """What is committed, and what is prepared; connections come and go."""

    def __init__(self) -> None:
        self.rows: list[str] = []
        self.prepared: dict[Xid, list[str]] = {}

    def connect(self) -> Connection:
        return Connection(self)


class Info:
    """As psycopg tells of a connection."""

    def __init__(self) -> None:
        self.transaction_status = 0
        self.dbname = "main"


class Connection:
    """One client's connection. `fails` names methods that refuse."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.fails: set[str] = set()
        self.calls: list[str] = []
        self._xid: Xid | None = None
        self._rows: list[str] = []
        self._is_prepared = False

    def _note(self, name: str) -> None:
        self.calls.append(name)
        if name in self.fails:
            raise DatabaseError(name)

    def insert(self, row: str) -> None:
        assert self._xid is not None
        assert not self._is_prepared
        self._rows.append(row)

    def xid(self, format_id: int, gtrid: str, bqual: str) -> Xid:
        assert 0 <= format_id < 1 << 31
        assert len(gtrid) <= 64
        assert len(bqual) <= 64
        return Xid(format_id, gtrid, bqual)

    def tpc_begin(self, xid: Xid) -> None:
        self._note("tpc_begin")
        assert self._xid is None
        self._xid, self._rows, self._is_prepared = xid, [], False

    def tpc_prepare(self) -> None:
        self._note("tpc_prepare")
        assert self._xid is not None
        self.database.prepared[self._xid] = self._rows
        self._is_prepared = True

    def tpc_commit(self, xid: Xid | None = None) -> None:
        self._note("tpc_commit")
        self.database.rows += self._ended(xid)

    def tpc_rollback(self, xid: Xid | None = None) -> None:
        self._note("tpc_rollback")
        if xid is None and not self._is_prepared:
            self._xid = None
        else:
            self._ended(xid)

    def _ended(self, xid: Xid | None) -> list[str]:
        found = xid or self._xid
        if xid is None:
            self._xid = None
        if found not in self.database.prepared:
            raise DatabaseError("there is no such prepared transaction")
        return self.database.prepared.pop(found)

    def tpc_recover(self) -> list[Any]:
        self._note("tpc_recover")
        return [*self.database.prepared, (None, "somebody else's", None), ("odd",)]


class ToldConnection(Connection):
    """One that can tell which database it leads to, as psycopg can."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.info = Info()

    def cursor(self) -> ToldConnection:
        return self

    def execute(self, statement: str) -> None:
        assert "system_identifier" in statement
        self._note("execute")

    def fetchone(self) -> tuple[str, str]:
        return str(id(self.database)), "main"

    def rollback(self) -> None:
        self._note("rollback")

    def close(self) -> None:
        pass


class AwaitedConnection(Connection):
    """The same for asyncio."""

    async def tpc_begin(self, xid: Xid) -> None:  # type: ignore[override]
        super().tpc_begin(xid)

    async def tpc_prepare(self) -> None:  # type: ignore[override]
        super().tpc_prepare()

    async def tpc_commit(self, xid: Xid | None = None) -> None:  # type: ignore[override]
        super().tpc_commit(xid)

    async def tpc_rollback(self, xid: Xid | None = None) -> None:  # type: ignore[override]
        super().tpc_rollback(xid)

    async def tpc_recover(self) -> list[Any]:  # type: ignore[override]
        return super().tpc_recover()
