"""Traces of messages: two real queue managers, and a collector that decodes what they send."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

import posthouse
from tests.process.offices import Office, wait_until
from tests.process.otlp_receiver import Collector, Got

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
TELEMETRY = """
[telemetry]
endpoint = "{url}"
delay_ms = 20
{more}
"""


def telemetry(url: str, more: str = "") -> str:
    return TELEMETRY.format(url=url, more=more)


class Caller:
    """Asks the API over plain HTTP."""

    def __init__(self, office: Office) -> None:
        self.office = office
        self.token = office.qm.call("POST", "/tokens", {"role": "administer"})["token"]
        self.address = json.loads((office.server.home.parent / "ready.json").read_text())[
            "endpoints"
        ]["admin"]

    def ask(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> tuple[dict[str, str], str]:
        request = urllib.request.Request(
            f"http://{self.address}{path}",
            None if body is None else json.dumps(body).encode(),
            {
                "Authorization": f"Bearer {self.token}",
                "Content-Type": "application/json",
                **headers,
            },
            method=method,
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return dict(answer.headers.items()), answer.read().decode()

    def send(self, queue: str, body: dict[str, Any], **headers: str) -> str:
        path = f"/api/v1/queues/{urllib.parse.quote(queue, safe='')}/messages"
        return str(json.loads(self.ask("POST", path, body, **headers)[1])["id"])

    def receive(self, queue: str) -> tuple[dict[str, str], dict[str, Any]]:
        path = f"/api/v1/queues/{urllib.parse.quote(queue, safe='')}/receive"
        headers, text = self.ask("POST", path, {"timeout_ms": 30_000})
        return headers, json.loads(text)["messages"][0]

    def spans(self) -> dict[str, float]:
        """The metric, by result."""
        text = self.ask("GET", "/metrics")[1]
        return {
            sample.labels["result"]: sample.value
            for family in text_string_to_metric_families(text)
            if family.name == "posthouse_spans"
            for sample in family.samples
            if sample.name == "posthouse_spans_total"
        }


@pytest.fixture
def running() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def came(collector: Collector, count: int) -> list[Got]:
    """The spans, once there are so many."""
    wait_until(lambda: len(collector.spans) >= count, lambda: collector.spans)
    return collector.spans


def test_one_trace_from_http_to_a_reader_on_another_machine(
    tmp_path: Path, running: ExitStack
) -> None:
    """Send, arrive and deliver here, arrive and receive there: children of the sender's span."""
    collector = running.enter_context(Collector())
    headers = tmp_path / "headers"
    headers.write_text("Authorization: Bearer collector's secret\n")
    more = telemetry(collector.url, f'headers_file = "{headers}"')
    alpha = Office(tmp_path / "a", "ALPHA", running, more)
    beta = Office(tmp_path / "b", "BETA", running, more)
    beta.create("orders")
    caller = Caller(alpha)
    name = beta.name_of("orders")
    identifier = caller.send(
        name,
        {"label": "a secret label", "body_text": "a secret body", "delivery": "recoverable"},
        traceparent=PARENT,
        tracestate="rojo=1,congo=2",
    )
    message = beta.qm.queue(r".\private$\orders").receive(timeout=60)
    assert (message.traceparent, message.tracestate) == (PARENT, "rojo=1,congo=2")
    spans = came(collector, 5)
    assert sorted((span.instance, span.operation) for span in spans) == [
        ("ALPHA", "arrive"),
        ("ALPHA", "deliver"),
        ("ALPHA", "send"),
        ("BETA", "arrive"),
        ("BETA", "receive"),
    ]
    assert {(span.trace_id, span.parent_id) for span in spans} == {(TRACE, SPAN)}
    assert len({span.span_id for span in spans}) == 5
    kinds = {span.operation: span.kind for span in spans}
    assert kinds == {"send": 4, "arrive": 1, "deliver": 3, "receive": 5}
    for span in spans:
        assert span.attributes["messaging.system"] == "msmq"
        assert span.attributes["messaging.message.id"] == identifier
        assert span.name == f"{span.operation} {span.attributes['messaging.destination.name']}"
        assert span.took_ns >= 0
        assert span.state == "rojo=1,congo=2"
        assert "secret" not in repr(span)
    assert all(one["authorization"] == "Bearer collector's secret" for one in collector.requests)
    log = (alpha.server.home / "logs" / "posthouse.log").read_text()
    assert "secret" not in log


def test_what_the_api_answers_and_refuses(tmp_path: Path, running: ExitStack) -> None:
    """A receive answers with the context; bad headers of HTTP are passed over, bad fields not."""
    collector = running.enter_context(Collector())
    alpha = Office(tmp_path / "a", "ALPHA", running, telemetry(collector.url, "labels = true"))
    alpha.create("in")
    caller, queue = Caller(alpha), r".\private$\in"
    caller.send(queue, {"label": "shown"}, traceparent=PARENT)
    headers, message = caller.receive(queue)
    assert headers["traceparent"] == message["traceparent"] == PARENT
    assert {span.attributes["messaging.msmq.label"] for span in came(collector, 3)} == {"shown"}
    caller.send(queue, {"traceparent": PARENT, "tracestate": "a=1"})
    assert caller.receive(queue)[1]["tracestate"] == "a=1"
    came(collector, 6)
    for bad in ("00-XYZ", PARENT.upper(), PARENT + "0", PARENT.replace(SPAN, "0" * 16)):
        caller.send(queue, {"body_text": "kept"}, traceparent=bad)
        headers, message = caller.receive(queue)
        assert "traceparent" not in headers
        assert "traceparent" not in message
        assert message["extension"] == ""
    with pytest.raises(urllib.error.HTTPError) as refused:
        caller.send(queue, {"traceparent": "00-XYZ"})
    assert "looks like" in refused.value.read().decode()
    unsampled = PARENT[:-2] + "00"
    caller.send(queue, {}, traceparent=unsampled)
    assert caller.receive(queue)[1]["traceparent"] == unsampled
    caller.send(queue, {}, traceparent=PARENT)  # what came before it has come, too
    came(collector, 8)
    assert len(collector.spans) == 8


def test_batches_transactions_and_returned_messages(tmp_path: Path, running: ExitStack) -> None:
    """One span for all of a trace; many traces are links; an aborted receive shows it."""
    collector = running.enter_context(Collector())
    alpha = Office(tmp_path / "a", "ALPHA", running, telemetry(collector.url))
    alpha.create("in", transactional=True)
    queue = alpha.qm.queue(r".\private$\in")
    queue.send_many([b"x"] * 10, transactional=True, traceparent=PARENT)
    assert {span.attributes["messaging.batch.message_count"] for span in came(collector, 2)} == {10}
    with alpha.qm.transaction() as tx:
        queue.receive(tx=tx)
        tx.abort()
    with alpha.qm.transaction() as tx:
        assert queue.receive(tx=tx).traceparent == PARENT
    spans = came(collector, 4)
    assert [(span.operation, span.fault) for span in spans[2:]] == [
        ("receive", "returned"),
        ("receive", ""),
    ]
    many = [
        posthouse.Draft(b"y", traceparent=f"00-{number:032x}-{SPAN}-01") for number in range(1, 101)
    ]
    queue.send_many(many, transactional=True)
    linked = [span for span in came(collector, 6)[4:] if len(span.links) == 100]
    assert [span.operation for span in linked] == ["send", "arrive"]
    assert {span.parent_id for span in linked} == {""}


def test_messages_without_a_context_get_a_trace_of_their_own(
    tmp_path: Path, running: ExitStack
) -> None:
    """Both queue managers come to the same one, with the send as its root."""
    collector = running.enter_context(Collector())
    more = telemetry(collector.url, "ratio = 1.0")
    alpha = Office(tmp_path / "a", "ALPHA", running, more)
    beta = Office(tmp_path / "b", "BETA", running, more)
    beta.create("orders")
    alpha.qm.queue(beta.name_of("orders")).send(b"bare", recoverable=True)
    message = beta.qm.queue(r".\private$\orders").receive(timeout=60)
    assert (message.extension, message.traceparent) == (b"", "")
    spans = came(collector, 5)
    assert len({span.trace_id for span in spans}) == 1
    (root,) = [span for span in spans if span.operation == "send"]
    assert root.parent_id == ""
    assert {span.parent_id for span in spans if span is not root} == {root.span_id}


@pytest.mark.parametrize("trouble", ["away", "slow", "broken"])
def test_a_collector_in_trouble_costs_spans_only(
    tmp_path: Path, running: ExitStack, trouble: str
) -> None:
    """Messages pass as ever; what waits is bounded, the rest is counted; the stop is not late."""
    gate = threading.Event()
    running.callback(gate.set)

    def answer() -> int:
        if trouble == "slow":
            gate.wait(60)
        return 500

    with Collector(answer) as collector, ExitStack() as office:
        if trouble == "away":
            with Collector() as gone:
                url = gone.url
        else:
            url = collector.url
        more = telemetry(url, "queue_max = 100\nbatch_max = 10")
        alpha = Office(tmp_path / "a", "ALPHA", office, more)
        alpha.create("in")
        queue, caller = alpha.qm.queue(r".\private$\in"), Caller(alpha)
        for number in range(300):
            queue.send(b"x", traceparent=f"00-{number + 1:032x}-{SPAN}-01")
        received = [queue.receive(timeout=30) for _ in range(300)]
        assert [int(message.traceparent[3:35], 16) for message in received] == [*range(1, 301)]
        wait_until(lambda: sum(caller.spans().values()) >= 900 - 100 - 10, caller.spans)
        assert caller.spans()["exported"] == 0
        alpha.qm.close()
        alpha.server.stop()  # cleanly, while a request may be under way
        gate.set()
