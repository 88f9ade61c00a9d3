"""`posthouse pipeline watch` over real queues: alarms reach log, queue and webhook."""

from __future__ import annotations

import json
import re
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from posthouse.cli import main
from posthouse.cli.pipelines import watch
from posthouse.client import arrow_read
from posthouse.client.admin_http import BulkHttp, segment
from posthouse.client.arrow_read import PlannedQueue
from posthouse.client.errors import ServerUnreachable
from posthouse.spark.watching import delivery
from posthouse.spark.watching.delivery import Delivery
from posthouse.spark.watching.observations import Alarm, Look, QueueSample
from posthouse.spark.watching.rules_file import Targets
from posthouse.spark.watching.sampling import Sampler
from tests.process.spark_office import SparkOffice, path_of

ALARM = Alarm("dead", "x", "five dead letters", 1_800_000_000.0, 5.0)


@contextmanager
def hooks(status: int = 200) -> Iterator[tuple[str, list[dict[str, object]]]]:
    """A server for webhooks; what it got."""
    got: list[dict[str, object]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            got.append(json.loads(self.rfile.read(size)) | {"path": self.path})
            self.send_response(status)
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", got
        finally:
            server.shutdown()
            thread.join(60)


@pytest.fixture
def http(office: SparkOffice) -> Iterator[BulkHttp]:
    with BulkHttp(office.url, token_file=str(office.token_file)) as made:
        yield made


def test_a_look_shows_counts_ages_and_what_is_new(
    office: SparkOffice, queue: Callable[..., str], http: BulkHttp
) -> None:
    name = queue(journal=True)
    target = office.qm.queue(path_of(name))
    sent = target.send(b"question", response_queue=path_of(name), label="a")
    sampler = Sampler(http, [path_of(name)])
    first = sampler.look()
    (sample,) = first.queues
    assert (sample.messages, sample.oldest_s is not None) == (1, True)
    (request,) = first.messages
    assert request.wants_answer
    assert sampler.look().messages == ()
    office.qm.queue(path_of(name)).receive(timeout=5)
    target.send(b"answer", correlation=bytes.fromhex(request.id))
    target.send(b"<order><id>7</id></order>", dead_letter=True)
    target.purge()
    seen = sampler.look().messages
    journal = [one for one in seen if one.queue.endswith(f"{name};journal")]
    dead = [one for one in seen if one.queue.endswith(";deadletter")]
    assert [one.id for one in journal] == [request.id]
    assert [(one.reason, one.shape.split()[0]) for one in dead] == [("nack-queue-purged", "xml")]
    assert str(sent)


def test_a_message_moved_to_a_subqueue_and_back_is_a_second_row(
    office: SparkOffice, queue: Callable[..., str], http: BulkHttp
) -> None:
    """It becomes available again, with a new lookup id (docs/spark-guarantees.md)."""
    path = path_of(queue())
    office.qm.queue(path).send(b"a", recoverable=True)

    def seen(after: int) -> list[dict[str, Any]]:
        (plan,) = arrow_read.plan(http, [PlannedQueue(path, after=after)]).queues
        columns = ("lookup_id", "id", "move_count")
        batches = arrow_read.read(http, plan.queue, after, plan.end, columns)
        return [row for batch in batches for row in batch.to_pylist()]

    (first,) = seen(0)
    for source, target in ((path, f"{path};retry"), (f"{path};retry", path)):
        body = {"where": "priority >= 0", "to": target}
        assert http.call("POST", f"/queues/{segment(source)}/move", body)["done"] == 1
    (second,) = seen(first["lookup_id"])
    assert (second["id"], second["move_count"]) == (first["id"], 2)
    assert seen(second["lookup_id"]) == []


def test_an_answer_is_known_by_its_correlation(
    office: SparkOffice, queue: Callable[..., str], http: BulkHttp
) -> None:
    name = queue()
    target = office.qm.queue(path_of(name))
    target.send(b"question", response_queue=path_of(name))
    sampler = Sampler(http, [path_of(name)])
    (request,) = sampler.look().messages
    target.send(b"answer", correlation=bytes.fromhex(request.id))
    (answer,) = sampler.look().messages
    assert (answer.correlation, request.correlation) == (request.id, "")


class CutHttp(BulkHttp):
    """The connection is cut when messages of a queue are read, once."""

    cut_at = ""

    def read_arrow(self, path: str, *, constants: bool = False) -> Iterator[Any]:
        if self.cut_at and self.cut_at in path:
            self.cut_at = ""
            raise ServerUnreachable("the line is cut")
        return super().read_arrow(path, constants=constants)


def test_a_look_that_fails_at_a_later_queue_loses_nothing(
    office: SparkOffice, queue: Callable[..., str]
) -> None:
    names = [queue(), queue()]
    for name in names:
        office.qm.queue(path_of(name)).send(b"new")
    with CutHttp(office.url, token_file=str(office.token_file)) as http:
        sampler = Sampler(http, [path_of(name) for name in names])
        http.cut_at = names[1]
        with pytest.raises(ServerUnreachable):
            sampler.look()
        seen = sampler.look().messages
        assert [one.queue.rpartition("\\")[2] for one in seen] == names
        assert sampler.look().messages == ()


def test_an_alarm_goes_everywhere(
    office: SparkOffice, queue: Callable[..., str], http: BulkHttp, tmp_path: Path
) -> None:
    name, log = queue(), tmp_path / "alarms.jsonl"
    with hooks() as (url, got):
        targets = Targets(str(log), path_of(name), [f"{url}/hook?key=1"])
        assert list(Delivery(targets, http).deliver([ALARM])) == []
    assert got[0] == json.loads(log.read_text()) | {"path": "/hook?key=1"}
    (body,) = office.bodies(name)
    assert json.loads(body.decode("utf-16-le" if b"\0" in body else "utf-8"))["rule"] == "dead"


def test_a_target_that_fails_is_named_and_the_others_get_the_alarm(
    http: BulkHttp, tmp_path: Path
) -> None:
    with hooks(302) as (url, moved), hooks() as (other, got):
        dead = "http://127.0.0.1:1/hook"
        targets = Targets(str(tmp_path), ".\\private$\\nowhere", [f"{url}/secret", dead, other])
        problems = list(Delivery(targets, http).deliver([ALARM]))
    assert len(moved) == len(got) == 1
    assert [
        word in problem
        for word, problem in zip(
            ("not logged", "nowhere", "answered 302", "does not answer"), problems, strict=True
        )
    ] == [True] * 4
    assert "secret" not in "".join(problems)


@contextmanager
def trickling(cut: threading.Event) -> Iterator[str]:
    """A server that answers a byte now and then, for as long as anybody reads."""

    def serve() -> None:
        with suppress(OSError):
            connection, _ = listener.accept()
            with connection:
                while not cut.wait(0.02):
                    connection.sendall(b"H")
                    if select.select([connection], [], [], 0)[0] and not connection.recv(1 << 16):
                        break
        cut.set()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/secret"
        cut.wait(60)
        thread.join(60)


def test_a_webhook_that_trickles_has_an_end_and_the_others_get_the_alarm(
    http: BulkHttp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte is in time; all of them would never be."""
    monkeypatch.setattr(delivery, "WEBHOOK_TIMEOUT_S", 0.3)
    cut = threading.Event()
    with trickling(cut) as slow, hooks() as (other, got):
        (problem,) = Delivery(Targets("", "", [slow, other]), http).deliver([ALARM])
        assert len(got) == 1
        assert cut.wait(10)  # nothing of it goes on
    assert "127.0.0.1 does not answer: it has taken more than 0.3 s" in problem


RULES = """
queues = ["{path}"]
state = "{folder}/known.json"
[alarms]
log = "{folder}/alarms.jsonl"
[[rule]]
name = "old"
kind = "oldest-age"
queues = ["./private$/*"]
over = "1ms"
[[rule]]
name = "strangers"
kind = "new-senders"
queues = ["*"]
"""


def test_the_command_looks_and_alarms(
    office: SparkOffice,
    queue: Callable[..., str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = queue()
    office.send(name, [b"x"])
    file, page = tmp_path / "rules.toml", tmp_path / "page.html"
    text = RULES.format(path=path_of(name).replace("\\", "/"), folder=tmp_path)
    file.write_text(text, encoding="utf-8")
    access = ["--url", office.url, "--token-file", str(office.token_file)]
    words = ["pipeline", "watch", str(file), "--once", "--page", str(page)]
    assert main.run([*words, *access, "--json"]) == 0
    # A time of MSMQ is a whole second: the message may not be older than this look.
    for line in capsys.readouterr().out.splitlines():
        assert json.loads(line)["rule"] == "old"
    assert name in page.read_text(encoding="utf-8")
    assert list(json.loads((tmp_path / "known.json").read_text())) == ["strangers"]
    (tmp_path / "known.json").write_text("[7", encoding="utf-8")
    assert main.run([*words, *access]) == 1
    (problem,) = capsys.readouterr().err.splitlines()
    assert "known.json" in problem
    file.write_text("queues = 7", encoding="utf-8")
    assert main.run([*words, *access]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(("every_s", "refreshed"), [(2.5, ["3"]), (0, [])])
def test_a_page_that_is_open_follows_the_watch(
    tmp_path: Path, every_s: float, refreshed: list[str]
) -> None:
    seen = Look(1_700_000_000.0, (QueueSample("A\\private$\\orders", 3, 1_699_999_990.0),))
    page = tmp_path / "page.html"
    watch._write_page(page, seen, [], every_s)
    html = page.read_text(encoding="utf-8")
    assert re.findall(r'http-equiv="refresh" content="(\d+)"', html) == refreshed
    assert "As of 2023-11-14 22:13:20 UTC" in html
    assert "private$\\orders" in html


def test_an_alarm_that_is_not_delivered_is_a_failure_of_one_check(
    office: SparkOffice, queue: Callable[..., str], tmp_path: Path
) -> None:
    """A watch that cron starts had exit code 0, whatever became of its alarms."""
    name = queue()
    office.send(name, [b"x"])
    for log, code in ((tmp_path / "log", 0), (tmp_path, 1)):
        file = tmp_path / "rules.toml"
        file.write_text(
            f"queues = ['{path_of(name)}']\n[alarms]\nlog = '{log}'\n"
            "[[rule]]\nkind = 'oldest-age'\nname = 'old'\nqueues = ['*']\nover = '1ms'\n"
        )
        access = ["--url", office.url, "--token-file", str(office.token_file)]
        words = ["pipeline", "watch", str(file), "--once", *access]
        assert main.run(words) == code
