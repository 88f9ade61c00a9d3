"""PostgreSQL and queues in one transaction, with clients that are killed at each step of it."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

import posthouse
from tests.client.serving import Serving, serving
from tests.process.joining_client import FINISHED
from tests.process.postgres import Postgres, postgres_server

pytestmark = pytest.mark.peer("postgres")
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "python.md"
Clients = Callable[[Path, Postgres, str], int]


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with postgres_server() as running:
        running.query("CREATE TABLE payments (name text PRIMARY KEY)")
        yield running


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def server(home: Path) -> Iterator[Serving]:
    with serving(home) as running:
        yield running


@pytest.fixture(scope="module")
def clients() -> Iterator[Clients]:
    """Runs one client that is to be killed; how it ended."""
    started: list[subprocess.Popen[str]] = []

    def run(home: Path, postgres: Postgres, line: str) -> int:
        if not started:
            words = [sys.executable, "-m", "tests.process.joining_client", home, postgres.dsn]
            pipe = subprocess.PIPE
            started.append(subprocess.Popen(words, cwd=ROOT, stdin=pipe, stdout=pipe, text=True))
        (nursery,) = started
        assert nursery.stdin is not None
        assert nursery.stdout is not None
        nursery.stdin.write(f"{line}\n")
        nursery.stdin.flush()
        return int(nursery.stdout.readline())

    yield run
    for nursery in started:
        nursery.communicate()


def paid(postgres: Postgres, name: str) -> bool:
    return bool(postgres.query(f"SELECT 1 FROM payments WHERE name = '{name}'"))


def unconfirmed(server: Serving) -> int:
    return server.ask(lambda m: len(m.transactions.decided()))


def test_both_commit_or_neither(server: Serving, postgres: Postgres) -> None:
    with posthouse.connect(server.home) as qm, postgres.connect() as connection:
        queue = qm.create_queue(r".\private$\both", transactional=True)
        for fails in (False, True):
            name = f"fails {fails}"
            try:
                with qm.transaction(join=[connection]) as tx:
                    queue.send(b"paid", tx=tx)
                    connection.execute("INSERT INTO payments VALUES (%s)", (name,))
                    if fails:
                        raise KeyError
            except KeyError:
                pass
            assert paid(postgres, name) is not fails
        assert queue.count() == 1
        assert postgres.prepared() == unconfirmed(server) == 0


def test_a_statement_that_failed_aborts_all_even_if_nobody_minds(
    server: Serving, postgres: Postgres
) -> None:
    """PREPARE TRANSACTION of a failed transaction rolls it back without a word."""
    with posthouse.connect(server.home) as qm, postgres.connect() as connection:
        queue = qm.create_queue(r".\private$\failed", transactional=True)
        tx = qm.transaction(join=[connection]).begin()
        queue.send(b"paid", tx=tx)
        with pytest.raises(psycopg.errors.UndefinedTable):
            connection.execute("SELECT * FROM nothing")
        with pytest.raises(posthouse.QueueError, match="a statement failed"):
            tx.commit()
        assert queue.count() == postgres.prepared() == 0
        connection.execute("SELECT 1")  # it can be used again


def test_a_deferred_constraint_that_fails_at_the_vote_aborts_all(
    server: Serving, postgres: Postgres
) -> None:
    postgres.query("CREATE TABLE late (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    connection = postgres.connect()
    with posthouse.connect(server.home) as qm:
        queue = qm.create_queue(r".\private$\late", transactional=True)
        tx = qm.transaction(join=[connection]).begin()
        queue.send(b"paid", tx=tx)
        connection.execute("INSERT INTO late VALUES (1), (1)")
        with pytest.raises(psycopg.errors.UniqueViolation):
            tx.commit()
        connection.close()  # psycopg has no other use for it
        assert queue.count() == postgres.prepared() == 0


def test_asyncio_joins_connections_of_asyncio(server: Serving, postgres: Postgres) -> None:
    async def work() -> None:
        async with posthouse.aio.connect(server.home) as qm:
            queue = await qm.create_queue(r".\private$\awaited", transactional=True)
            connection = await psycopg.AsyncConnection.connect(postgres.dsn)
            for name in ("awaited", "awaited"):  # the second insert is refused
                try:
                    async with qm.transaction(join=[connection]) as tx:
                        await queue.send(b"paid", tx=tx)
                        await connection.execute("INSERT INTO payments VALUES (%s)", (name,))
                except psycopg.errors.UniqueViolation:
                    pass
            assert await queue.count() == 1
            assert await qm.recover(connection) == ([], [], [])
            await connection.close()

    asyncio.run(work())
    assert paid(postgres, "awaited")
    assert postgres.prepared() == unconfirmed(server) == 0


@pytest.mark.parametrize("restart", [False, True], ids=["", "restart"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_client_killed_at_any_step_leaves_nothing_that_recovery_does_not_settle(
    home: Path, postgres: Postgres, clients: Clients, when: str, restart: bool
) -> None:
    outcomes = []
    with serving(home) as server, posthouse.connect(home) as qm:
        paths = [rf".\private$\{when}-{restart}-{number}" for number in range(1, 20)]
        for number, path in enumerate(paths, 1):
            qm.create_queue(path, transactional=True)
            ended = clients(home, postgres, f"{path} {number} {when}")
            assert ended in (-signal.SIGKILL, FINISHED)
            if not restart:
                outcomes.append(settled(server, postgres, path))
            if ended == FINISHED:
                break
    if restart:
        with serving(home) as server:
            outcomes = [settled(server, postgres, path) for path in paths[:number]]
    assert len(outcomes) >= 10
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {False, True}


def settled(server: Serving, postgres: Postgres, path: str) -> bool:
    """Recovery has left nothing, and both sides say the same."""
    with posthouse.connect(server.home) as qm, postgres.connect() as connection:
        qm.recover(connection)
        assert postgres.prepared() == unconfirmed(server) == 0
        sent = qm.queue(path).count() == 1
    assert paid(postgres, path) is sent
    return sent


def test_the_examples_with_a_database_run(
    server: Serving, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = re.findall(r"^```python postgres\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
    assert blocks
    monkeypatch.setenv("POSTHOUSE_HOME", str(server.home))
    monkeypatch.setenv("PGHOST", str(postgres.folder))
    monkeypatch.setenv("PGUSER", "owner")
    monkeypatch.setenv("PGDATABASE", "postgres")
    names: dict[str, object] = {"__name__": "__example__"}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert postgres.query("SELECT amount FROM invoices") == [(12,)]
    assert postgres.prepared() == unconfirmed(server) == 0
