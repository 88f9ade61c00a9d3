"""The audit table: events of messages from journals, receipts and dead letters, each once."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from posthouse.cli import main
from posthouse.client.admin_http import BulkHttp
from posthouse.model.errors import InvalidParameter
from posthouse.spark.lakes import audit as audit_module
from posthouse.spark.lakes.audit import AuditTable, audit, correlated, event_name
from tests.process.spark_office import SparkOffice, path_of


def events(path: Path) -> list[tuple[str, str, str]]:
    table = DeltaTable(path).to_pyarrow_table()
    rows = table.select(["lookup_id", "message_id", "event", "label"]).to_pylist()
    rows.sort(key=lambda row: row["lookup_id"])
    return [(row["message_id"], row["event"], row["label"]) for row in rows]


def test_each_event_is_there_once_by_message_id(
    office: SparkOffice,
    queue: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(audit_module, "MESSAGES_MAX", 2)  # several steps
    work, receipts = queue(journal=True), queue()
    target = office.qm.queue(path_of(work))
    ids = [
        str(
            target.send(
                b"x",
                label=str(n),
                ack=("pos-arrival", "pos-receive"),
                admin_queue=path_of(receipts),
            )
        )
        for n in range(3)
    ]
    target.receive(timeout=5)
    folder, queues = tmp_path / "audit", [f"{path_of(work)};journal", path_of(receipts)]
    with BulkHttp(office.url, token_file=str(office.token_file)) as http:
        first = audit(http, queues, folder)
        assert (first.events, first.queues) == (5, 2)
        assert audit(http, queues, folder).events == 0
        found = events(folder)
        assert sorted(one for one, event, _ in found if event == "acknowledged") == sorted(
            [*ids, ids[0]]
        )
        assert [(one, label) for one, event, label in found if event == "received"] == [
            (ids[0], "0")
        ]
        target.receive(timeout=5)
        assert audit(http, queues, folder).events == 2
    assert len(events(folder)) == 7
    assert office.count(work) == 1  # nothing was consumed by it


def test_a_home_that_gives_its_ids_again_is_refused(tmp_path: Path) -> None:
    """What the put-back home got was taken for what the table has, and never written."""
    journal = f"{path_of('orders')};journal"
    with ExitStack() as running:
        frail = SparkOffice(tmp_path / "frail", running)
        frail.create("orders", journal=True)
        orders = frail.qm.queue(path_of("orders"))
        http = running.enter_context(BulkHttp(frail.url, token_file=str(frail.token_file)))
        frail.send("orders", [b"1", b"2"])
        orders.receive(timeout=5)
        frail.copy_home()
        orders.receive(timeout=5)
        assert audit(http, [journal], tmp_path / "audit").events == 2
        frail.put_back()
        frail.send("orders", [b"new"])
        for _ in range(2):
            orders.receive(timeout=5)
        with pytest.raises(InvalidParameter, match=r"never gave.*--table"):
            audit(http, [journal], tmp_path / "audit")
        assert len(events(tmp_path / "audit")) == 2
        assert audit(http, [journal], tmp_path / "other").events == 3
        frail.server.stop()
        frail.server.start()
        assert audit(http, [journal], tmp_path / "other").events == 0  # a restart changes nothing


def test_rows_are_only_added(tmp_path: Path) -> None:
    table = AuditTable(tmp_path / "audit")
    table.create()
    table.create()
    with pytest.raises(DeltaError, match="append"):
        DeltaTable(tmp_path / "audit").delete()


def test_another_process_that_was_faster_wins(tmp_path: Path) -> None:
    from deltalake import Transaction

    table = AuditTable(tmp_path / "audit")
    table.create()
    rows = audit_module.EVENTS.empty_table()
    assert table.append(rows, [Transaction("q", 5)])
    assert not table.append(rows, [Transaction("q", 5)])
    assert not table.append(rows, [Transaction("q", 3)])
    assert (table.position("q"), table.position("other")) == (5, 0)


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(InvalidParameter, match="not empty"):
        AuditTable(tmp_path).create()
    with pytest.raises(InvalidParameter, match="lies in a folder"):
        AuditTable("s3://bucket/audit")


@pytest.mark.parametrize(
    ("queue", "code", "event"),
    [
        ("alpha\\private$\\a;journal", 0, "received"),
        ("alpha\\system$;journal", 0, "sent"),
        ("alpha\\system$;deadletter", 0xC001, "dead"),
        ("alpha\\system$;deadxact", 0, "dead"),
        ("alpha\\private$\\admin", 2, "acknowledged"),
        ("alpha\\private$\\admin", 0x8000, "refused"),
        ("alpha\\private$\\reports", 1, "traced"),
        ("alpha\\private$\\a", 0, "seen"),
    ],
)
def test_an_event_has_a_name(queue: str, code: int, event: str) -> None:
    assert event_name(queue, code) == event


def test_a_correlation_is_an_identifier_or_none() -> None:
    assert correlated("00" * 20) is None
    assert correlated("zz") is None
    assert correlated(None) is None
    assert str(correlated("01" * 20)).endswith("\\16843009")


def test_the_command_audits(
    office: SparkOffice,
    queue: Callable[..., str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = queue(journal=True)
    office.send(name, [b"x", b"y"])
    office.qm.queue(path_of(name)).receive(timeout=5)
    access = ["--url", office.url, "--token-file", str(office.token_file), "--json"]
    words = ["pipeline", "audit", "--table", str(tmp_path / "audit"), "--queue"]
    assert main.run([*words, f"{path_of(name)};journal", *access]) == 0
    assert json.loads(capsys.readouterr().out)["events"] == 1
    assert main.run(["pipeline", "audit", "--table", str(tmp_path / "all"), *access]) == 0
    assert json.loads(capsys.readouterr().out)["events"] >= 1
