"""Functions of `replay --map`: what they get, may return, and how their faults are told."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from posthouse.model.errors import InvalidParameter
from posthouse.spark.jobs.pipeline_requests import read_order
from posthouse.spark.replay_map import (
    FunctionFailed,
    ReplayMessage,
    is_function,
    load_function,
    pieces,
    tried,
)

NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)
ORDERS = "ALPHA\\private$\\orders"


def row(number: int, **more: Any) -> dict[str, Any]:
    """A message as a lake has it."""
    return {
        "queue_manager": "ALPHA",
        "queue": ORDERS,
        "lookup_id": number,
        "id": f"x\\{number}",
        "body": b'{"id": 7}',
        "body_type": 0,
        "label": "a",
        "priority": 3,
        "extension": None,
        "correlation_id": "0" * 40,
        "response_queue": None,
        "app_specific": 0,
        "time_to_be_received": None,
        "sent_time": NOON,
        "arrived_time": NOON,
        "destination": ".\\private$\\new",
        "delivery": "recoverable",
        **more,
    }


def loaded(folder: Path, body: str) -> Any:
    """A function with these lines."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    (folder / "f.py").write_text(f"def change(message):\n{lines}\n", encoding="utf-8")
    return load_function(f"{folder / 'f.py'}:change")


def test_a_body_may_be_a_value_and_a_text(tmp_path: Path) -> None:
    function = loaded(tmp_path, "message.body = message.json() | {'seen': True}\nreturn message")
    assert function(ReplayMessage(row(1))).to_row()["body"] == b'{"id":7,"seen":true}'
    function = loaded(tmp_path, "message.body = message.text.upper()\nreturn message")
    made = function(ReplayMessage(row(1, body="é".encode("utf-16-le"), body_type=8))).to_row()
    assert (made["body"], made["body_type"]) == ("É".encode("utf-16-le"), 8)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("message.lable = 'x'\nreturn message", "AttributeError"),
        ("message.id = 'x'\nreturn message", "AttributeError"),
        ("message.destination = 'x'\nreturn message", "AttributeError"),
        ("message.label = 7\nreturn message", "TypeError: label is int, not str"),
        ("message.priority = True\nreturn message", "TypeError: priority is bool, not int"),
        ("message.body = object()\nreturn message", "TypeError: a body is bytes"),
        ("message.body = {1: object()}\nreturn message", "cannot be written as JSON"),
        ("return 'x'", "TypeError: it returned str, not the message and not None"),
        ("return type(message)({**message._row, 'id': 'y'})", "it returned another message"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("raise ValueError('a\\nb')", "ValueError: a b"),
        ("raise ValueError('x' * 9999)", r"ValueError: x{300}\. Nothing was sent"),
    ],
)
def test_faults_are_one_line_with_the_message(tmp_path: Path, lines: str, words: str) -> None:
    with pytest.raises(FunctionFailed, match=words) as caught:
        loaded(tmp_path, lines)(ReplayMessage(row(17)))
    assert "\n" not in str(caught.value)
    assert "x\\17 (lookup id 17 of" in caught.value.cause


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("message.label = 'x' * 300", "lookup id 3 .* label: "),
        ("message.priority = 9", "lookup id 3 .* priority: 9 is not between"),
        ("message.priority = 2 ** 70", "cannot be written"),
        ("message.correlation_id = 'x'", "lookup id 3 .* 40 hexadecimal"),
        ("message.response_queue = 'a b'", "lookup id 3 .* response_queue"),
        ("message.body = bytes(5 << 20)", "lookup id 3 .* body: "),
    ],
)
def test_what_cannot_be_sent_is_found_before_anything_is(
    tmp_path: Path, lines: str, words: str
) -> None:
    function = loaded(tmp_path, f"if message.lookup_id == 3:\n    {lines}\nreturn message")
    with pytest.raises(FunctionFailed, match=words):
        tried(function, [row(number) for number in range(1, 6)], same_ids=False)


def test_messages_are_staged_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posthouse.spark.replay_map.PIECE_MAX", 30)
    found = list(pieces(map(ReplayMessage, map(row, range(10))), "f", same_ids=False))
    assert [one.num_rows for one in found] == [4, 4, 2]
    assert "id" not in found[0].schema.names


def test_what_a_function_prints_is_not_mixed_with_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded(tmp_path, "print('looking')\nreturn message")(ReplayMessage(row(1)))
    assert capsys.readouterr() == ("", "looking\n")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("absent.py:change", None, "No such file"),
        ("f.py:other", "def change(message): pass", "has no function other"),
        ("f.py:change", "change = 7", "has no function change"),
        ("f.py:change", "def change(", "SyntaxError"),
        ("f.py:change", "import absent_module", "ModuleNotFoundError"),
        ("f.py:change", "raise SystemExit(1)", "SystemExit"),
    ],
)
def test_a_file_that_has_no_such_function_is_refused(
    tmp_path: Path, name: str, content: str | None, words: str
) -> None:
    if content is not None:
        (tmp_path / "f.py").write_text(content, encoding="utf-8")
    with pytest.raises(InvalidParameter, match=words) as caught:
        load_function(str(tmp_path / name))
    assert "\n" not in str(caught.value)


def test_functions_are_told_from_queues() -> None:
    assert is_function("changes.py:change")
    assert is_function("a=b/changes.py:change")
    assert not is_function(".\\private$\\a=.\\private$\\b.py")
    assert not is_function("a=DIRECT=OS:host\\private$\\b")


@pytest.mark.parametrize("name", ["map", "function", "accept_changed"])
def test_a_job_cannot_name_a_function(name: str) -> None:
    order = f'{{"pipeline": "replay", "to": "origin", "{name}": "changes.py:change"}}'
    with pytest.raises(ValueError, match=f"unknown field `{name}`"):
        read_order(order.encode())
