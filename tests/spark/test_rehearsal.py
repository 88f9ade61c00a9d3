"""`pipeline rehearse`: requests to a shadow queue, and the answers of a new consumer compared."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from posthouse.cli import main
from posthouse.model.errors import IoTimeout
from posthouse.spark.rehearsal import differing
from posthouse.spark.watching.sampling import packed_id
from tests.process.spark_office import SparkOffice, path_of

Answer = Callable[[int], list[bytes]]


def old_answer(number: int) -> list[bytes]:
    return [b'{"order": %d, "ok": true, "at": "2020-01-01T00:00:00Z"}' % number]


@contextmanager
def consumer(office: SparkOffice, queue: str, answer: Answer) -> Iterator[None]:
    """Reads requests of a queue and answers them, until the block ends."""
    stop = threading.Event()

    def work() -> None:
        with office.connect() as qm:
            requests = qm.queue(path_of(queue))
            while not stop.is_set():
                try:
                    message = requests.receive(timeout=0.05)
                except IoTimeout:
                    continue
                answers = qm.queue(message.to_json().response_queue)
                for body in answer(int(message.label)):
                    identifier = bytes.fromhex(packed_id(message.id))
                    answers.send(body, correlation=identifier, recoverable=True)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)
        assert not thread.is_alive()


class Town:
    """Requests that an old consumer has answered; their journal has them."""

    def __init__(self, office: SparkOffice, queue: Callable[..., str]) -> None:
        self.office = office
        self.requests, self.answers = queue(journal=True), queue()
        self.shadow, self.new_answers = queue(), queue()
        target = office.qm.queue(path_of(self.requests))
        with consumer(office, self.requests, old_answer):
            for number in range(6):
                target.send(
                    b'{"order": %d}' % number,
                    label=str(number),
                    response_queue=path_of(self.answers),
                    recoverable=True,
                )
            while office.count(self.answers) < 6:
                threading.Event().wait(0.05)

    def run(self, *more: str) -> int:
        return main.run(
            [
                *("pipeline", "rehearse", f"{path_of(self.requests)};journal"),
                *("--to", self.shadow, "--answers", self.answers),
                *("--new-answers", self.new_answers),
                *("--url", self.office.url, "--token-file", str(self.office.token_file), *more),
            ]
        )


@pytest.fixture
def town(office: SparkOffice, queue: Callable[..., str]) -> Town:
    return Town(office, queue)


def test_a_consumer_that_answers_alike_passes(
    town: Town, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(number: int) -> list[bytes]:
        return [b'{"ok": true, "at": "2026-01-01T00:00:00Z", "order": %d}' % number]

    with consumer(town.office, town.shadow, answer):
        assert town.run("--ignore", "body.AT", "--timeout", "60s") == 0
    assert "6 requests: equal 6." in capsys.readouterr().out
    assert town.office.count(town.answers) == 6, "nothing is received"


def test_each_difference_is_reported(town: Town, capsys: pytest.CaptureFixture[str]) -> None:
    def answer(number: int) -> list[bytes]:
        bodies = {
            0: old_answer(0),
            1: [b'{"order": 1, "ok": false, "at": "2020-01-01T00:00:00Z", "more": [1]}'],
            2: [],
            3: old_answer(3) * 2,
            4: [b"<answer/>"],
            5: [b"\x00\xff"],
        }
        return bodies[number]

    with consumer(town.office, town.shadow, answer):
        assert town.run("--json", "--timeout", "4s") == 1
    *rows, summary = map(json.loads, capsys.readouterr().out.splitlines())
    counts = {"requests": 6, "equal": 1, "differs": 3, "missing": 1, "extra": 1, "no answer": 0}
    assert summary == {"table": "summary", **counts, "encrypted": 0, "unasked": 0}
    found = {row["label"]: row for row in rows}
    assert {row["field"]: (row["old"], row["new"]) for row in found["1"]["differences"]} == {
        "body.ok": ("True", "False"),
        "body.more[0]": (None, "1"),
    }
    assert (found["2"]["result"], found["3"]["result"]) == ("missing", "extra")
    assert {row["field"] for row in found["4"]["differences"]} >= {"type", "body.order"}
    assert found["5"]["differences"][-1]["field"] in ("body", "body.at", "body.ok")


def test_the_queues_of_today_are_not_used(town: Town, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither under another spelling: copies would reach the old consumer."""
    for name in ("shadow", "new_answers"):
        for queue in (town.requests, f"ALPHA/private$/{town.answers.upper()}"):
            kept = getattr(town, name)
            setattr(town, name, queue)
            assert town.run("--timeout", "0s") != 0
            assert "is a queue of the old consumer" in capsys.readouterr().err
            setattr(town, name, kept)
    assert (town.office.count(town.shadow), town.office.count(town.requests)) == (0, 0)


def test_a_queue_without_requests_is_refused(
    town: Town, queue: Callable[..., str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    town.requests = queue()
    assert town.run() == 1
    assert "no requests" in capsys.readouterr().err


def answers(old: bytes, new: bytes, *ignore: str) -> list[str]:
    def row(body: bytes) -> dict[str, Any]:
        return {"body": body, "body_type": 0, "label": "", "extension": b"", "app_specific": 0}

    return [one.field for one in differing(row(old), row(new), ignore)]


def test_ignored_fields_and_order_of_keys_do_not_count() -> None:
    assert answers(b'{"a": 1, "b": 2}', b'{"b": 2, "a": 1}') == []
    assert answers(b'{"a": 1}', b'{"a": 2}') == ["body.a"]
    assert answers(b'{"a": 1}', b'{"a": 2}', "body.A") == []
    assert answers(b'{"x": [{"t": 1}]}', b'{"x": [{"t": 2}]}', "body.x*.t") == []
    assert answers(b"<a><b>1</b></a>", b"<a>\n  <b>1</b>\n</a>") == []
    assert answers(b'{"a": {}}', b'{"a": []}') == ["body.a"]
    assert answers(b"\x00\xff", b"\x00\xfe") == ["body"]
    assert answers(b'{"a": null}', b"{}") == ["body.a", "body"]
