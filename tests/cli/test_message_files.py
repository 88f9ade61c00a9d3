"""`posthouse message export|import`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Posthouse

ORDERS, OTHER, BOOKED = "./private$/orders", "./private$/other", "./private$/booked"
# What the queue manager says of a message, not its sender.
RENEWED = {"id", "lookup_id", "queue", "destination", "sent_time", "arrived_time"}


@pytest.fixture(autouse=True)
def queues(ph: Posthouse) -> None:
    ph("queue", "create", ORDERS)
    ph("queue", "create", OTHER)
    ph("queue", "create", BOOKED, "--transactional")
    for name in (ORDERS, OTHER, BOOKED):
        ph("queue", "purge", name)


def peeked(ph: Posthouse, queue: str) -> list[dict[str, Any]]:
    lines = ph("peek", queue, "--count", "9999", "--json").lines
    return [{name: line[name] for name in line.keys() - RENEWED} for line in lines]


def fill(ph: Posthouse, tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(bytes(range(256)))
    options = ["--label", "\x1b[2J grün", "--app-specific", "9", "--priority", "6", "--recoverable"]
    options += ["--journal", "--dead-letter", "--admin-queue", OTHER, "--ack", "neg-receive"]
    options += ["--response-queue", OTHER, "--correlation", "cd" * 20, "--body-type", "17"]
    options += ["--time-to-be-received", "5000"]
    options += ["--trace", "PUBLIC=00112233-4455-6677-8899-aabbccddeeff"]
    files = ["--body-file", str(tmp_path / "bytes"), "--extension-file", str(tmp_path / "bytes")]
    assert ph("send", ORDERS, *options, *files).code == 0
    assert ph("send", ORDERS, "--body", "wide \u20ac", "--body-type", "8").code == 0
    assert ph("send", ORDERS, "--empty").code == 0


def test_what_was_exported_is_imported_without_loss(ph: Posthouse, tmp_path: Path) -> None:
    fill(ph, tmp_path)
    file = tmp_path / "orders.jsonl"
    assert ph("message", "export", ORDERS, file).out == f"Exported 3 messages to {file}.\n"
    assert ph("message", "import", file, OTHER).out == f"Sent 3 messages to {OTHER}.\n"
    assert peeked(ph, OTHER) == peeked(ph, ORDERS)


def test_the_file_has_the_messages_as_json(ph: Posthouse, tmp_path: Path) -> None:
    fill(ph, tmp_path)
    file = tmp_path / "orders.jsonl"
    ph("message", "export", ORDERS, file)
    shown = ph("peek", ORDERS, "--count", "9", "--json").lines
    for message in shown:
        assert message.pop("decoded")  # what is in a body is found again, and not exported
    assert [json.loads(line) for line in file.read_text().splitlines()] == shown
    assert not (tmp_path / "orders.jsonl.partial").exists()


def test_some_messages_are_exported(ph: Posthouse, tmp_path: Path) -> None:
    ph("send", ORDERS, "--lines", "-", stdin=b"1\n2\n3")
    file = tmp_path / "some.jsonl"
    where = ["--where", "body_text = '2'"]
    assert ph("message", "export", ORDERS, file, *where, "--json").value == {
        "file": str(file),
        "messages": 1,
    }
    lookup_id = json.loads(file.read_text())["lookup_id"]
    out = ph("message", "export", ORDERS, "-", "--lookup-id", str(lookup_id))
    assert out.out == file.read_text()


def test_a_file_is_not_overwritten_by_accident(ph: Posthouse, tmp_path: Path) -> None:
    file = tmp_path / "precious"
    file.write_text("data")
    assert ph("message", "export", ORDERS, file).code == 2
    assert file.read_text() == "data"
    assert ph("message", "export", ORDERS, file, "--overwrite").code == 0
    assert file.read_text() == ""


def test_a_new_file_is_private_and_an_existing_one_keeps_its_rights(
    ph: Posthouse, tmp_path: Path
) -> None:
    new, shared = tmp_path / "new", tmp_path / "shared"
    shared.touch()
    shared.chmod(0o644)
    before = os.umask(0)
    try:
        for file in (new, shared):
            assert ph("message", "export", ORDERS, file, "--overwrite").code == 0
    finally:
        os.umask(before)
    assert [file.stat().st_mode & 0o777 for file in (new, shared)] == [0o600, 0o644]


def test_a_failed_export_leaves_no_file(ph: Posthouse, tmp_path: Path) -> None:
    file = tmp_path / "none"
    assert ph("message", "export", "./private$/nowhere", file).code == 1
    assert ph("message", "export", ORDERS, file, "--lookup-id", "999999").code == 4
    assert ph("message", "export", ORDERS, file, "--where", "(").code == 1
    assert list(tmp_path.iterdir()) == []


def test_imports_fit_the_queue_they_go_to(ph: Posthouse) -> None:
    lines = b'{"body_text": "by hand", "label": "x"}\n\n{"body": "AQI=", "surprise": [1]}\n'
    assert ph("message", "import", "-", BOOKED, stdin=lines).code == 0
    messages = peeked(ph, BOOKED)
    assert [message["body"] for message in messages] == ["YnkgaGFuZA==", "AQI="]
    assert {message["delivery"] for message in messages} == {"transactional"}
    ph("message", "import", "-", ORDERS, stdin=b'{"delivery": "transactional"}')
    assert peeked(ph, ORDERS)[0]["delivery"] == "recoverable"


def test_a_dry_run_checks_every_line_and_sends_none(ph: Posthouse, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text('{"body_text": "1"}\n{"body_text": "2"}\n')
    said = ph("message", "import", file, OTHER, "--dry-run", "--json")
    assert said.value == {"messages": 2, "dry_run": True}
    assert peeked(ph, OTHER) == []


@pytest.mark.parametrize(
    "line",
    [
        "no json",
        "[]",
        '{"priority": 8}',
        '{"body": "not base64!"}',
        '{"correlation_id": "12"}',
        '{"delivery": "perhaps"}',
        '{"acknowledge": ["maybe"]}',
        '{"body_text": "\\ud800"}',
        '{"label": "' + "x" * 300 + '"}',
        '{"app_specific": -1}',
        "\udcff",
    ],
)
def test_a_bad_line_is_named_and_nothing_is_sent(ph: Posthouse, tmp_path: Path, line: str) -> None:
    file = tmp_path / "lines"
    file.write_text(f'{{"body_text": "good"}}\n{line}\n', errors="surrogateescape")
    refused = ph("message", "import", file, OTHER)
    assert refused.code == 1
    assert "line 2: " in refused.err
    assert peeked(ph, OTHER) == []


def test_a_refused_message_says_how_far_it_came(ph: Posthouse) -> None:
    refused = ph("message", "import", "-", "./private$/nowhere", stdin=b"{}")
    assert refused.code == 1
    assert refused.err.startswith("MQ_ERROR_"), "nothing was sent, and nothing told of that"


def test_a_file_that_is_not_there_is_wrong_usage(ph: Posthouse, tmp_path: Path) -> None:
    assert ph("message", "import", tmp_path / "none", OTHER).code == 2


def test_a_field_that_is_none_is_not_passed_over(ph: Posthouse, tmp_path: Path) -> None:
    """A name that was written wrong sent an empty message, and the exit code was 0."""
    file = tmp_path / "typed.jsonl"
    for text, near in (
        ('{"lable": "x", "body_text": "y"}', "label"),
        ('{"text": "y"}', "body_text"),
        ('{"PRIORITY": 7, "body_text": "y"}', "priority"),
        ('{"greeting": "y"}', "Correct that field"),
    ):
        file.write_text('{"body_text": "first"}\n' + text + "\n")
        said = ph("message", "import", file, ORDERS)
        assert (said.code, "line 2: " in said.err, near in said.err) == (1, True, True)
    assert peeked(ph, ORDERS) == []
    ph("send", OTHER, "--body", "x")
    file.write_text(ph("peek", OTHER, "--json").out)
    assert ph("message", "import", file, ORDERS).code == 0, "all that peek prints is known"


@pytest.mark.parametrize(
    "name", ["partition", "kind", "amount", "user", "queue_manager", "content_type"]
)
def test_fields_of_ones_own_beside_a_body_are_passed_over(ph: Posthouse, name: str) -> None:
    """They do not look like a field that was written wrong, and were taken for one."""
    line = json.dumps({"body_text": "x", name: 1}).encode()
    assert ph("message", "import", "-", ORDERS, stdin=line).out == f"Sent 1 message to {ORDERS}.\n"


def test_a_folder_without_messages_is_a_mistake(ph: Posthouse, tmp_path: Path) -> None:
    said = ph("message", "import", tmp_path, ORDERS)
    assert (said.code, "has no messages" in said.err) == (2, True)
