"""Many messages at once: move, copy, delete, resend, by filter or lookup ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from posthouse.engine.ledger.books import books_of
from posthouse.engine.manager import QueueManager
from posthouse.protocols.handlers import move_copy_delete, scanning
from tests.protocols.admin.api_rig import AUDIT, ORDERS, ApiRig, at, with_api

POISON = ORDERS + ";poison"
SMALL = r".\private$\small"
DEAD = r".\system$;deadletter"
DEAD_TX = r".\system$;deadxact"


async def bulk(rig: ApiRig, action: str, queue: str = ORDERS, **body: Any) -> Any:
    reply = await rig.post(f"{at(queue)}/{action}", body)
    assert reply.status == 200, reply
    return reply.json


async def fill(rig: ApiRig, count: int, queue: str = ORDERS, **message: Any) -> None:
    for number in range(count):
        await rig.send(queue, label=f"{number}", **message)


@pytest.fixture(autouse=True)
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test goes through several steps."""
    monkeypatch.setattr(scanning.Scan.step, "__defaults__", (3,))


def test_a_dry_run_only_counts(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await fill(rig, 10)
        result = await bulk(rig, "delete", where="label < 5", dry_run=True)
        assert (result["matched"], result["done"], result["dry_run"]) == (5, 0, True)
        assert len(await rig.labels()) == 10

    with_api(tmp_path, work)


def test_a_dry_run_says_what_the_target_would_refuse(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await rig.create(AUDIT, transactional=True)
        await rig.create(SMALL, quota_kib=1)
        await fill(rig, 4, body_text="x" * 200)
        asked: dict[str, Any] = {"where": "priority < 8", "dry_run": True}
        refused = await bulk(rig, "move", to=AUDIT, **asked)
        assert (refused["matched"], refused["done"], refused["refused"]) == (4, 0, 4)
        assert refused["error"]["name"] == "MQ_ERROR_TRANSACTION_USAGE"
        for action in ("copy", "resend"):
            assert (await bulk(rig, action, to=AUDIT, **asked))["refused"] == 0
        for action in ("move", "copy", "resend"):
            full = await bulk(rig, action, to=SMALL, **asked)
            assert 0 < full["refused"] < 4
            assert full["error"]["name"] == "MQ_ERROR_INSUFFICIENT_RESOURCES"
        assert (await bulk(rig, "move", to=POISON, **asked))["refused"] == 0
        for action in ("move", "copy", "resend"):
            body = {"to": r".\private$\none", **asked}
            assert (await rig.post(f"{at()}/{action}", body)).status == 404
            far = await bulk(rig, "copy", to=r"DIRECT=OS:FAR\private$\x", **asked)
            assert far["refused"] == 0
        assert len(await rig.labels()) == 4
        outgoing = (await rig.get("/api/v1/queues", outgoing="true")).json["queues"]
        assert [queue["path"] for queue in outgoing if "FAR" in queue["format_name"]] == []

    with_api(tmp_path, work)


def test_messages_are_deleted_by_filter_and_by_lookup_id(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await fill(rig, 10)
        result = await bulk(rig, "delete", where="label < 5")
        assert (result["matched"], result["done"], result["refused"]) == (5, 5, 0)
        left = (await rig.get(at() + "/messages")).json["messages"]
        ids = [message["lookup_id"] for message in left[:2]]
        result = await bulk(rig, "delete", lookup_ids=[*ids, ids[0], 999_999])
        assert (result["matched"], result["done"], result["gone"]) == (2, 2, 1)
        assert await rig.labels() == ["7", "8", "9"]

    with_api(tmp_path, work)


def test_messages_move_to_a_subqueue_and_back(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await fill(rig, 7)
        result = await bulk(rig, "move", to=POISON, where="label > 3")
        assert (result["matched"], result["done"]) == (3, 3)
        assert await rig.labels(POISON) == ["4", "5", "6"]
        (message, *_) = (await rig.get(at(POISON) + "/messages")).json["messages"]
        assert message["move_count"] == 1
        await bulk(rig, "move", POISON, to=ORDERS, where="priority < 8")
        assert len(await rig.labels()) == 7
        assert (await rig.get(at(POISON))).status == 404
        assert (await rig.get(at(POISON) + "/messages")).status == 404  # a look does not make it

    with_api(tmp_path, work)


def test_what_cannot_be_moved_is_counted_with_its_reason(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await rig.create(AUDIT, transactional=True)
        await fill(rig, 4)
        result = await bulk(rig, "move", to=AUDIT, where="label < 2")
        assert (result["matched"], result["done"], result["refused"]) == (2, 0, 2)
        assert result["error"]["name"] == "MQ_ERROR_TRANSACTION_USAGE"
        body = {"to": r".\private$\none", "where": "label < 2"}
        for action in ("move", "copy", "resend"):
            nowhere = await rig.post(f"{at()}/{action}", body)
            assert nowhere.status == 404
            assert nowhere.json["error"]["name"] == "MQ_ERROR_QUEUE_NOT_FOUND"
        same = await bulk(rig, "move", to=ORDERS, where="label < 2")
        assert same["refused"] == 2
        assert len(await rig.labels()) == 4

    with_api(tmp_path, work)


def test_copies_are_new_messages_and_the_old_ones_stay(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await rig.create(AUDIT, transactional=True)
        await fill(rig, 4, app_specific=7, body_text="text")
        result = await bulk(rig, "copy", to=AUDIT, where="priority < 8")
        assert (result["matched"], result["done"]) == (4, 4)
        copies = (await rig.get(at(AUDIT) + "/messages")).json["messages"]
        olds = (await rig.get(at() + "/messages")).json["messages"]
        assert [m["label"] for m in copies] == [m["label"] for m in olds]
        assert {m["app_specific"] for m in copies} == {7}
        assert {m["body_text"] for m in copies} == {"text"}
        assert {m["delivery"] for m in copies} == {"transactional"}
        assert {m["destination"] for m in copies} == {r"DIRECT=OS:ALPHA\private$\audit"}
        assert not {m["id"] for m in copies} & {m["id"] for m in olds}

    with_api(tmp_path, work)


def test_copies_into_the_same_queue_come_to_an_end(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await fill(rig, 5)
        result = await bulk(rig, "copy", to=ORDERS, where="priority < 8")
        assert result["done"] == 5
        assert len(await rig.labels()) == 10

    with_api(tmp_path, work)


@pytest.mark.parametrize("transactional", [False, True])
def test_dead_letters_are_sent_again(transactional: bool, tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create(transactional=transactional)
        delivery = "transactional" if transactional else "recoverable"
        await fill(rig, 5, journal=["negative"], delivery=delivery)
        await rig.post(at() + "/purge")
        dead = DEAD_TX if transactional else DEAD
        assert len(await rig.labels(dead)) == 5
        result = await bulk(rig, "resend", dead, where="class = nack-queue-purged")
        assert (result["matched"], result["done"]) == (5, 5)
        assert await rig.labels(dead) == []
        assert await rig.labels() == ["0", "1", "2", "3", "4"]

    with_api(tmp_path, work)


def test_what_cannot_be_sent_again_stays(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await fill(rig, 3, journal=["negative"], delivery="recoverable")
        await rig.ask("DELETE", at())
        result = await bulk(rig, "resend", DEAD, where="priority < 8")
        assert (result["done"], result["refused"]) == (0, 3)
        assert result["error"]["name"] == "MQ_ERROR_QUEUE_NOT_FOUND"
        await rig.create(AUDIT)
        result = await bulk(rig, "resend", DEAD, to=AUDIT, where="priority < 8")
        assert result["done"] == 3
        assert await rig.labels(AUDIT) == ["0", "1", "2"]

    with_api(tmp_path, work)


def test_bulk_needs_the_right_to_receive(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await fill(rig, 2)
        bob = await rig.user("bob")
        await rig.post(at() + "/access/grant", {"who": "bob", "rights": ["peek"]})
        for action in ("delete", "resend"):
            body = {"where": "priority < 8"}
            assert (await rig.post(f"{at()}/{action}", body, token=bob)).status == 403
        for action in ("move", "copy"):
            body = {"where": "priority < 8", "to": AUDIT}
            assert (await rig.post(f"{at()}/{action}", body, token=bob)).status == 403
        assert len(await rig.labels()) == 2

    with_api(tmp_path, work)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"where": "priority < 8", "lookup_ids": [1]}, 422),
        ({"where": ""}, 400),
        ({"where": "priority"}, 422),
        ({"lookup_ids": []}, 400),
        ({"lookup_ids": [0]}, 400),
        ({"lookup_ids": [1] * 1001}, 400),
        ({"where": "priority < 8", "dry_run": "yes"}, 400),
    ],
)
def test_odd_selections_are_refused(body: Any, status: int, tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await fill(rig, 1)
        assert (await rig.post(at() + "/delete", body)).status == status
        assert len(await rig.labels()) == 1

    with_api(tmp_path, work)


def test_a_target_that_goes_half_way_is_told_with_the_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await rig.create(AUDIT)
        await fill(rig, 7)
        manager = rig.desk.manager
        move = manager.messages.move_message

        def move_and_delete(*args: Any, **options: Any) -> None:
            move(*args, **options)
            if books_of(manager.queues.all()[-2]).accepted == 3:
                manager.queues.delete_queue(AUDIT, manager.ledger.system)

        monkeypatch.setattr(manager.messages, "move_message", move_and_delete)
        result = await bulk(rig, "move", to=AUDIT, where="priority < 8")
        assert (result["matched"], result["done"], result["refused"]) == (7, 3, 4)
        assert result["error"]["name"] == "MQ_ERROR_QUEUE_NOT_FOUND"

    with_api(tmp_path, work)


def test_a_source_that_goes_half_way_is_told_with_the_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await fill(rig, 7)
        manager, done = rig.desk.manager, list[int]()
        read = manager.messages.read_message_by_lookup_identifier

        def read_and_delete(queue: Any, lookup_id: int, **options: Any) -> Any:
            result = read(queue, lookup_id, **options)
            done.append(lookup_id)
            if len(done) == 3:
                manager.queues.delete_queue(ORDERS, manager.ledger.system)
            return result

        monkeypatch.setattr(manager.messages, "read_message_by_lookup_identifier", read_and_delete)
        result = await bulk(rig, "delete", where="priority < 8")
        assert (result["matched"], result["done"], result["refused"]) == (3, 3, 0)
        assert result["error"]["name"] == "MQ_ERROR_QUEUE_NOT_FOUND"

    with_api(tmp_path, work)


def test_only_messages_may_be_large(tmp_path: Path) -> None:
    """A list is not taken apart to see that it is too long."""

    async def work(rig: ApiRig) -> None:
        await rig.create()
        ids = b'{"lookup_ids": [' + b"1," * 600_000 + b"1]}"
        reply = await rig.ask("POST", at() + "/delete", raw=ids)
        assert (reply.status, reply.json["error"]["remedy"]) == (413, "Split the request.")
        await rig.send(body_text="x" * 2_000_000)

    with_api(tmp_path, work)


def test_an_old_lookup_id_of_a_moved_message_is_gone(tmp_path: Path) -> None:
    """It has another one since it was moved: acted on under both, it would be copied twice."""

    async def work(rig: ApiRig) -> None:
        await rig.create()
        await rig.create(AUDIT)
        await fill(rig, 1)
        (old,) = [one["lookup_id"] for one in (await rig.get(f"{at()}/messages")).json["messages"]]
        retry = f"{ORDERS};retry"
        await bulk(rig, "move", to=retry, where="priority < 8")
        (new,) = [
            one["lookup_id"] for one in (await rig.get(f"{at(retry)}/messages")).json["messages"]
        ]
        assert new != old
        body = {"to": AUDIT, "lookup_ids": [new, old]}
        copied = (await rig.post(f"{at(retry)}/copy", body)).json
        assert (copied["done"], copied["gone"]) == (1, 1)
        what = {"act": "copy", "queue": retry, **body, "lookup_ids": [old]}
        begun = await rig.post("/api/v1/operations", what)
        assert begun.status == 201, begun
        assert (await rig.get("/api/v1/status")).status == 200  # the queue manager goes on
        assert len((await rig.get(f"{at(AUDIT)}/messages")).json["messages"]) == 1

    with_api(tmp_path, work)


TO_ITSELF = {"to": ORDERS}


@pytest.mark.parametrize(
    ("action", "to", "refused"),
    [
        ("move", TO_ITSELF, 4),
        ("copy", TO_ITSELF, 0),
        ("resend", TO_ITSELF, 4),
        ("resend", {}, 4),
        ("return", TO_ITSELF, 4),
        ("return", {}, 4),
    ],
)
def test_a_dry_run_into_the_queue_itself_is_what_the_act_is(
    action: str, to: dict[str, str], refused: int, tmp_path: Path
) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await fill(rig, 4)
        dry = await bulk(rig, action, where="priority < 8", dry_run=True, **to)
        done = await bulk(rig, action, where="priority < 8", **to)
        assert (dry["matched"], dry["refused"]) == (done["matched"], done["refused"])
        assert dry.get("error") == done.get("error")
        assert dry["refused"] == refused

    with_api(tmp_path, work)


@pytest.mark.parametrize("act", ["move", "copy", "delete", "resend"])
def test_a_revoked_token_ends_what_it_began(
    act: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was stolen does not go on for as long as the queue is."""
    made: dict[str, Any] = {}
    acted = move_copy_delete.act_on

    def revoking(manager: QueueManager, *more: Any) -> Any:
        manager.tokens.remove(made["info"]["id"])
        return acted(manager, *more)

    monkeypatch.setattr(move_copy_delete, "act_on", revoking)

    async def work(rig: ApiRig) -> None:
        await rig.create()
        await rig.create(AUDIT)
        await fill(rig, 7)
        made.update((await rig.post("/api/v1/tokens", {"role": "operate"})).json)
        to = {} if act == "delete" else {"to": AUDIT}
        body = {"where": "priority >= 0", **to}
        found = (await rig.post(f"{at()}/{act}", body, token=made["token"])).json
        assert (found["done"], found["error"]["name"]) == (3, "MQ_ERROR_ACCESS_DENIED")
        assert len(await rig.labels()) == (7 if act == "copy" else 4)

    with_api(tmp_path, work)
