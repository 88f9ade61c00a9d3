"""Failed messages over the API: groups of them, and their return to where they failed."""

from __future__ import annotations

from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest

from posthouse.engine.manager import QueueManager
from posthouse.formats.encode import rebus_headers
from posthouse.model.message import Message
from posthouse.model.properties import QueueAccessType
from posthouse.protocols.handlers import failed_messages, returning
from posthouse.protocols.handlers.messages import begin
from posthouse.security.access import Caller
from tests.protocols.admin.api_rig import ApiRig, at, with_api
from tests.support.failed_messages import failed

ERROR, ORDERS, BILLS = (rf".\private$\{name}" for name in ("error", "orders", "bills"))
DEAD = r".\system$;deadletter"


def rows(target: Any) -> tuple[str, int, str]:
    """A target of a return: its name, how many messages, why not."""
    error = target["error"]
    return target["to"], target["messages"], error["name"] if error else ""


def rebus(queue: str) -> str:
    return b64encode(rebus_headers({"rbs2-msg-id": "1", "rbs2-source-queue": queue})).decode()


async def shop(rig: ApiRig, *, transactional: bool = True) -> None:
    for name in (ERROR, ORDERS, BILLS):
        await rig.create(name, transactional=transactional)


async def fail(rig: ApiRig, label: str, extension: str, **more: Any) -> None:
    more = {"delivery": "transactional", "body_text": f"body {label}"} | more
    await rig.send(ERROR, label=label, extension=extension, **more)


def fill(manager: QueueManager, labels: list[str]) -> None:
    """The error queue, all in one turn."""
    target = manager.queues.open_queue(ERROR, QueueAccessType.SEND, Caller.administrator())
    transaction, extension = begin(manager), b64decode(failed())
    for label in labels:
        message = Message(label=label, extension=extension)
        manager.messages.enqueue_message_to_an_open_queue(target, message, transaction)
    manager.transactions.transaction_commit(transaction.identifier)


async def send_back(rig: ApiRig, queue: str = ERROR, **body: Any) -> Any:
    reply = await rig.post(f"{at(queue)}/return", body)
    assert reply.status == 200, reply
    return reply.json


async def groups(rig: ApiRig, queue: str = ERROR, **query: Any) -> list[Any]:
    reply = await rig.get(f"{at(queue)}/failures", **query)
    assert reply.status == 200, reply
    assert reply.json["next"] is None
    found: list[Any] = reply.json["groups"]
    return found


def test_failures_are_grouped_by_exception_message_and_own_frame(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await shop(rig)
        for label in "abc":
            await fail(rig, label, failed())
        await fail(rig, "d", failed(cause="order 17 not found"))
        await fail(rig, "e", failed(cause="order 18 not found"))
        await fail(rig, "f", failed("bills@BETA", frame="Bill"))
        found = await groups(rig)
        assert [group["count"] for group in found] == [3, 1, 1, 1]
        first = found[0]
        assert first["exception_type"] == "System.InvalidOperationException"
        assert (first["exception_message"], first["frame"]) == (
            "no stock",
            "Shop.Stock.Run(Int32 x)",
        )
        assert first["first_time"] == first["last_time"] == "2026-11-17T10:11:12.131415Z"
        assert first["failed_queues"] == ["orders@ALPHA"]
        assert len(first["examples"]) == 3
        assert first["message_type"] == "Shop.OrderPlaced"
        similar = await groups(rig, similar="true")
        assert sorted(group["count"] for group in similar) == [1, 2, 3]
        assert await groups(rig) == found
        assert [g["count"] for g in await groups(rig, where='failed_queue ~ "BETA"')] == [1]
        assert await rig.labels(ERROR) == list("abcdef")

    with_api(tmp_path, work)


def test_a_group_goes_back_in_order_and_unchanged(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await shop(rig)
        for number in range(6):
            extension = failed(cause="even" if number % 2 == 0 else "odd")
            correlation = "%040x" % (number + 1)
            await fail(rig, str(number), extension, app_specific=1, correlation_id=correlation)
        before = (await rig.get(f"{at(ERROR)}/messages")).json["messages"]
        (key,) = [g["key"] for g in await groups(rig) if g["exception_message"] == "even"]
        result = await send_back(rig, group=key)
        assert (result["matched"], result["done"], result["refused"]) == (3, 3, 0)
        assert result["targets"] == [
            {"to": r"ALPHA\private$\orders", "messages": 3, "done": 3, "error": None}
        ]
        assert await rig.labels(ERROR) == ["1", "3", "5"]
        after = (await rig.get(f"{at(ORDERS)}/messages")).json["messages"]
        assert [message["label"] for message in after] == ["0", "2", "4"]
        changed = {"lookup_id", "queue", "move_count"}
        for old, new in zip(before[::2], after, strict=True):
            assert {name for name in old if old[name] != new[name]} == changed
        again = await send_back(rig, group=key)
        assert (again["matched"], again["done"]) == (0, 0)

    with_api(tmp_path, work)


def test_each_goes_where_it_failed(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await shop(rig)
        await fail(rig, "here", failed("orders"))
        await fail(rig, "by name", failed("orders@alpha"))
        await fail(rig, "rebus", rebus("bills@ALPHA"))
        await fail(rig, "far", failed("orders@BETA"))
        result = await send_back(rig)
        assert result["done"] == 4
        assert await rig.labels(ORDERS) == ["here", "by name"]
        assert await rig.labels(BILLS) == ["rebus"]
        far = r"DIRECT=OS:BETA\private$\orders"
        (message,) = (await rig.get(f"{at(far)}/messages")).json["messages"]
        assert (message["label"], message["body_text"]) == ("far", "body far")
        assert (message["extension"], message["delivery"]) == (
            failed("orders@BETA"),
            "transactional",
        )
        assert {one["to"] for one in result["targets"]} >= {far}

    with_api(tmp_path, work)


def test_a_dry_run_lists_what_cannot_go_and_why(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await shop(rig)
        await rig.create(r".\private$\plain")
        await fail(rig, "goes", failed())
        for number in range(3):
            await fail(rig, f"nowhere {number}", failed("gone@ALPHA"))
        await fail(rig, "no headers", "")
        await fail(rig, "bad address", failed("a+b@ALPHA"))
        await fail(rig, "as a copy", failed("plain@ALPHA"))
        dry = await send_back(rig, dry_run=True)
        assert (dry["matched"], dry["done"], dry["refused"], dry["dry_run"]) == (7, 0, 5, True)
        assert [rows(one) for one in dry["targets"]] == [
            (r"ALPHA\private$\orders", 1, ""),
            (r"DIRECT=OS:ALPHA\private$\gone", 3, "MQ_ERROR_QUEUE_NOT_FOUND"),
            ("", 1, "MQ_ERROR_QUEUE_NOT_FOUND"),
            ("", 1, "MQ_ERROR_ILLEGAL_QUEUE_PATHNAME"),
            (r"ALPHA\private$\plain", 1, ""),
        ]
        assert len(await rig.labels(ERROR)) == 7
        wet = await send_back(rig)
        assert (wet["done"], wet["refused"]) == (2, 5)
        assert [one | {"done": 0} for one in wet["targets"]] == dry["targets"]
        assert await rig.labels(r".\private$\plain") == ["as a copy"]
        assert await rig.labels(ERROR) == [
            *(f"nowhere {n}" for n in range(3)),
            "no headers",
            "bad address",
        ]
        forced = await send_back(rig, to=BILLS)
        assert forced["done"] == 5

    with_api(tmp_path, work)


def test_no_message_overtakes_one_that_found_no_room(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create(ERROR, transactional=True)
        await rig.create(ORDERS, transactional=True, quota_kib=4)
        await rig.create(BILLS, transactional=True)
        for label, size in (("1", 100), ("2", 5000), ("3", 100)):
            await fail(rig, label, failed(), body_text="x" * size)
        await fail(rig, "4", failed("bills"))
        result = await send_back(rig)
        assert (result["done"], result["refused"]) == (2, 2)
        assert result["skip"] == [r"ALPHA\private$\orders"]
        assert await rig.labels(ERROR) == ["2", "3"]
        assert (await send_back(rig, skip=result["skip"]))["done"] == 0
        await rig.ask("PATCH", at(ORDERS), {"quota_kib": None})
        assert (await send_back(rig))["done"] == 2
        assert await rig.labels(ORDERS) == ["1", "2", "3"]

    with_api(tmp_path, work)


def test_subqueues_and_dead_letters_go_back_too(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create(ORDERS)
        for label in "ab":
            await rig.send(ORDERS, label=label, journal=["negative"], delivery="recoverable")
        poison = f"{ORDERS};poison"
        await rig.post(f"{at(ORDERS)}/move", {"where": "priority < 8", "to": poison})
        result = await send_back(rig, poison, where='label = "b"')
        assert (result["done"], result["targets"][0]["to"]) == (1, r"ALPHA\private$\orders")
        assert await rig.labels(ORDERS) == ["b"]
        assert await rig.labels(poison) == ["a"]
        await rig.post(f"{at(ORDERS)}/purge")
        (group,) = await groups(rig, DEAD)
        assert (group["class"], group["exception_type"]) == ("nack-queue-purged", None)
        assert (await send_back(rig, DEAD, group=group["key"]))["done"] == 1
        (again,) = (await rig.get(f"{at(ORDERS)}/messages")).json["messages"]
        assert (again["label"], again["class"], again["journal"]) == ("b", "normal", ["negative"])
        assert await rig.labels(DEAD) == []
        await rig.post(f"{at(ORDERS)}/purge")
        assert await rig.labels(DEAD) == ["b"]

    with_api(tmp_path, work)


def test_a_long_queue_goes_back_page_by_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failed_messages, "PAGE_SCANNED", 1)

    async def work(rig: ApiRig) -> None:
        await shop(rig)
        labels = [f"{number:04}" for number in range(1100)]
        await rig.run(lambda manager: fill(manager, labels))
        pages, body = 0, dict[str, Any](where='label < "1001"')
        while True:
            page = await send_back(rig, **body)
            pages += 1
            if page["next"] is None:
                break
            body |= {"after": page["next"], "skip": page["skip"]}
            await fail(rig, "0000 late", failed())
        assert pages == 3
        assert await rig.labels(ORDERS, limit=1000) == labels[:1000]
        late = ["0000 late"] * (pages - 1)
        assert await rig.labels(ERROR, limit=1000) == labels[1001:] + late
        first = (await rig.get(f"{at(ERROR)}/failures")).json
        assert first["scanned"] == 101

    with_api(tmp_path, work)


def test_by_lookup_id(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await shop(rig)
        for label in "abc":
            await fail(rig, label, failed())
        messages = (await rig.get(f"{at(ERROR)}/messages")).json["messages"]
        ids = [messages[2]["lookup_id"], messages[0]["lookup_id"], 999_999]
        result = await send_back(rig, lookup_ids=ids)
        assert (result["matched"], result["done"], result["gone"]) == (2, 2, 1)
        assert await rig.labels(ERROR) == ["b"]
        both = await rig.post(f"{at(ERROR)}/return", {"lookup_ids": ids, "where": "priority < 8"})
        assert both.status == 422
        bad = await rig.post(f"{at(ERROR)}/return", {"group": "xyz"})
        assert bad.status == 400

    with_api(tmp_path, work)


def test_rights_of_the_caller_count(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await shop(rig)
        await fail(rig, "a", failed())
        bob = await rig.user("bob")
        path = f"{at(ERROR)}/return"
        assert (await rig.post(path, {}, token=bob)).status == 403
        assert (await rig.get(f"{at(ERROR)}/failures", token=bob)).status == 403
        await rig.post(f"{at(ERROR)}/access/grant", {"who": "bob", "rights": ["receive", "peek"]})
        await rig.post(f"{at(ORDERS)}/access/deny", {"who": "bob", "rights": ["send"]})
        for dry_run in (True, False):
            refused = (await rig.post(path, {"dry_run": dry_run}, token=bob)).json
            assert (refused["done"], refused["refused"]) == (0, 1)
            assert refused["targets"][0]["error"]["name"] == "MQ_ERROR_ACCESS_DENIED"
        await rig.post(f"{at(ORDERS)}/access/revoke", {"who": "bob"})
        assert (await rig.post(path, {}, token=bob)).json["done"] == 1
        assert (await rig.post(path, {}, token=rig.tokens["read"])).status == 403

    with_api(tmp_path, work)


# -- poison policy


def test_a_poison_policy_is_set_shown_and_followed(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        body = {"path": ORDERS, "transactional": True, "max_aborts": 2, "retry_delays_s": [3600]}
        made = (await rig.post("/api/v1/queues", body)).json
        assert (made["max_aborts"], made["retry_delays_s"]) == (2, [3600])
        await rig.send(ORDERS, label="a", delivery="transactional")
        await rig.run(abort)
        shown = (await rig.get(at(ORDERS))).json
        assert (shown["messages"], shown["locked"], shown["retry_waiting"]) == (1, 1, 1)
        assert await rig.labels(ORDERS) == []
        nothing = (await rig.post(f"{at(ORDERS)}/receive", {})).json
        assert "1 wait for their next try" in nothing["reason"]
        changed = {"retry_delays_s": [], "poison_queue": ";dead", "max_aborts": 1}
        shown = (await rig.ask("PATCH", at(ORDERS), changed)).json
        assert {name: shown[name] for name in changed} == changed
        await rig.send(ORDERS, label="b", delivery="transactional")
        await rig.run(abort)
        assert await rig.labels(f"{ORDERS};dead") == ["b"]
        assert (await send_back(rig, f"{ORDERS};dead"))["done"] == 1
        assert await rig.labels(ORDERS) == ["b"]
        plain = await rig.post("/api/v1/queues", {"path": BILLS, "max_aborts": 2})
        assert plain.json["error"]["name"] == "MQ_ERROR_PROPERTIES_CONFLICT"

    with_api(tmp_path, work)


def abort(manager: QueueManager) -> None:
    """A receive of the first message is rolled back."""
    source = manager.queues.open_queue(ORDERS, QueueAccessType.RECEIVE, Caller.administrator())
    transaction = begin(manager)
    manager.messages.dequeue_message(source, timeout_ms=0, transaction=transaction)
    manager.transactions.transaction_abort(transaction.identifier)
    manager.queues.close_queue(source)


def test_what_a_group_reads_stays(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await shop(rig)
        await fail(rig, "a", failed())
        lease = {"mode": "consume", "owner": "spark"}
        assert (await rig.post(f"{at(ERROR)}/groups/g/lease", lease)).status == 200
        for dry_run in (True, False):
            result = await send_back(rig, dry_run=dry_run)
            assert [rows(one)[2] for one in result["targets"]] == ["MQ_ERROR_SHARING_VIOLATION"]
        assert await rig.labels(ERROR) == ["a"]

    with_api(tmp_path, work)


def test_very_many_missing_targets_end_it_with_a_clear_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(returning, "TARGETS_MAX", 3)
    monkeypatch.setattr(returning, "TURN_MESSAGES", 2)

    async def work(rig: ApiRig) -> None:
        await shop(rig)
        for number in range(3):
            await fail(rig, f"gone {number}", failed(f"gone{number}"))
        await fail(rig, "kept", failed())
        three = await send_back(rig)  # as many as may be
        assert (three["done"], three["refused"], len(three["skip"])) == (1, 3, 3)
        await fail(rig, "kept", failed())
        for number in range(3, 9):
            await fail(rig, f"gone {number}", failed(f"gone{number}"))
        for dry_run in (True, False):
            refused = await rig.post(f"{at(ERROR)}/return", {"dry_run": dry_run})
            assert refused.status == 507, refused
            assert "more than 3 queues have refused a message" in refused.json["error"]["cause"]
        body = {"act": "return", "queue": ERROR}
        number = (await rig.post("/api/v1/operations", body)).json["id"]
        while (shown := (await rig.get(f"/api/v1/operations/{number}")).json)["state"] == "running":
            pass  # each look lets the server work
        assert shown["state"] == "failed"
        assert "more than 3 queues have refused a message" in shown["error"]
        assert 3 < shown["refused"] < 9  # what was done before is counted
        operation = rig.desk.driver.manager.operations.get(number)
        assert len(operation.progress.skip) <= 3
        assert (await send_back(rig, to=BILLS))["done"] == 9

    with_api(tmp_path, work)
