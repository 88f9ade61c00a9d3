"""`posthouse message find|explain|move|copy|delete|resend`."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
import typer

from posthouse.api.types import BulkJson, ErrorBody
from posthouse.cli.connection import Remote
from posthouse.cli.contexts import Target
from posthouse.cli.messages import command as message
from posthouse.model.errors import QueueNotFound
from tests.cli.conftest import Posthouse
from tests.support.format_vectors import FOLDER

ORDERS, OTHER, BOOKED = "./private$/orders", "./private$/other", "./private$/booked"


@pytest.fixture(autouse=True)
def queues(ph: Posthouse) -> None:
    ph("queue", "create", ORDERS)
    ph("queue", "create", OTHER)
    ph("queue", "create", BOOKED, "--transactional")
    for name in (ORDERS, OTHER, BOOKED, f"{ORDERS};poison", "./system$;deadletter"):
        ph("queue", "purge", name)


def send(ph: Posthouse, *bodies: str) -> None:
    ph("send", ORDERS, "--lines", "-", stdin="\n".join(bodies).encode())


def texts(ph: Posthouse, queue: str) -> list[str]:
    return [line["body_text"] for line in ph("peek", queue, "--count", "9999", "--json").lines]


def test_find_looks_into_every_queue(ph: Posthouse) -> None:
    send(ph, "needle 1", "hay")
    ph("send", OTHER, "--body", "needle 2", "--label", "\x1b[2Jlabel")
    found = ph("message", "find", 'body_text ~ "needle"', "--json").lines
    assert [(line["queue"], line["body_text"]) for line in found] == [
        ("ALPHA\\private$\\orders", "needle 1"),
        ("ALPHA\\private$\\other", "needle 2"),
    ]
    table = ph("message", "find", 'body_text ~ "needle"').out
    assert "ALPHA\\private$\\other" in table
    assert "\\x1b[2Jlabel" in table


def test_find_stops_where_told(ph: Posthouse) -> None:
    send(ph, *["same"] * 5)
    assert len(ph("message", "find", "body_text = same", "--limit", "2", "--json").lines) == 2
    table = ph("message", "find", "body_text = same", "--limit", "2")
    assert table.out.count("same") == 2
    assert table.err == "There are more than 2; narrow the filter, or use --limit.\n"


def test_a_filter_that_is_none_names_the_place(ph: Posthouse) -> None:
    refused = ph("message", "find", "priorty = 3")
    assert refused.code == 1
    assert refused.err.startswith("MQ_ERROR_INVALID_PARAMETER (0xC00E0006): ")
    assert "Did you mean priority?" in refused.err
    assert ph("message", "move", ORDERS, OTHER, "--where", "(").code == 1


def test_explain_says_where_a_message_is_and_why(ph: Posthouse) -> None:
    options = ["--dead-letter", "--time-to-be-received", "0"]
    identifier = ph("send", ORDERS, "--body", "x", *options).out.strip()
    ph("peek", "./system$;deadletter", "--timeout", "5")
    said = ph("message", "explain", identifier)
    assert "waiting in ALPHA\\system$;deadletter" in said.out
    place = ph("message", "explain", identifier.replace("\\", "/"), "--json").value["places"][0]
    assert place["class"] == "nack-receive-timeout"
    unknown = ph("message", "explain", identifier.partition("\\")[0] + "\\999999")
    assert unknown.code == 4
    assert "in no queue here" in unknown.out
    unknown = ph("message", "explain", identifier.partition("\\")[0] + "\\999999", "--json")
    assert (unknown.code, unknown.value["places"]) == (4, [])
    assert ph("message", "explain", "17").code == 2


def test_move_takes_what_the_filter_matches(ph: Posthouse) -> None:
    send(ph, "good", "bad 1", "good", "bad 2")
    looked = ph(
        "message", "move", ORDERS, f"{ORDERS};poison", "--where", "body_text ~ bad", "--dry-run"
    )
    assert looked.out == "Would move 2 messages. Nothing was changed.\n"
    moved = ph(
        "message", "move", ORDERS, f"{ORDERS};poison", "--where", "body_text ~ bad", "--json"
    )
    assert moved.value == {
        "matched": 2,
        "done": 2,
        "gone": 0,
        "refused": 0,
        "error": None,
        "dry_run": False,
    }
    assert texts(ph, ORDERS) == ["good", "good"]
    assert texts(ph, f"{ORDERS};poison") == ["bad 1", "bad 2"]


def test_move_without_a_choice_takes_all(ph: Posthouse) -> None:
    send(ph, *map(str, range(2100)))
    assert ph("message", "move", ORDERS, f"{ORDERS};poison").out == "Moved 2,100 messages.\n"
    assert texts(ph, f"{ORDERS};poison") == [str(number) for number in range(2100)]


def test_copies_into_the_same_queue_come_to_an_end(ph: Posthouse) -> None:
    send(ph, "1", "2")
    assert ph("message", "copy", ORDERS, ORDERS).code == 0
    assert texts(ph, ORDERS) == ["1", "2", "1", "2"]


def test_copies_fit_the_queue_they_go_to(ph: Posthouse) -> None:
    send(ph, "1", "2")
    assert ph("message", "copy", ORDERS, BOOKED, "--where", "body_text = '2'").code == 0
    assert texts(ph, BOOKED) == ["2"]
    assert texts(ph, ORDERS) == ["1", "2"]


def test_delete_by_lookup_id_counts_what_is_gone(ph: Posthouse) -> None:
    send(ph, "1", "2", "3")
    ids = [str(line["lookup_id"]) for line in ph("peek", ORDERS, "--count", "3", "--json").lines]
    ph("receive", ORDERS, "--lookup-id", ids[0])
    said = ph("message", "delete", ORDERS, "--lookup-id", ids[0], "--lookup-id", ids[2])
    assert said.out == "Deleted 1 message; 1 had left the queue before.\n"
    assert said.code == 4
    assert texts(ph, ORDERS) == ["2"]


def test_delete_wants_to_know_which(ph: Posthouse) -> None:
    send(ph, "1")
    assert ph("message", "delete", ORDERS).code == 2
    both = ph("message", "delete", ORDERS, "--where", "priority = 3", "--lookup-id", "1")
    assert both.code == 2
    assert texts(ph, ORDERS) == ["1"]


def test_delete_asks_on_a_terminal(ph: Posthouse) -> None:
    send(ph, "1", "2")
    where = ["--where", "priority = 3"]
    refused = ph("message", "delete", ORDERS, *where, terminal=True, stdin=b"n\n")
    assert refused.code == 1
    assert "Delete 2 messages of ./private$/orders?" in refused.err
    assert ph("message", "delete", ORDERS, *where, "--yes", terminal=True).code == 0
    assert ph("queue", "show", ORDERS, "--json").value["messages"] == 0


def test_dead_letters_are_sent_again(ph: Posthouse) -> None:
    ph("send", ORDERS, "--body", "1", "--dead-letter")
    ph("send", ORDERS, "--body", "2", "--dead-letter")
    ph("queue", "purge", ORDERS)
    dead = "./system$;deadletter"
    again = ph("message", "resend", dead, "--where", "body_text = '1'", "--json").value
    assert (again["matched"], again["done"]) == (1, 1)
    assert texts(ph, ORDERS) == ["1"]
    assert ph("message", "resend", dead, "--to", OTHER).out == "Resent 1 message.\n"
    assert texts(ph, OTHER) == ["2"]
    assert ph("queue", "show", dead, "--json").value["messages"] == 0


def test_what_is_refused_stays_and_says_why(ph: Posthouse) -> None:
    send(ph, "1", "2")
    ph("queue", "create", "./private$/small", "--quota", "0")
    refused = ph("message", "move", ORDERS, "./private$/small")
    assert refused.code == 1
    assert refused.out == "Moved 0 messages.\n"
    assert refused.err.startswith(
        "2 messages refused and left in the queue. The first refusal: MQ_ERROR_"
    )
    assert texts(ph, ORDERS) == ["1", "2"]


def test_queues_that_are_not_there_are_refused(ph: Posthouse) -> None:
    send(ph, "1")
    for words in ([ORDERS, "./private$/nowhere"], ["./private$/nowhere", ORDERS]):
        refused = ph("message", "copy", *words)
        assert refused.code == 1
        assert "MQ_ERROR_QUEUE_NOT_FOUND (0xC00E0003)" in refused.err


def test_work_that_ended_early_is_told_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    gone = ErrorBody.of(QueueNotFound("none", "Look."))
    result = BulkJson(matched=3, done=3, gone=0, refused=0, error=gone, dry_run=False)
    with Remote(Target(), json=False) as remote, pytest.raises(typer.Exit) as ended:
        message._tell(remote, "move", result, named=False)
    assert ended.value.exit_code == 1
    said = capsys.readouterr()
    assert said.out == "Moved 3 messages.\n"
    assert said.err == "Stopped early: MQ_ERROR_QUEUE_NOT_FOUND (0xC00E0003): none. Look.\n"


def test_find_looks_into_messages(ph: Posthouse) -> None:
    name = str(FOLDER / "nsb-error")
    ph("send", ORDERS, "--body-file", f"{name}.body", "--extension-file", f"{name}.extension")
    ph("send", ORDERS, "--body-file", str(FOLDER / "nrbf-class.body"), "--body-type", "768")
    send(ph, *["hay"] * 60)
    (found,) = ph("message", "find", 'text ~ "main st 1"', "--json").lines
    assert found["decoded"]["root_type"] == "Acme.Shop.Order"
    where = 'header["NServiceBus.EnclosedMessageTypes"] ~ "OrderPlaced"'
    assert len(ph("message", "find", where, "--json").lines) == 1
    assert ph("message", "move", ORDERS, OTHER, "--where", where).code == 0
    (moved,) = ph("peek", OTHER, "--count", "9", "--json").lines
    assert moved["decoded"]["exception_type"] == "System.InvalidOperationException"


def test_a_message_of_a_queue_with_a_code_page_is_exported_and_imported(
    ph: Posthouse, tmp_path: Path
) -> None:
    body, file = tmp_path / "body", tmp_path / "export.jsonl"
    body.write_bytes("Привет".encode("cp1251"))
    here, there = "./private$/paged", "./private$/unpaged"
    ph("queue", "create", here, "--code-page", "1251")
    ph("queue", "create", there)
    ph("send", here, "--body-file", str(body), "--body-type", "30")
    assert ph("message", "export", here, str(file)).code == 0
    assert ph("message", "import", str(file), there).code == 0
    assert base64.b64decode(ph("receive", there, "--json").lines[0]["body"]) == body.read_bytes()
