"""Databases in a transaction: all or nothing, whoever fails or dies on the way."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import posthouse
from posthouse.client import database_transactions, transaction
from posthouse.client.database_transactions import (
    FORMAT_ID,
    Steps,
    global_id,
    run_steps,
    transaction_of,
)
from posthouse.client.errors import (
    ServerUnreachable,
    TransactionAborted,
    TransactionInDoubt,
    TransactionUnconfirmed,
)
from posthouse.model.errors import TransactionSequence, TransactionUsage
from tests.client.databases import (
    AwaitedConnection,
    Connection,
    Database,
    DatabaseError,
    ToldConnection,
    Xid,
)
from tests.client.serving import Serving

GUID = bytes(range(16))


@pytest.fixture
def qm(server: Serving) -> Iterator[posthouse.QueueManagerClient]:
    with posthouse.connect(server.home) as qm:
        yield qm
    server.ask(lambda m: [m.transactions.commit_by_hand(j.identifier, "test") for j in decided(m)])


def decided(m: Any) -> list[Any]:
    return list(m.transactions.decided())


def unconfirmed(server: Serving) -> list[str]:
    return server.ask(lambda m: [p for joint in decided(m) for p in joint.participants])


def work(
    qm: posthouse.QueueManagerClient, path: str, *connections: Connection, fails: bool = False
) -> None:
    queue = qm.create_queue(path, transactional=True, exist_ok=True)
    with qm.transaction(join=connections) as tx:
        queue.send(b"paid", tx=tx)
        for connection in connections:
            connection.insert("paid")
        if fails:
            raise KeyError("the application failed")


def check(
    qm: posthouse.QueueManagerClient, path: str, *databases: Database, done: bool | None = None
) -> bool:
    """Queue and databases agree, and nothing is left prepared."""
    sent = qm.queue(path).count()
    for database in databases:
        assert database.prepared == {}
        assert len(database.rows) == sent
    if done is not None:
        assert sent == done
    return bool(sent)


# -- without death


def test_queue_and_databases_commit_together(
    server: Serving, qm: posthouse.QueueManagerClient, path: str
) -> None:
    one, two = Database(), Database()
    work(qm, path, one.connect(), two.connect())
    assert check(qm, path, one, two, done=True)
    assert unconfirmed(server) == []


def test_an_exception_undoes_all(qm: posthouse.QueueManagerClient, path: str) -> None:
    database = Database()
    connection = database.connect()
    with pytest.raises(KeyError):
        work(qm, path, connection, fails=True)
    check(qm, path, database, done=False)
    assert "tpc_prepare" not in connection.calls


@pytest.mark.parametrize("step", ["tpc_begin", "tpc_prepare", "tpc_recover"])
def test_a_database_that_fails_before_the_decision_undoes_all(
    qm: posthouse.QueueManagerClient, path: str, step: str
) -> None:
    good, bad = Database(), Database()
    failing = bad.connect()
    failing.fails = {step}
    with pytest.raises(DatabaseError, match=step):
        work(qm, path, good.connect(), failing)
    check(qm, path, good, bad, done=False)


def test_a_database_that_fails_after_the_decision_is_settled_by_the_next_join(
    server: Serving, qm: posthouse.QueueManagerClient, path: str
) -> None:
    good, bad = Database(), Database()
    failing = bad.connect()
    failing.fails = {"tpc_commit"}
    with pytest.raises(TransactionUnconfirmed, match="is committed"):
        work(qm, path, good.connect(), failing)
    assert (good.rows, bad.rows) == (["paid"], [])
    assert unconfirmed(server) == ["database 1"]
    other = bad.connect()
    with qm.transaction(join=[other]):
        pass
    assert bad.rows == ["paid"]
    assert unconfirmed(server) == []


def test_a_statement_that_failed_keeps_it_from_being_prepared(
    qm: posthouse.QueueManagerClient, path: str
) -> None:
    database = Database()
    connection = ToldConnection(database)
    queue = qm.create_queue(path, transactional=True)
    tx = qm.transaction(join=[connection]).begin()
    queue.send(b"paid", tx=tx)
    connection.info.transaction_status = 3
    with pytest.raises(TransactionUsage, match="a statement failed"):
        tx.commit()
    check(qm, path, database, done=False)


def test_a_connection_in_a_transaction_of_its_own_is_refused(
    qm: posthouse.QueueManagerClient,
) -> None:
    connection = ToldConnection(Database())
    connection.info.transaction_status = 2
    with pytest.raises(TransactionUsage, match="of its own"):
        qm.transaction(join=[connection]).begin()
    assert connection.calls == []


def test_only_connections_with_two_phase_methods_join_and_each_once(
    qm: posthouse.QueueManagerClient,
) -> None:
    with pytest.raises(TypeError, match="no xid"):
        qm.transaction(join=[object()])
    connection = Database().connect()
    with pytest.raises(ValueError, match="twice"):
        qm.transaction(join=[connection, connection])


def test_a_commit_that_the_queue_manager_refuses_is_rolled_back(
    server: Serving, qm: posthouse.QueueManagerClient, path: str
) -> None:
    database = Database()
    connection = database.connect()
    queue = qm.create_queue(path, transactional=True)
    tx = qm.transaction(join=[connection]).begin()
    queue.send(b"paid", tx=tx)
    identifier = tx.handle.identifier
    server.ask(lambda m: m.transactions.transaction_abort(identifier))
    with pytest.raises(TransactionSequence):
        tx.commit()
    check(qm, path, database, done=False)


def test_a_broken_connection_before_the_commit_is_rolled_back(
    server: Serving, qm: posthouse.QueueManagerClient, path: str
) -> None:
    database = Database()
    connection = database.connect()
    queue = qm.create_queue(path, transactional=True)
    tx = qm.transaction(join=[connection]).begin()
    queue.send(b"paid", tx=tx)
    server.break_connections()
    with pytest.raises(TransactionAborted):
        tx.commit()
    check(qm, path, database, done=False)


def test_a_commit_whose_outcome_nobody_knows_leaves_databases_prepared() -> None:
    database = Database()
    connection = database.connect()
    joined = database_transactions.Joined([connection], Answering(), database_transactions.Known())
    run_steps(joined.begin(GUID))

    def decide(branches: object) -> None:
        raise ServerUnreachable("the cable is out")

    with pytest.raises(TransactionInDoubt, match="not known: the cable is out"):
        run_steps(joined.commit(decide, lambda: None))
    assert len(database.prepared) == 1


class Answering:
    """A queue manager of which everything is told."""

    guid = GUID

    def __init__(self, states: str = "unknown", waiting: list[tuple[bytes, str]] | None = None):
        self.states = states
        self.waiting = waiting or []
        self.confirmed: list[tuple[bytes, list[str]]] = []
        self.unconfirmed = self.waiting

    def outcomes(self, identifiers: list[bytes], resource: str) -> Any:
        told = Answering(self.states, self.waiting if resource else [])
        told.states = [self.states] * len(identifiers)  # type: ignore[assignment]
        return told

    def confirm(self, identifier: bytes, branches: list[str]) -> None:
        self.confirmed.append((identifier, branches))


# -- recovery


def left(database: Database, branch: str = "0", guid: bytes = GUID) -> bytes:
    """A branch that somebody left prepared."""
    identifier = bytes([len(database.prepared)]) * 16
    database.prepared[Xid(FORMAT_ID, global_id(guid, identifier), branch)] = ["left"]
    return identifier


@pytest.mark.parametrize(
    ("state", "rows", "prepared"),
    [("committed", ["left"], 0), ("unknown", [], 0), ("undecided", [], 1)],
)
def test_what_is_left_is_settled_as_the_queue_manager_knows(
    state: str, rows: list[str], prepared: int
) -> None:
    database, decisions = Database(), Answering(state)
    identifier = left(database)
    found = run_steps(
        database_transactions.recover(database.connect(), decisions, database_transactions.Known())
    )
    assert (database.rows, len(database.prepared)) == (rows, prepared)
    assert [len(names) for names in found] == [
        state == word for word in ("committed", "unknown", "undecided")
    ]
    assert decisions.confirmed == ([(identifier, ["0"])] if state == "committed" else [])


def test_branches_of_other_queue_managers_are_left_alone() -> None:
    database = Database()
    left(database, guid=b"x" * 16)
    database.prepared[Xid(7, "of another program", "0")] = []
    run_steps(
        database_transactions.recover(
            database.connect(), Answering(), database_transactions.Known()
        )
    )
    assert len(database.prepared) == 2


def test_branches_in_other_databases_of_the_server_are_left_alone() -> None:
    class Elsewhere(Xid):
        database = "other"

    database = Database()
    xid = Elsewhere(FORMAT_ID, global_id(GUID, GUID), "0")
    database.prepared[xid] = []
    connection = ToldConnection(database)
    run_steps(database_transactions.recover(connection, Answering(), database_transactions.Known()))
    assert len(database.prepared) == 1
    connection.info.dbname = "other"
    run_steps(database_transactions.recover(connection, Answering(), database_transactions.Known()))
    assert len(database.prepared) == 0


def test_what_the_database_refuses_is_left() -> None:
    database = Database()
    left(database)
    connection = database.connect()
    connection.fails = {"tpc_rollback"}
    found = run_steps(
        database_transactions.recover(connection, Answering(), database_transactions.Known())
    )
    assert len(found.left) == len(database.prepared) == 1


def test_a_confirmation_that_was_lost_is_made_up_for() -> None:
    database, listed = Database(), b"\0" * 16
    assert left(database) == listed
    decisions = Answering("undecided", [(b"gone" * 4, "0"), (listed, "0")])
    run_steps(
        database_transactions.recover(
            ToldConnection(database), decisions, database_transactions.Known()
        )
    )
    assert decisions.confirmed == [(b"gone" * 4, ["0"])]


def test_a_connection_is_recovered_once_and_again_after_trouble(
    qm: posthouse.QueueManagerClient, path: str
) -> None:
    connection = Database().connect()
    for _ in range(3):
        work(qm, path, connection)
    assert connection.calls.count("tpc_recover") == 1
    connection.fails = {"tpc_commit"}
    with pytest.raises(TransactionUnconfirmed):
        work(qm, path, connection)
    connection.fails = set()
    connection.tpc_commit()  # as a program may that keeps its connection
    work(qm, path, connection)
    assert connection.calls.count("tpc_recover") == 2


@given(st.binary(min_size=16, max_size=16), st.binary(min_size=16, max_size=16))
def test_an_xid_begins_with_the_queue_manager_and_names_the_transaction(
    guid: bytes, identifier: bytes
) -> None:
    name = global_id(guid, identifier)
    assert name.startswith(guid.hex())
    assert len(name) == 64
    assert transaction_of(guid, Xid(FORMAT_ID, name, "0")) == identifier
    other = bytes([guid[0] ^ 1]) + guid[1:]
    assert transaction_of(other, Xid(FORMAT_ID, name, "0")) is None


@given(
    st.tuples(
        st.just(FORMAT_ID) | st.none() | st.integers(),
        st.text("0123456789abcdef ", min_size=60, max_size=66) | st.text(max_size=70) | st.none(),
        st.text(max_size=5) | st.none(),
    )
    | st.text(max_size=5)
    | st.none()
)
def test_any_other_xid_is_somebody_elses(xid: Any) -> None:
    assert transaction_of(b"\xff" * 15 + b"\xfe", xid) is None


# -- death before and after each step


class Killed(BaseException):
    """The client's process is gone."""


class DyingSteps:
    """Runs steps, and dies before or after the one with that number."""

    def __init__(self, number: int, after: bool) -> None:
        self.number = number
        self.after = after
        self.count = 0

    def __call__(self, steps: Steps[Any]) -> Any:
        def dying() -> Steps[Any]:
            value, error = None, None
            while True:
                try:
                    step = steps.throw(error) if error else steps.send(value)
                except StopIteration as end:
                    return end.value
                try:
                    value, error = (yield self._counted(step)), None
                except Killed:
                    raise
                except BaseException as caught:
                    value, error = None, caught

        return run_steps(dying())

    def _counted(self, step: Callable[[], Any]) -> Callable[[], Any]:
        def counted() -> Any:
            self.count += 1
            here = self.count == self.number
            if here and not self.after:
                raise Killed
            value = step()
            if here:
                raise Killed
            return value

        return counted


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("after", [False, True])
def test_a_client_that_dies_at_any_step_leaves_nothing_that_recovery_does_not_settle(
    server: Serving, path: str, monkeypatch: pytest.MonkeyPatch, after: bool, told: bool
) -> None:
    make = ToldConnection if told else Connection
    outcomes = []
    for number in range(1, 100):
        steps = DyingSteps(number, after)
        databases = Database(), Database()
        name = f"{path}-{number}"
        client = posthouse.connect(server.home)
        with monkeypatch.context() as patch:
            patch.setattr(transaction, "run_steps", steps)
            with contextlib.suppress(Killed):
                work(client, name, *map(make, databases))
        client.close()
        if steps.count < number:
            break
        with posthouse.connect(server.home) as survivor:
            for database in databases:
                survivor.recover(make(database))
            outcomes.append(check(survivor, name, *databases))
            waiting = unconfirmed(server)
            assert waiting == [] or not told, "a known database makes up for lost confirmations"
            server.ask(
                lambda m: [m.transactions.commit_by_hand(j.identifier, "test") for j in decided(m)]
            )
    assert len(outcomes) >= 10
    assert outcomes == sorted(outcomes), "nothing before the decision, everything after it"
    assert set(outcomes) == {False, True}


def test_recovery_does_not_touch_a_transaction_that_is_still_open(
    server: Serving, path: str
) -> None:
    database = Database()
    with posthouse.connect(server.home) as slow, posthouse.connect(server.home) as other:
        queue = slow.create_queue(path, transactional=True)
        tx = slow.transaction(join=[database.connect()]).begin()
        queue.send(b"paid", tx=tx)
        connection = tx._joined._connections[0]  # type: ignore[union-attr]
        connection.insert("paid")
        connection.tpc_prepare()
        found = other.recover(database.connect())
        assert len(found.left) == 1
        tx.abort()
        check(slow, path, database, done=False)


# -- asyncio


def test_asyncio_joins_connections_that_are_awaited(server: Serving, path: str) -> None:
    good, bad = Database(), Database()

    async def play() -> int:
        async with posthouse.aio.connect(server.home) as qm:
            queue = await qm.create_queue(path, transactional=True)
            one, two = AwaitedConnection(good), AwaitedConnection(bad)
            async with qm.transaction(join=[one, two]) as tx:
                await queue.send(b"paid", tx=tx)
                one.insert("paid")
                two.insert("paid")
            two.fails = {"tpc_prepare"}
            with pytest.raises(DatabaseError):
                async with qm.transaction(join=[one, two]) as tx:
                    await queue.send(b"not paid", tx=tx)
            with pytest.raises(KeyError):
                async with qm.transaction(join=[one]) as tx:
                    raise KeyError
            found = await qm.recover(AwaitedConnection(bad))
            assert found == ([], [], [])
            return await queue.count()

    assert asyncio.run(play()) == 1
    assert good.rows == bad.rows == ["paid"]
    assert good.prepared == bad.prepared == {}
