"""A PostgreSQL server of our own in a temporary folder, reached by its Unix socket only."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tools.peers import PEERS

SETTINGS = {
    "listen_addresses": "",
    "max_prepared_transactions": "20",
    "fsync": "off",  # nobody pulls the plug here
    "shared_buffers": "1MB",
    "max_connections": "20",
    "autovacuum": "off",
}
START_S = 30


def account() -> str | None:
    """Who runs it: the server refuses to be root's."""
    if os.geteuid():
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


class Postgres:
    """One server and its database `postgres`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def connect(self, database: str = "postgres") -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(host=str(self.folder), user="owner", dbname=database)

    @property
    def dsn(self) -> str:
        return f"host={self.folder} user=owner dbname=postgres"

    def query(self, statement: str) -> list[tuple[object, ...]]:
        with self.connect() as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def prepared(self) -> int:
        """Transactions that wait for a decision."""
        return len(self.query("SELECT gid FROM pg_prepared_xacts"))


@contextmanager
def postgres_server() -> Iterator[Postgres]:
    """For the length of some tests."""
    server = PEERS["postgres"].program
    assert server is not None
    folder, user = Path(tempfile.mkdtemp(prefix="pg-")), account()
    data = folder / "data"
    if user is not None:
        shutil.chown(folder, user)
    beside = Path(server).parent
    run = {"check": True, "capture_output": True, "user": user, "cwd": folder}
    initdb = [beside / "initdb", "-D", data, "-A", "trust", "-U", "owner", "--no-sync"]
    subprocess.run(initdb, **run)  # type: ignore[call-overload]
    words = [f"-c {name}={value or chr(39) * 2}" for name, value in SETTINGS.items()]
    options = " ".join([*words, f"-k {folder}"])
    control = [beside / "pg_ctl", "-D", data, "-w", "-t", str(START_S), "-l", folder / "log"]
    subprocess.run([*control, "-o", options, "start"], **run)  # type: ignore[call-overload]
    try:
        yield Postgres(folder)
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], **run)  # type: ignore[call-overload]
        shutil.rmtree(folder)
