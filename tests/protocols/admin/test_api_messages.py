"""Messages over the API: list, filter, pages, show, find, explain, send, receive."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from posthouse.engine.manager import QueueManager
from posthouse.engine.messages.facade import MessagesFacade
from posthouse.formats.search import content_of
from posthouse.model.message import Message
from posthouse.model.message_json import MessageJson
from posthouse.model.properties import QueueAccessType
from posthouse.model.roles import Role
from posthouse.protocols.handlers import messages as handlers_messages
from posthouse.protocols.handlers import scanning
from posthouse.protocols.handlers.context import find_queue
from posthouse.protocols.handlers.request_steps import Outside, Resume
from posthouse.protocols.handlers.scanning import FIRST_MESSAGES, STEP_MESSAGES
from posthouse.protocols.http import memory_reservations
from posthouse.protocols.memory import SEND
from posthouse.protocols.settings import LimitSettings
from posthouse.security.access import Caller
from tests.protocols.admin.api_rig import AUDIT, ORDERS, ApiRig, at, with_api

HOSTILE = '\x1b[31m"><script>alert(1)</script>\r\n\u202e\u2028\x7f\x9b31m\u200b\ufeff{}\\'


async def receive(rig: ApiRig, queue: str = ORDERS, **body: Any) -> list[Any]:
    reply = await rig.post(f"{at(queue)}/receive", body)
    assert reply.status == 200, reply
    return list(reply.json["messages"])


def test_what_is_sent_is_shown_in_full(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await rig.create(r".\private$\acks")
        identifier = await rig.send(
            label="Order 7",
            body=base64.b64encode(b"\x00\xff").decode(),
            body_type=17,
            priority=6,
            delivery="recoverable",
            correlation_id="ab" * 20,
            admin_queue=r".\private$\acks",
            response_queue=r"DIRECT=OS:BETA\private$\answers",
            acknowledge=["pos-receive", "neg-receive"],
            journal=["negative"],
            app_specific=7,
            connector_type="01234567-89ab-cdef-0123-456789abcdef",
            time_to_be_received=3600,
            extension=base64.b64encode(b"more").decode(),
        )
        (message,) = (await rig.get(at() + "/messages")).json["messages"]
        assert msgspec.convert(message, MessageJson)
        expected = {
            "id": identifier,
            "queue": r"ALPHA\private$\orders",
            "label": "Order 7",
            "body": "AP8=",
            "body_text": None,
            "body_type": 17,
            "body_size": 2,
            "priority": 6,
            "class": "normal",
            "class_code": 0,
            "delivery": "recoverable",
            "correlation_id": "ab" * 20,
            "admin_queue": r"DIRECT=OS:ALPHA\private$\acks",
            "response_queue": r"DIRECT=OS:BETA\private$\answers",
            "destination": r"DIRECT=OS:ALPHA\private$\orders",
            "acknowledge": ["pos-receive", "neg-receive"],
            "journal": ["negative"],
            "app_specific": 7,
            "connector_type": "01234567-89ab-cdef-0123-456789abcdef",
            "trace": "",
            "time_to_be_received": 3600,
            "authenticated": False,
            "encrypted": False,
            "sender": "S-1-5-32-544",
            "extension": "bW9yZQ==",
            "transaction": None,
            "abort_count": 0,
            "move_count": 0,
        }
        assert {name: message[name] for name in expected} == expected
        shown = await rig.get(f"{at()}/messages/{message['lookup_id']}")
        assert shown.json == message
        asked = await rig.get(f"{at()}/messages/{message['lookup_id']}", decode="true")
        decoded = asked.json.pop("decoded")
        assert asked.json == message
        assert decoded == content_of(msgspec.convert(message, MessageJson))
        plain = (await rig.get(at() + "/messages", bodies="false")).json["messages"][0]
        assert (plain["body"], plain["body_text"], plain["extension"]) == (None, None, None)
        assert await receive(rig) == [message]
        (ack,) = await receive(rig, r".\private$\acks")
        assert ack["class"] == "ack-receive"
        assert ack["correlation_id"] == message["id"].replace("\\", "") or ack["correlation_id"]

    with_api(tmp_path, work)


def test_a_transactional_message_says_so(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create(AUDIT, transactional=True)
        await rig.send(AUDIT, label="tx", delivery="transactional", body_text="Grüße")
        refused = await rig.post(at(AUDIT) + "/messages", {"delivery": "recoverable"})
        assert refused.json["error"]["name"] == "MQ_ERROR_TRANSACTION_USAGE"
        await rig.create()
        refused = await rig.post(at() + "/messages", {"delivery": "transactional"})
        assert refused.json["error"]["name"] == "MQ_ERROR_TRANSACTION_USAGE"
        (message,) = (await rig.get(at(AUDIT) + "/messages")).json["messages"]
        assert message["delivery"] == "transactional"
        assert message["transaction"]["first"] is True
        assert message["transaction"]["last"] is True
        assert message["body_text"] == "Grüße"
        assert (await rig.get("/api/v1/transactions")).json == {"transactions": []}

    with_api(tmp_path, work)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"priority": 8}, 400),
        ({"priority": "3"}, 400),
        ({"body": "not base64"}, 400),
        ({"body": "QQ==", "body_text": "A"}, 422),
        ({"label": "x" * 250}, 400),
        ({"label": "\U0001f600" * 200}, 422),
        ({"label": "nul\0"}, 422),
        ({"correlation_id": "ab"}, 400),
        ({"correlation_id": "0x" * 20}, 400),
        ({"acknowledge": ["always"]}, 400),
        ({"admin_queue": "non sense"}, 422),
        ({"trace": r".\private$\x"}, 422),
        ({"app_specific": 1 << 32}, 400),
        ({"unknown": 1}, 400),
        ([], 400),
        ("text", 400),
        ({"priority": 4.5}, 400),
        ({"priority": 4.0, "app_specific": 7.0}, 201),
        ({"priority": 4.0, "body_text": 7.0}, 400),
        ({"app_specific": 1e300}, 400),
        (None, 201),
    ],
)
def test_sends_of_odd_messages(body: Any, status: int, tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        reply = await rig.post(at() + "/messages", body)
        assert reply.status == status, reply
        assert len(await rig.labels()) == (status == 201)

    with_api(tmp_path, work)


def test_hostile_labels_come_back_as_they_were(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await rig.send(label=HOSTILE)
        reply = await rig.get(at() + "/messages")
        assert reply.json["messages"][0]["label"] == HOSTILE
        assert reply.text.isprintable()

    with_api(tmp_path, work)


def test_filters_choose_and_pages_go_on(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        for number in range(10):
            await rig.send(label=f"order {number}", priority=number % 2 * 4)
        assert await rig.labels(where="priority = 4") == [f"order {n}" for n in (1, 3, 5, 7, 9)]
        found: list[str] = []
        query = {"where": 'label ~ "ORDER"', "limit": 3, "bodies": "false"}
        while True:
            page = (await rig.get(at() + "/messages", **query)).json
            found += [message["label"] for message in page["messages"]]
            assert len(page["messages"]) <= 3
            if page["next"] is None:
                break
            query["after"] = page["next"]
        assert found == [f"order {n}" for n in (1, 3, 5, 7, 9, 0, 2, 4, 6, 8)]
        assert await rig.labels(where="priority > 7") == []
        bad = await rig.get(at() + "/messages", where="priority >")
        assert bad.status == 422
        assert "at character" in bad.json["error"]["cause"]
        bomb = await rig.get(at() + "/messages", where="(" * 4000)
        assert bomb.status == 422

    with_api(tmp_path, work)


def test_a_scan_is_bounded_and_says_where_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "STEP_MESSAGES", 3)
    monkeypatch.setattr(scanning, "STEP_ROWS", 2)
    monkeypatch.setattr(scanning, "SCAN_MAX", 6)

    async def work(rig: ApiRig) -> None:
        await rig.create()
        for number in range(20):
            await rig.send(label=f"{number}")
        found, pages, query = list[str](), 0, dict[str, Any]()
        while True:
            page = (await rig.get(at() + "/messages", where="label ~ 7", **query)).json
            found += [message["label"] for message in page["messages"]]
            pages += 1
            if page["next"] is None:
                break
            query = {"after": page["next"]}
        assert found == ["7", "17"]
        assert pages > 2

    with_api(tmp_path, work)


def test_large_messages_make_short_pages(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        for number in range(3):
            await rig.send(label=f"{number}", body_text="x" * 3_000_000)
        page = (await rig.get(at() + "/messages")).json
        assert [message["label"] for message in page["messages"]] == ["0", "1"]
        rest = (await rig.get(at() + "/messages", after=page["next"])).json
        assert [message["label"] for message in rest["messages"]] == ["2"]
        assert rest["next"] is None
        assert len(await receive(rig, count=3)) == 2

    with_api(tmp_path, work)


def test_answers_that_nobody_reads_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_reservations, "ROOM_WAIT_S", 0.05)

    async def work(rig: ApiRig) -> None:
        memory = rig.admin.memory
        memory.limit = 60 << 20
        await rig.create()
        for number in range(2):
            await rig.send(label=f"{number}", body_text="x" * 4_000_000)
        host, _, port = rig.url.removeprefix("http://").rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
        head = f"GET {at()}/messages HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
        writer.write(f"{head}{rig.tokens['read']}\r\n\r\n".encode())
        await reader.readline()
        assert memory.bytes[SEND] > 10 << 20
        refused = await rig.get(at() + "/messages")
        assert (refused.status, refused.json["error"]["name"]) == (
            507,
            "MQ_ERROR_INSUFFICIENT_RESOURCES",
        )
        writer.transport.abort()
        while memory.held:
            await rig.desk.call(lambda m: None)
        assert len(await rig.labels()) == 2
        assert memory.held == 0

    with_api(tmp_path, work)


def test_large_messages_are_compared_beside_the_loop(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        beside: list[object] = []
        gather = rig.admin.services.search

        def counted(task: Callable[[], object]) -> Outside:
            beside.append(task)
            return gather(task)

        rig.admin.services.search = counted
        await rig.create()
        for word in ("one", "two"):
            await rig.send(label=word, body_text=f"{word} " + "x" * 400_000)
        assert await rig.labels(where="body_text ~ ONE") == ["one"]
        assert len(beside) == 1
        done = await rig.post(at() + "/delete", {"where": "body_text ~ TWO"})
        assert done.json["done"] == 1
        assert len(beside) == 2
        await rig.send(label="small")
        assert await rig.labels(where="label = small") == ["small"]

    with_api(tmp_path, work)


def test_many_messages_are_compared_in_the_share_of_bulk_reads(tmp_path: Path) -> None:
    """The first few at once, the rest beside the loop and when it is their time."""

    async def work(rig: ApiRig) -> None:
        compared: list[int] = []
        gather, pace = rig.admin.services.search, rig.admin.services.search_pace

        def counted(task: Callable[[], object]) -> Outside:
            def run() -> object:
                found = task()
                assert isinstance(found, list)
                compared.append(len(found))
                return found

            return gather(run)

        rig.admin.services.search = counted
        await rig.create()
        await rig.run(lambda m: fill(m, ORDERS, 1200))
        before = pace._ended_s
        assert await rig.labels(where="label = 1199") == ["1199"]
        assert compared == [STEP_MESSAGES, STEP_MESSAGES, 1200 - 2 * STEP_MESSAGES - FIRST_MESSAGES]
        assert pace._ended_s > before
        compared.clear()
        done = await rig.post(at() + "/delete", {"where": "label ~ 9"})
        assert done.json["done"] == sum("9" in str(number) for number in range(1200))
        assert sum(compared) == 1200

    with_api(tmp_path, work)


def fill(manager: QueueManager, queue: str, count: int) -> None:
    opened = manager.queues.open_queue(queue, QueueAccessType.SEND, Caller.administrator())
    for number in range(count):
        manager.messages.enqueue_message_to_an_open_queue(opened, Message(label=str(number)))
    manager.queues.close_queue(opened)


def test_a_user_has_a_few_searches_at_a_time(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        begun: list[Resume] = []
        gather = rig.admin.services.search
        rig.admin.services.search = lambda task: Outside(begun.append)
        await rig.create()
        await rig.run(lambda m: fill(m, ORDERS, 200))
        bob = await rig.user("bob")
        await rig.post(at() + "/access/grant", {"who": "bob", "rights": ["peek", "receive"]})
        searching = [
            asyncio.create_task(rig.get(at() + "/messages", where="label = 7", token=bob))
            for _ in range(LimitSettings().scans_per_user)
        ]
        while len(begun) < LimitSettings().scans_per_user:
            await rig.desk.call(lambda m: None)
        one = quote(r"00000000-0000-0000-0000-000000000001\1", safe="")
        refused = [
            await rig.get(at() + "/messages", where="label = 7", token=bob),
            await rig.get("/api/v1/messages", where="label = 7", token=bob),
            await rig.get(f"/api/v1/messages/{one}/explain", token=bob),
            await rig.post(at() + "/delete", {"where": "label = 7"}, token=bob),
        ]
        for reply in refused:
            assert reply.status == 429, reply.text
            assert "4 searches in progress" in reply.json["error"]["cause"]
            assert "scans_per_user" in reply.json["error"]["remedy"]
        assert len((await rig.get(at() + "/messages", token=bob)).json["messages"]) == 100
        rig.admin.services.search = gather
        assert await rig.labels(where="label = 7") == ["7"]  # another user
        for resume in begun:
            resume([None] * 150, None)
        assert [(await one).status for one in searching] == [200] * LimitSettings().scans_per_user
        assert (await rig.get(at() + "/messages", where="label = 7", token=bob)).status == 200

    with_api(tmp_path, work)


def test_messages_are_found_in_all_queues_one_may_read(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await rig.create(AUDIT)
        bob = await rig.user("bob")
        await rig.post(at(AUDIT) + "/access/grant", {"who": "bob", "rights": ["peek"]})
        for label in ("a", "b"):
            await rig.send(ORDERS, label=label)
            await rig.send(AUDIT, label=label)
        where = {"where": 'label = "b"'}
        found = (await rig.get("/api/v1/messages", **where)).json["messages"]
        assert [m["queue"] for m in found] == [r"ALPHA\private$\orders", r"ALPHA\private$\audit"]
        narrow = (await rig.get("/api/v1/messages", token=bob, **where)).json["messages"]
        assert [m["queue"] for m in narrow] == [r"ALPHA\private$\audit"]
        every, query = list[str](), dict[str, Any]()
        while True:
            page = (await rig.get("/api/v1/messages", where="priority < 8", limit=1, **query)).json
            every += [message["label"] for message in page["messages"]]
            if page["next"] is None:
                break
            query = {"after": page["next"]}
        assert every == ["a", "b", "a", "b"]
        assert (await rig.get("/api/v1/messages")).status == 400

    with_api(tmp_path, work)


SEARCHES = (
    'label = "17"',  # of headers
    "priority = 5",  # of rows
    'priority = 5 and label = "17"',
    'label = "17" or priority = 5',
    'label ~ "1" and body_text = "red"',
    "not priority = 3",
)


@pytest.mark.parametrize("where", SEARCHES)
def test_a_search_makes_json_of_no_more_messages_than_it_has_to(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that rows or headers rule out are compared without it."""
    made, fetched = list[str](), list[int]()
    whole, fetch = scanning.message_json, MessagesFacade.fetch_together

    def counted(*args: Any) -> MessageJson:
        made.append("")
        return whole(*args)

    def counted_fetch(facade: MessagesFacade, numbers: list[int]) -> None:
        fetched.extend(numbers)
        fetch(facade, numbers)

    monkeypatch.setattr(scanning, "message_json", counted)
    monkeypatch.setattr(MessagesFacade, "fetch_together", counted_fetch)

    async def work(rig: ApiRig) -> None:
        await rig.create()
        await rig.run(lambda m: fill(m, ORDERS, 60))
        await rig.send(label="17", priority=5, body_text="red")
        made.clear()
        found = (await rig.get(at() + "/messages", where=where)).json
        assert found["scanned"] == 61
        assert "red" in [one["body_text"] for one in found["messages"]]
        if where.startswith("label ~"):
            assert len(made) == 16  # labels with a 1
        else:
            assert len(made) == len(found["messages"])
        assert len(fetched) == (1 if "priority" in where and " or " not in where else 61)

    with_api(tmp_path, work)


@pytest.mark.parametrize("everywhere", [False, True])
def test_a_long_search_is_answered_with_how_far_it_is(
    everywhere: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "SEARCH_S", 0.0)
    monkeypatch.setattr(scanning, "STEP_MESSAGES", 20)

    async def work(rig: ApiRig) -> None:
        await rig.create()
        await rig.create(AUDIT)
        await rig.run(lambda m: fill(m, ORDERS, 200))
        path = "/api/v1/messages" if everywhere else at() + "/messages"
        pages, query = [], dict[str, Any]()
        while True:
            pages.append((await rig.get(path, where='label = "190"', **query)).json)
            if pages[-1]["next"] is None:
                break
            query = {"after": pages[-1]["next"]}
        assert sum(page["scanned"] for page in pages) == 200
        assert len(pages) >= 4
        assert [one["label"] for page in pages for one in page["messages"]] == ["190"]
        plain = (await rig.get(at() + "/messages", limit=200)).json
        assert len(plain["messages"]) == 200  # a page without a filter is not cut

    with_api(tmp_path, work)


@pytest.mark.parametrize("bound", ["SCAN_MAX", "STEP_BYTES"])
def test_a_search_of_all_queues_is_bounded_as_a_whole(
    bound: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many queues there are: an answer is not larger than the one of a single queue."""
    monkeypatch.setattr(handlers_messages, bound, {"SCAN_MAX": 4, "STEP_BYTES": 600}[bound])

    async def work(rig: ApiRig) -> None:
        names = [rf".\private$\q{number}" for number in range(5)]
        for name in names:
            await rig.create(name)
            for label in ("a", "b"):
                await rig.send(name, label=label, body_text="x" * 100)
        found, sizes, query = list[str](), list[int](), dict[str, Any]()
        while True:
            page = (await rig.get("/api/v1/messages", where="priority < 8", **query)).json
            found += [message["queue"] for message in page["messages"]]
            sizes.append(len(page["messages"]))
            if page["next"] is None:
                break
            query = {"after": page["next"]}
        assert found == [rf"ALPHA\private$\q{number}" for number in range(5) for _ in "ab"]
        assert max(sizes) <= 4

    with_api(tmp_path, work)


def test_a_message_is_explained(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        identifier = await rig.send(label="gone", journal=["negative"], delivery="recoverable")
        path = f"/api/v1/messages/{quote(identifier, safe='')}/explain"
        there = (await rig.get(path)).json
        assert [place["queue"] for place in there["places"]] == [r"ALPHA\private$\orders"]
        assert there["places"][0]["state"] == "waiting"
        await rig.post(at() + "/purge")
        dead = (await rig.get(path)).json
        (place,) = dead["places"]
        assert place["queue"] == r"ALPHA\system$;deadletter"
        assert place["class"] == "nack-queue-purged"
        assert "purged" in dead["answer"]
        bob = await rig.user("bob")
        assert (await rig.get(path, token=bob)).json["places"] == []
        assert (await rig.get("/api/v1/messages/7/explain")).status == 400
        another = "5b7a4a3e-7d0c-4f5e-9a51-0f5a4e6c2b11%5C1"
        strange = (await rig.get(f"/api/v1/messages/{another}/explain")).json
        assert "Another queue manager sent it" in strange["answer"]

    with_api(tmp_path, work)


def test_a_message_in_an_outgoing_queue_has_the_reason(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        name = r"DIRECT=OS:winhost\private$\orders"
        identifier = await rig.send(name, delivery="recoverable")
        path = f"/api/v1/messages/{quote(identifier, safe='')}/explain"
        there = (await rig.get(path)).json
        assert there["places"][0]["reason"] == "it is on its way"
        queue = find_queue(rig.desk.driver.manager, name)
        assert queue.outgoing is not None
        queue.outgoing.last_error = "winhost cannot be resolved"
        there = (await rig.get(path)).json
        reason = "it cannot connect: winhost cannot be resolved"
        assert there["answer"] == f"waiting in {name}: {reason}"
        await rig.post(at(name) + "/pause")
        there = (await rig.get(path)).json
        assert there["places"][0]["reason"] == f"it is paused: posthouse queue resume '{name}'"

    with_api(tmp_path, work)


def test_a_locked_message_is_explained_and_not_listed(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        identifier = await rig.send(label="held")
        opened = await rig.run(
            lambda m: m.queues.open_queue(ORDERS, QueueAccessType.RECEIVE, Caller.administrator())
        )
        await rig.desk.call(
            lambda m: m.messages.dequeue_message(opened, timeout_ms=0, two_phase=True)
        )
        assert await rig.labels() == []
        explained = await rig.get(f"/api/v1/messages/{quote(identifier, safe='')}/explain")
        assert explained.json["places"][0]["state"] == "locked"
        assert (await rig.get(at())).json["locked"] == 1

    with_api(tmp_path, work)


def test_receiving_takes_and_an_empty_queue_gives_nothing(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        for label in ("one", "two", "three"):
            await rig.send(label=label)
        assert [m["label"] for m in await receive(rig, count=2)] == ["one", "two"]
        (last,) = (await rig.get(at() + "/messages")).json["messages"]
        taken = await rig.ask("DELETE", f"{at()}/messages/{last['lookup_id']}")
        assert (taken.status, taken.json["label"]) == (200, "three")
        again = await rig.ask("DELETE", f"{at()}/messages/{last['lookup_id']}")
        assert again.status == 404
        assert await receive(rig) == []
        assert await receive(rig, timeout_ms=1) == []
        assert (await rig.post(at() + "/receive", {"lookup_id": 999})).status == 404

    with_api(tmp_path, work)


def test_a_waiting_receive_gets_what_comes(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        waiting = asyncio.create_task(receive(rig, timeout_ms=30_000))
        while not (await rig.get(at())).json["waiting_readers"]:
            pass
        await rig.send(label="here")
        assert [message["label"] for message in await waiting] == ["here"]
        shown = (await rig.get(at())).json
        assert (shown["readers"], shown["waiting_readers"]) == (0, 0)

    with_api(tmp_path, work)


def test_a_receive_ends_with_its_token(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        token = await rig.token(role=Role.OPERATE)
        receive = rig.post(at() + "/receive", {"timeout_ms": 60_000}, token=token)
        waiting = asyncio.create_task(receive)
        while not (await rig.get(at())).json["waiting_readers"]:
            pass
        assert (await rig.ask("DELETE", f"/api/v1/tokens/{token.split('_')[1]}")).status == 200
        ended = await waiting
        assert (ended.status, ended.json["error"]["name"]) == (503, "MQ_ERROR_OPERATION_CANCELLED")
        await rig.send(label="kept")
        assert await rig.labels() == ["kept"]

    with_api(tmp_path, work)


def test_a_receive_ends_when_its_token_expires(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        token = await rig.token(role=Role.OPERATE, expires_s=int(time.time()) + 2)
        ended = await rig.post(at() + "/receive", {"timeout_ms": 60_000}, token=token)
        assert (ended.status, ended.json["error"]["name"]) == (503, "MQ_ERROR_OPERATION_CANCELLED")
        assert (await rig.get(at(), token=token)).status == 401

    with_api(tmp_path, work)


def test_a_receive_nobody_waits_for_takes_nothing(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        waiting = asyncio.create_task(receive(rig, timeout_ms=30_000))
        while not (await rig.get(at())).json["waiting_readers"]:
            pass
        waiting.cancel()
        while (await rig.get(at())).json["readers"]:
            pass
        await rig.send(label="kept")
        assert await rig.labels() == ["kept"]

    with_api(tmp_path, work)


def test_a_damaged_message_in_the_middle_does_not_cost_those_before_it(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        for number in range(4):
            await rig.send(label=f"{number}", body_text=f"BODY-{number}", delivery="recoverable")
        damage(tmp_path / "store", b"BODY-1")
        first = await rig.post(f"{at()}/receive", {"count": 4})
        assert first.status == 200, first
        assert [one["label"] for one in first.json["messages"]] == ["0"]
        rest = await rig.post(f"{at()}/receive", {"count": 4})
        assert [one["label"] for one in rest.json["messages"]] == ["2", "3"]
        assert (await rig.get(at())).json["messages"] == 1  # set aside, and counted

    with_api(tmp_path, work)


def test_a_damaged_message_in_front_is_the_answer(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        for number in range(2):
            await rig.send(label=f"{number}", body_text=f"BODY-{number}", delivery="recoverable")
        damage(tmp_path / "store", b"BODY-0")
        refused = await rig.post(f"{at()}/receive", {"count": 2})
        assert refused.json["error"]["name"] == "MQ_ERROR_MESSAGE_STORAGE_FAILED"
        rest = await rig.post(f"{at()}/receive", {"count": 2})
        assert [one["label"] for one in rest.json["messages"]] == ["1"]

    with_api(tmp_path, work)


def damage(folder: Path, text: bytes) -> None:
    """Changes a byte of a body on the disk."""
    wide = text.decode().encode("utf-16-le")
    for path in (path for path in folder.rglob("*") if path.is_file()):
        data = path.read_bytes()
        for shape in (text, wide):
            if (place := data.find(shape)) >= 0:
                with path.open("r+b") as file:
                    file.seek(place)
                    file.write(b"?")
                return
    raise AssertionError(f"{text!r} is nowhere")


XML = '<?xml version="1.0"?>\r\n'


@pytest.mark.parametrize(
    ("how", "text", "body", "body_type"),
    [
        ({"formatter": "xml"}, "a & b", f"{XML}<string>a &amp; b</string>", 0),
        ({"formatter": "xml", "type": "int"}, "42", f"{XML}<int>42</int>", 0),
        ({"formatter": "activex"}, "grün", "grün", 31),
        ({"formatter": "json"}, '{"a": 1.50}', '{"a": 1.50}', 0),
        ({"formatter": "text"}, "grün", "grün", 0),
    ],
)
def test_a_formatter_writes_the_body(
    tmp_path: Path, how: dict[str, str], text: str, body: str, body_type: int
) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await rig.send(body_text=text, formatter=how)
        (message,) = (await rig.get(at() + "/messages")).json["messages"]
        assert (message["body_text"], message["body_type"]) == (body, body_type)

    with_api(tmp_path, work)


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        ({"body_text": "x", "formatter": {"formatter": "json"}}, "the body is not JSON"),
        ({"body_text": "x", "formatter": {"formatter": "xml", "type": "int"}}, "int"),
        (
            {"body_text": "1", "formatter": {"formatter": "json", "type": "int"}},
            "type needs",
        ),
        (
            {"body_text": "1", "formatter": {"formatter": "xml", "namespace": "n"}},
            "needs root",
        ),
        ({"body_text": "[" * 9999, "formatter": {"formatter": "json"}}, "the body is not JSON"),
        ({"body_text": "x" * 262_145, "formatter": {"formatter": "text"}}, "at most 262144"),
        ({"body_text": "x", "body_type": 8, "formatter": {"formatter": "text"}}, "sets the body"),
        ({"body": "eA==", "formatter": {"formatter": "text"}}, "writes a body_text"),
        ({"body_text": "x", "formatter": {"formatter": "raw"}}, "raw"),
    ],
)
def test_bodies_that_a_formatter_does_not_write(
    tmp_path: Path, body: dict[str, Any], cause: str
) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        refused = await rig.post(at() + "/messages", body)
        assert refused.status in (400, 422)
        assert cause in refused.json["error"]["cause"]
        assert await rig.labels() == []

    with_api(tmp_path, work)
