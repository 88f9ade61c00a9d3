"""Errors with `--json`: one line of JSON on standard error for every way to fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from posthouse.cli.error_output import EXPECTED, CommandFailed, failure_of, wants_json
from posthouse.client.errors import CertificateNotTrusted, ServerUnreachable
from posthouse.model.errors import (
    IoTimeout,
    MessageNotFound,
    QueueNotFound,
    RemoteProtocolError,
)
from tests.cli.conftest import Posthouse, Result

FIELDS = ["name", "code", "hex", "cause", "remedy", "hints", "exit_code"]


@pytest.fixture(autouse=True)
def begin(ph: Posthouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ph("queue", "create", "orders")


def error_of(done: Result) -> dict[str, Any]:
    """The error that a command ended with; nothing is on standard output."""
    *_, line = done.err.splitlines()
    (error,) = json.loads(line).values()
    assert list(error) == FIELDS
    assert (error["exit_code"], done.out) == (done.code, "")
    assert error["cause"]
    return dict(error)


def test_a_refusal_of_the_queue_manager(ph: Posthouse) -> None:
    error = error_of(ph("peek", "ordrs", "--json"))
    assert error["name"] == "MQ_ERROR_QUEUE_NOT_FOUND"
    assert (error["code"], error["hex"], error["exit_code"]) == (0xC00E0003, "0xC00E0003", 1)
    assert "posthouse queue list" in error["remedy"]
    assert "orders" in " ".join(error["hints"])


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (("queue", "list", "--bogus", "--json"), "No such option: --bogus"),
        (("list", "--json"), "No such command 'list'."),
        (("--json",), "No such option: --json"),
        (("send", "--json"), "Missing argument 'DEST'."),
        (("peek", "orders", "--count", "x", "--json"), "not a whole number"),
        (("message", "import", "no.jsonl", "orders", "--json"), "no.jsonl"),
    ],
)
def test_wrong_usage(ph: Posthouse, words: tuple[str, ...], cause: str) -> None:
    error = error_of(ph(*words))
    assert (error["name"], error["code"], error["exit_code"]) == ("WRONG_USAGE", None, 2)
    assert error["hex"] is None
    assert cause in error["cause"]


def test_not_reachable(posthouse: Posthouse, tmp_path: Path) -> None:
    for words in (("--home", tmp_path / "none"), ("--url", "http://127.0.0.1:1")):
        error = error_of(posthouse("status", *words, "--json"))
        assert (error["name"], error["exit_code"]) == ("NOT_REACHABLE", 3)
        assert "posthouse serve" in error["remedy"]


def test_a_question_that_was_answered_with_no(ph: Posthouse) -> None:
    done = ph("queue", "purge", "orders", "--json", stdin=b"n\n", terminal=True)
    error = json.loads(done.err[done.err.index("{") :])["error"]
    assert (error["name"], error["exit_code"]) == ("CANCELLED", done.code) == ("CANCELLED", 1)


def test_a_packet_that_is_not_valid(ph: Posthouse, tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"\x10\x00\x03\x00LIOR" + bytes(8))
    error = error_of(ph("decode", "x.bin", "--json"))
    assert (error["name"], error["exit_code"]) == ("NOT_A_VALID_PACKET", 1)


def test_commands_that_cannot_do_their_work(posthouse: Posthouse, tmp_path: Path) -> None:
    error = error_of(posthouse("demo", "--home", tmp_path.parent, "--json"))
    assert (error["name"], error["exit_code"]) == ("REFUSED", 2)
    (tmp_path / "posthouse.toml").write_text("[queue_manager]\nnmae = 1\n[stoer]\n")
    error = error_of(posthouse("serve", "--home", tmp_path, "--json"))
    assert (error["name"], error["exit_code"]) == ("WRONG_SETTINGS", 2)
    assert "nmae" in error["cause"]
    assert "stoer" in error["cause"]
    (tmp_path / "posthouse.toml").write_text('[admin]\nlisten = "192.0.2.1"\ninsecure = true\n')
    error = error_of(posthouse("serve", "--home", tmp_path, "--ports", "ephemeral", "--json"))
    assert (error["name"], error["exit_code"]) == ("NOT_STARTED", 1)


def test_what_else_a_command_has_to_say(ph: Posthouse) -> None:
    """Every line on standard error is JSON then; a lookup id that is not there is a note."""
    words = ("message", "delete", "orders", "--lookup-id", "999", "--yes")
    done = ph(*words, "--json")
    assert done.code == 4
    assert done.value["gone"] == 1
    (line,) = done.err.splitlines()
    assert "not in the queue" in json.loads(line)["note"]
    assert ph(*words).err == json.loads(line)["note"] + "\n"


@pytest.mark.parametrize(
    ("error", "name", "code"),
    [
        (typer.BadParameter("bad"), "WRONG_USAGE", 2),
        (typer.Abort(), "CANCELLED", 1),
        (CommandFailed("cause", "remedy"), "REFUSED", 1),
        (QueueNotFound("no queue"), "MQ_ERROR_QUEUE_NOT_FOUND", 1),
        (IoTimeout("no message"), "MQ_ERROR_IO_TIMEOUT", 4),
        (MessageNotFound("it is gone"), "MQ_ERROR_MESSAGE_NOT_FOUND", 4),
        (RemoteProtocolError("broken"), "NOT_A_VALID_PACKET", 1),
        (ServerUnreachable("away"), "NOT_REACHABLE", 3),
        (CertificateNotTrusted("not trusted"), "NOT_REACHABLE", 3),
        (ConnectionResetError("reset"), "NOT_REACHABLE", 3),
        (TimeoutError("late"), "NOT_REACHABLE", 3),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), "WRONG_USAGE", 2),
        (FileNotFoundError(2, "No such file or directory", "/nope"), "WRONG_USAGE", 2),
        (PermissionError(13, "Permission denied", "/root"), "INPUT_OUTPUT", 1),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_every_kind_of_error_has_a_name_and_a_code(
    error: Exception, name: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert isinstance(error, EXPECTED)
    assert failure_of(error).tell(json=True) == code
    told = json.loads(capsys.readouterr().err)["error"]
    assert (told["name"], told["exit_code"]) == (name, code)
    assert failure_of(error).tell(json=False) == code
    assert told["cause"].rstrip(". ") in capsys.readouterr().err


def test_words_of_another_command_are_not_its_options() -> None:
    assert wants_json(["job", "server", "run", "A", "--json", "--", "cat"])
    assert not wants_json(["job", "server", "run", "A", "--", "cat", "--json"])
