"""The queue manager over the API: status, books, transactions, offline, backup, metrics, pages."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from posthouse.engine.ledger.books import Books
from posthouse.engine.ledger.effects import Event
from posthouse.model.guids import format_guid
from posthouse.model.properties import QueueAccessType
from posthouse.model.roles import Role
from posthouse.protocols.handlers.rates import Rates
from posthouse.protocols.handlers.request_steps import Decide
from posthouse.protocols.http import page
from posthouse.protocols.metrics import exposition as metrics
from posthouse.security.access import Caller
from posthouse.security.rights import QUEUE_GENERIC_ALL
from tests.engine.rig import Rig
from tests.protocols.admin.api_rig import AUDIT, ORDERS, ApiRig, at, with_api

ADMIN = Caller.administrator()
HOSTILE = ".\\private$\\a{b}'c\u00fcd"


def test_status_and_books(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await rig.send(label="one")
        await rig.get("/api/v1/queues/x/y/z")
        status = (await rig.get("/api/v1/status")).json
        assert (status["name"], status["version"], status["state"]) == ("ALPHA", "9.9", "ready")
        assert status["messages"] == 1
        assert {"name": "MQ_ERROR", "count": 1} in status["refusals"]
        books = (await rig.get("/api/v1/books")).json
        (orders,) = [line for line in books["books"] if line["queue"].endswith("orders")]
        assert (orders["accepted"], orders["waiting"], orders["balanced"]) == (1, 1, True)
        assert books["balanced"] is True
        assert set(orders) - {"queue", "balanced"} == set(Books.__dataclass_fields__)

    with_api(tmp_path, work)


def test_books_come_page_by_page(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        for number in range(5):
            await rig.create(rf".\private$\q{number}")
        whole = (await rig.get("/api/v1/books")).json
        lines, after = list[Any](), 0
        while after is not None:
            page = (await rig.get("/api/v1/books", limit="2", after=str(after))).json
            assert len(page["books"]) <= 2
            lines += page["books"]
            after = page["next"]
        assert lines == whole["books"]
        assert whole["next"] is None

    with_api(tmp_path, work)


def test_who_may_not_see_everything_hears_of_what_he_may_see(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await rig.create(AUDIT)
        for queue in (ORDERS, ORDERS, AUDIT):
            await rig.send(queue, label="one")
        await rig.get("/api/v1/nothing")
        for token in (
            await rig.user("bob"),
            await rig.token(role=Role.READ, scopes=((r"*\audit", QUEUE_GENERIC_ALL),)),
        ):
            status = (await rig.get("/api/v1/status", token=token)).json
            assert status["transactions"] is status["in_doubt"] is None
            assert status["refusals"] == []
            listed = (await rig.get("/api/v1/queues", token=token, system="true")).json["queues"]
            assert status["queues"] == len(listed)
            assert status["messages"] == sum(queue["messages"] for queue in listed) < 3
            assert status["bytes"] == sum(queue["bytes"] for queue in listed)

    with_api(tmp_path, work)


def test_prepared_transactions_are_ended_by_hand(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create(AUDIT, transactional=True)
        identifiers = [bytes([number]) * 16 for number in (1, 2, 3)]
        for identifier in identifiers:
            await rig.run(lambda m, i=identifier: prepare(m, i, i[0] < 3))  # type: ignore[misc]
        listed = (await rig.get("/api/v1/transactions")).json["transactions"]
        assert [one["state"] for one in listed] == ["prepared", "prepared", "active"]
        assert [one["operations"] for one in listed] == [1, 1, 1]
        assert listed[0]["coordinator"] == b"me".hex()
        first, second, active = (f"/api/v1/transactions/{format_guid(i)}" for i in identifiers)
        assert (await rig.post(active + "/commit")).status == 404
        assert (await rig.post(first + "/commit")).json == {"done": True}
        assert (await rig.post(second + "/abort")).json == {"done": True}
        assert (await rig.post(second + "/abort")).status == 404
        assert (await rig.post(active + "/abort")).status == 200
        assert await rig.labels(AUDIT) == ["1"]

    with_api(tmp_path, work)


def prepare(manager: object, identifier: bytes, prepared: bool) -> None:
    from posthouse.engine.manager import QueueManager
    from posthouse.model.message import Message

    assert isinstance(manager, QueueManager)
    descriptor = manager.queues.open_queue(AUDIT, QueueAccessType.SEND, ADMIN)
    transaction = manager.transactions.create_transaction(identifier)
    message = Message(label=str(identifier[0]))
    manager.messages.enqueue_message_to_an_open_queue(descriptor, message, transaction)
    if prepared:
        manager.transactions.collection.prepare(identifier, single_phase=False, coordinator=b"me")


def test_offline_and_online(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        assert (await rig.post("/api/v1/offline")).json == {"online": False}
        assert (await rig.get("/api/v1/status")).json["online"] is False
        assert (await rig.post("/api/v1/online")).json == {"online": True}

    with_api(tmp_path, work)


def test_backup_calls_whoever_makes_it(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        made = await rig.post("/api/v1/backup", {"directory": "/copies/1"})
        assert made.json == {"directory": "/copies/1"}
        assert rig.backups == ["/copies/1"]
        for odd in ("copies", "../copies", "~/copies", "/copies\0/1"):
            assert (await rig.post("/api/v1/backup", {"directory": odd})).status == 422
        assert len(rig.backups) == 1
        rig.admin.services.backup = None
        assert (await rig.post("/api/v1/backup", {"directory": "/copies/2"})).status == 501

    with_api(tmp_path, work)


def test_what_fails_for_our_own_reasons_is_told_and_goes_on(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        def broken(directory: str) -> Decide:
            raise RuntimeError(f"secret of {directory}")

        rig.admin.services.backup = broken  # type: ignore[assignment]
        failed = await rig.post("/api/v1/backup", {"directory": "/x"})
        assert failed.status == 500
        assert "secret" not in failed.text
        assert [str(fault) for fault in rig.faults] == ["secret of /x"]
        rig.faults.clear()
        assert (await rig.get("/api/v1/status")).status == 200

    with_api(tmp_path, work)


def test_metrics_can_be_read_by_a_prometheus(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await rig.create(HOSTILE)
        await rig.send(label="one", delivery="recoverable")
        await rig.send(label="two")
        await rig.post(at() + "/receive", {})
        await rig.get("/api/v1/nothing")
        reply = await rig.get("/metrics", token=rig.tokens["read"])
        assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        families = {f.name: f for f in text_string_to_metric_families(reply.text)}
        samples = {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in families.values()
            for sample in family.samples
        }
        queue = ("kind", "private"), ("name", "orders"), ("queue", r"ALPHA\private$\orders")

        def books(outcome: str) -> list[tuple[str, str]]:
            return sorted([*queue, ("outcome", outcome)])

        assert samples["posthouse_queue_messages", *queue] == 1
        assert samples["posthouse_queue_bytes", *queue] > 0
        assert samples["posthouse_queue_oldest_seconds", *queue] >= 0
        assert samples["posthouse_queue_books_total", *books("accepted")] == 2
        assert samples["posthouse_queue_books_total", *books("received")] == 1
        assert samples["posthouse_refusals_total", ("reason", "MQ_ERROR")] == 1
        assert samples["posthouse_books_unbalanced",] == 0
        assert samples["posthouse_sessions",] == 0
        assert samples["posthouse_sync_seconds_count",] > 0
        assert samples["posthouse_http_requests_total", ("method", "GET"), ("status", "404")] == 1
        assert samples["posthouse_info", ("name", "ALPHA"), ("version", "9.9")] == 1
        hostile = HOSTILE.replace(".", "ALPHA")
        assert hostile in {dict(labels).get("queue") for _, *labels in samples}

    with_api(tmp_path, work)


def test_the_page_escapes_whatever_users_named(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create(label="<script>alert('x')</script>&\"")
        reply = await rig.get("/")
        assert reply.status == 200
        assert reply.headers["Content-Type"] == "text/html; charset=utf-8"
        assert "default-src 'none'" in reply.headers["Content-Security-Policy"]
        assert "<script>" not in reply.text
        assert "&lt;script&gt;" in reply.text
        bob = await rig.user("bob")
        assert "orders" not in (await rig.get("/", token=bob)).text

    with_api(tmp_path, work)


def test_health_needs_nothing_and_tells_the_truth(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        reply = await rig.get("/healthz", token=None, headers={"Host": "anything.example"})
        assert (reply.status, reply.text) == (200, "ok\n")
        assert (await rig.post("/healthz", token=None)).status == 405
        rig.admin.pages._healthy = lambda: False
        assert (await rig.get("/healthz", token=None)).status == 503

    with_api(tmp_path, work)


def test_rates_are_what_came_in_a_second() -> None:
    rig, rates = Rig(), Rates()
    queue = rig.create("orders")
    rates.sample(rig.manager, 0)
    assert rates.of(queue.number) == (0, 0)
    for _ in range(20):
        rig.send("orders")
    rig.receive("orders")
    rates.sample(rig.manager, 10_000)
    assert rates.of(queue.number) == (2.0, 0.1)
    assert rates.of(999) == (0, 0)
    for second in range(2, 20):
        rates.sample(rig.manager, second * 10_000)
    assert rates.of(queue.number) == (0, 0)


def test_the_server_stops_while_receives_wait(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        waiting = asyncio.create_task(rig.post(at() + "/receive", {"timeout_ms": 60_000}))
        while not (await rig.get(at())).json["waiting_readers"]:
            pass
        stop = asyncio.create_task(rig.server.stop(5.0))
        await asyncio.wait([stop], timeout=0)
        rig.desk.cancel_waits()
        await stop
        reply = await waiting
        assert (reply.status, reply.json["error"]["name"]) == (503, "MQ_ERROR_OPERATION_CANCELLED")
        rig.server.admin.enter()

    with_api(tmp_path, work)


def test_every_queue_name_fits_a_path(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create(HOSTILE)
        shown = await rig.get(at(HOSTILE))
        assert shown.json["path"] == HOSTILE.replace(".", "ALPHA")
        slashes = await rig.get("/api/v1/queues/" + ".%2Fprivate$%2Fa%7Bb%7D%27c%C3%BCd")
        assert slashes.json["path"] == shown.json["path"]
        assert ORDERS not in shown.text

    with_api(tmp_path, work)


def test_the_log_has_who_changed_what(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        events: list[Event] = []
        rig.desk.driver.on_event = events.append
        await rig.post("/api/v1/users", {"name": "eve", "password": "s3cret"})
        root = await rig.user("root", administrator=True)
        await rig.post("/api/v1/queues", {"path": ORDERS}, token=root)
        grant = {"who": "eve", "rights": ["peek", "send"]}
        await rig.post(at() + "/access/grant", grant, token=root)
        await rig.post(at() + "/purge", token=root)
        made = await rig.post("/api/v1/tokens", {"user": "eve"}, token=root)
        await rig.ask("DELETE", f"/api/v1/tokens/{made.json['info']['id']}", token=root)
        await rig.post("/api/v1/users/eve/password", {"password": "other"}, token=root)
        await rig.ask("DELETE", "/api/v1/users/eve", token=root)
        await rig.ask("DELETE", at(), token=root)
        await rig.post("/api/v1/queues", {"path": "non sense"}, token=root)
        assert [event.name for event in events] == [
            "user_added",
            "queue_created",
            "access_changed",
            "queue_purged",
            "token_created",
            "token_revoked",
            "password_changed",
            "user_deleted",
            "queue_deleted",
        ]
        assert [event.details["by"] for event in events] == ["administrator"] + ["root"] * 8
        assert events[2].details["grant"] == "eve"
        words = str(events)
        assert "s3cret" not in words
        assert "other" not in words
        assert made.json["token"].split("_")[2] not in words

    with_api(tmp_path, work)


def test_a_scrape_goes_in_steps_and_passes_over_what_is_deleted_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "STEP_QUEUES", 1)

    async def work(rig: ApiRig) -> None:
        for number in range(5):
            await rig.create(rf".\private$\q{number}")
        pieces = metrics.Metrics(rig.desk.manager, metrics.Traffic(), "9.9").pieces()
        begun = [next(pieces), next(pieces)]
        await rig.ask("DELETE", at(r".\private$\q4"))
        rest = list(pieces)
        assert len(rest) > 5
        text = b"".join(begun + rest)
        assert b"q3" in text
        assert b"q4" not in text

    with_api(tmp_path, work)


def test_very_many_queues_are_counted_and_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "QUEUES_MAX", 3)
    monkeypatch.setattr(page, "QUEUES_SHOWN", 2)

    async def work(rig: ApiRig) -> None:
        for number in range(5):
            await rig.create(rf".\private$\q{number}")
        scraped = (await rig.get("/metrics")).text
        assert scraped.count("\nposthouse_queue_messages{") == 3
        assert "posthouse_queues_left_out 12.0" in scraped
        assert "3 more queues are not shown" in (await rig.get("/")).text

    with_api(tmp_path, work)


def test_status_warns_of_clocks_that_differ(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.run(lambda m: m.transfer.clocks.late("192.0.2.7", 26 * 86_400))
        await rig.run(lambda m: m.transfer.clock_seen("192.0.2.8", m.machine.utc + 7_200))
        status = (await rig.get("/api/v1/status")).json
        shown = {one["address"]: (one["behind_s"], one["messages"]) for one in status["clocks"]}
        assert shown == {"192.0.2.7": (26 * 86_400, 1), "192.0.2.8": (-7_200, 0)}
        lines = " ".join(status["problems"])
        assert "the clock of 192.0.2.7 is at least 26 days slow: 1 message had expired" in lines
        assert "the clock here is 2 hours slower than that of 192.0.2.8" in lines
        token = await rig.user("reader", role=Role.READ)
        seen = (await rig.get("/api/v1/status", token=token)).json
        assert (seen["clocks"], seen["problems"]) == ([], [])

    with_api(tmp_path, work)
