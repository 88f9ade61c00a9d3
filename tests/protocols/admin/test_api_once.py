"""Requests whose answer was lost are asked again: an operation begins once, a message goes once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from posthouse.engine.sessions import resumable
from posthouse.model.roles import Role
from posthouse.protocols.handlers import operation_runs
from posthouse.protocols.handlers.operation_runs import OperationRun
from posthouse.protocols.handlers.request_steps import Outside, Steps
from tests.protocols.admin.api_rig import AUDIT, ORDERS, ApiRig, Reply, at, with_api
from tests.protocols.admin.operation_work import (
    OPERATIONS,
    after_step,
    all_labels,
    ended,
    fill,
)

SERIES = "0123456789abcdef" * 2
KEY = "my-operation.1"
COPY = {"act": "copy", "queue": ORDERS, "to": AUDIT, "key": KEY}


async def begun(rig: ApiRig, body: dict[str, Any] = COPY, **how: Any) -> int:
    reply = await rig.post(OPERATIONS, body, **how)
    assert reply.status == 201, reply
    return int(reply.json["id"])


async def two_queues(rig: ApiRig) -> None:
    await rig.create()
    await rig.create(AUDIT)
    await fill(rig, 3)


def test_an_operation_begun_twice_under_a_key_is_one(tmp_path: Path) -> None:
    async def first(rig: ApiRig) -> int:
        await two_queues(rig)
        number = await begun(rig)
        assert await begun(rig) == number
        await ended(rig, number)
        assert await begun(rig) == number
        return number

    number = with_api(tmp_path, first)

    async def after_a_restart(rig: ApiRig) -> None:
        assert await begun(rig) == number
        assert len(await all_labels(rig, AUDIT)) == 3
        listed = (await rig.get(OPERATIONS)).json["operations"]
        assert [one["id"] for one in listed] == [number]
        other = await begun(rig, COPY | {"key": "another-key"})
        assert other != number
        await ended(rig, other)
        assert len(await all_labels(rig, AUDIT)) == 6

    with_api(tmp_path, after_a_restart)


def test_another_request_under_the_same_key_is_refused(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await two_queues(rig)
        number = await begun(rig)
        await ended(rig, number)
        for change in ({"act": "move"}, {"where": "priority = 1"}, {"dry_run": True}):
            reply = await rig.post(OPERATIONS, COPY | change)
            assert reply.status == 422, reply
            assert f"operation {number} was begun under this key" in reply.json["error"]["cause"]
        for bad in ("short", "x" * 65, "with space", ""):
            assert (await rig.post(OPERATIONS, COPY | {"key": bad})).status == 400
        assert len((await rig.get(OPERATIONS)).json["operations"]) == 1
        assert len(await all_labels(rig, AUDIT)) == 3

    with_api(tmp_path, work)


def test_a_key_is_the_users_own_and_goes_with_its_operation(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await two_queues(rig)
        bob = await rig.user("bob", role=Role.OPERATE)
        for queue in (ORDERS, AUDIT):
            rights = ["peek", "receive", "send"]
            await rig.post(f"{at(queue)}/access/grant", {"who": "bob", "rights": rights})
        number, his = await begun(rig), await begun(rig, token=bob)
        assert number != his
        await ended(rig, number)
        assert (await rig.ask("DELETE", f"{OPERATIONS}/{number}")).status == 200
        assert await begun(rig) not in (number, his)

    with_api(tmp_path, work)


def test_a_repeated_begin_needs_neither_room_nor_the_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(run: OperationRun) -> Steps[None]:
        yield Outside(lambda resume: None)

    async def work(rig: ApiRig) -> None:
        await two_queues(rig)
        move = COPY | {"act": "move"}
        gone = await begun(rig, move)
        await ended(rig, gone)
        monkeypatch.setattr(OperationRun, "_step", after_step(hang))
        await fill(rig, 1)
        half = range(operation_runs.RUNNING_MAX // 2)
        same = [await begun(rig, COPY | {"key": f"running-{n}"}) for n in half]
        assert len(set(same)) == len(half)
        assert (await rig.post(OPERATIONS, COPY | {"key": "one-too-many"})).status == 507
        assert [await begun(rig, COPY | {"key": f"running-{n}"}) for n in half] == same
        assert (await rig.ask("DELETE", at())).status == 200
        assert await begun(rig, move) == gone

    with_api(tmp_path, work)


# -- messages


async def send(rig: ApiRig, number: int = 1, queue: str = ORDERS, **message: Any) -> Reply:
    token = message.pop("token", None)
    once = {"series": SERIES, "number": number}
    body = {"label": f"message {number}", "delivery": "recoverable", "once": once, **message}
    return await rig.post(f"{at(queue)}/messages", body, **({"token": token} if token else {}))


@pytest.mark.parametrize("delivery", ["express", "recoverable", "transactional"])
def test_a_message_sent_twice_under_a_number_is_one(delivery: str, tmp_path: Path) -> None:
    async def first(rig: ApiRig) -> list[str]:
        await rig.create(transactional=delivery == "transactional")
        sent = [(await send(rig, number, delivery=delivery)).json["id"] for number in (1, 2, 2, 1)]
        assert sent[0] == sent[3] != sent[1] == sent[2]
        return sent[:2]

    sent = with_api(tmp_path, first)

    async def after_a_restart(rig: ApiRig) -> None:
        assert [(await send(rig, n, delivery=delivery)).json["id"] for n in (1, 2)] == sent
        shown = (await rig.get(f"{at()}/messages")).json["messages"]
        assert [one["id"] for one in shown] == sent
        assert (await send(rig, 3, delivery=delivery)).json["id"] not in sent

    with_api(tmp_path, after_a_restart)


def test_another_message_under_the_same_number_is_refused(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await two_queues(rig)
        assert (await send(rig, 1, AUDIT)).status == 201
        for again in (await send(rig, 1, AUDIT, label="other"), await send(rig, 1, ORDERS)):
            assert again.status == 422, again
            assert "number 1 of this series was another request" in again.json["error"]["cause"]
        assert await all_labels(rig, AUDIT) == ["message 1"]
        assert len(await all_labels(rig, ORDERS)) == 3

    with_api(tmp_path, work)


def test_a_refused_message_may_be_sent_under_its_number_later(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        refused = await send(rig)
        assert refused.status == 404
        await rig.create()
        assert [(await send(rig)).status for _ in range(2)] == [201, 201]
        assert await all_labels(rig, ORDERS) == ["message 1"]

    with_api(tmp_path, work)


def test_series_are_bounded_and_belong_to_their_account(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        for number in range(1, resumable.UNANSWERED_MAX + 2):
            assert (await send(rig, number, delivery="express")).status == 201
        old = await send(rig, 1, delivery="express")
        assert old.status == 422
        assert "no longer kept" in old.json["error"]["cause"]
        bob = await rig.user("bob", role=Role.OPERATE)
        await rig.post(f"{at()}/access/grant", {"who": "bob", "rights": ["send"]})
        assert (await send(rig, 70, token=bob)).status == 403
        for bad in ({"series": "x"}, {"number": 0}, {"number": 1 << 62}, {"more": 1}):
            assert (await send(rig, once={"series": SERIES, "number": 1} | bad)).status == 400
        assert len(await all_labels(rig, ORDERS)) == resumable.UNANSWERED_MAX + 1

    with_api(tmp_path, work)


def test_messages_that_end_at_once_or_go_to_many_queues_go_once_too(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await two_queues(rig)
        late = [await send(rig, 1, time_to_reach_queue=0, journal=["negative"]) for _ in range(2)]
        assert late[0].status == late[1].status
        assert late[0].json == late[1].json
        both = "DIRECT=OS:alpha\\private$\\orders,DIRECT=OS:alpha\\private$\\audit"
        sent = [await send(rig, 2, both) for _ in range(2)]
        assert [one.status for one in sent] == [201, 201]
        assert sent[0].json == sent[1].json
        assert (await all_labels(rig, AUDIT)).count("message 2") == 1
        assert (await all_labels(rig, ORDERS)).count("message 2") == 1

    with_api(tmp_path, work)
