"""Plans and splits: where a bulk read begins and ends, how much it is, and when to wait."""

from __future__ import annotations

import asyncio
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from posthouse.engine.manager import QueueManager
from posthouse.model.extras import install
from posthouse.model.names import parse_name
from posthouse.model.properties import QueueAccessType
from posthouse.model.roles import Role
from posthouse.protocols.handlers import read_plans as handlers_plan
from posthouse.protocols.handlers.messages import begin
from posthouse.security.access import Caller
from tests.protocols.admin.api_rig import AUDIT, ORDERS, ApiRig, at, with_api

PLAN = "/api/v1/bulk/plan"
SPLIT = "/api/v1/bulk/split"


async def plan(rig: ApiRig, queue: str = ORDERS, wait_ms: int = 0, **asked: Any) -> Any:
    reply = await rig.post(PLAN, {"queues": [{"queue": queue, **asked}], "wait_ms": wait_ms})
    assert reply.status == 200, reply
    return reply.json["queues"][0]


async def filled(rig: ApiRig, count: int = 10) -> list[dict[str, Any]]:
    await rig.create()
    for number in range(count):
        await rig.send(label=str(number), body_text="x" * 100, priority=number % 8)
    rows = (await rig.get(f"{at()}/messages")).json["messages"]
    return sorted(rows, key=lambda row: int(row["lookup_id"]))


def test_a_plan_says_what_is_there(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        empty = await plan(rig)
        assert (empty["earliest"], empty["latest"], empty["messages"]) == (0, 0, 0)
        ids = [await rig.send(label=str(number), priority=number) for number in range(8)]
        whole = await plan(rig)
        assert whole["queue"] == r"ALPHA\private$\orders"
        assert whole["messages"] == len(ids)
        assert whole["end"] == whole["latest"] == whole["earliest"] + 7
        queue = (await rig.get(at())).json
        assert whole["bytes"] == queue["bytes"]
        behind = await plan(rig, after=whole["earliest"] + 2)
        assert (behind["messages"], behind["after"]) == (5, whole["earliest"] + 2)
        assert behind["bytes"] * 8 == whole["bytes"] * 5

    with_api(tmp_path, work)


async def known(rig: ApiRig, **asked: Any) -> tuple[Any, Any, str]:
    """The plan of the queue, what its ids are, and who answers."""
    reply = await rig.post(PLAN, {"queues": [{"queue": ORDERS, **asked}]})
    assert reply.status == 200, reply
    answer = reply.json
    return answer["queues"][0], answer["identities"][0], answer["guid"]


def test_a_reader_without_an_identity_is_refused_what_no_message_has_had(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        rows = await filled(rig, 2)
        last = rows[-1]["lookup_id"]
        assert (await plan(rig, after=last))["end"] == last
        reply = await rig.post(PLAN, {"queues": [{"queue": ORDERS, "after": last + 1}]})
        assert reply.json["error"]["name"] == "MQ_ERROR_MESSAGE_ALREADY_RECEIVED"
        assert f"has had the lookup id {last + 1}" in reply.json["error"]["cause"]

    with_api(tmp_path, work)


def test_a_plan_says_what_its_ids_are_and_whether_earlier_ones_hold(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        rows = await filled(rig, 3)
        first, last = rows[0]["lookup_id"], rows[-1]["lookup_id"]
        _, identity, guid = await known(rig)
        assert identity["loss"] == ""
        assert guid == (await rig.get("/api/v1/status")).json["guid"]
        mine = {
            "manager": guid,
            "incarnation": identity["incarnation"],
            "created": identity["created"],
        }
        later, again, _ = await known(rig, after=first, identity=mine)
        assert (later["messages"], again) == (2, identity)
        for wrong, after, loss, safe in (
            ({"manager": "0" * 32}, first, "manager", 0),
            ({"incarnation": "0123456789abcdef"}, first, "incarnation", 0),
            ({"created": "1.1"}, first, "queue", first),
            ({}, last + 1, "beyond", last),
            ({"incarnation": ""}, last + 1, "beyond", 0),
        ):
            found, held, _ = await known(rig, after=after, identity={**mine, **wrong})
            assert (held["loss"], found["after"]) == (loss, safe), wrong
            assert found["messages"] == sum(row["lookup_id"] > safe for row in rows)
        nothing, held, _ = await known(rig, after=last, identity=mine)
        assert (nothing["messages"], held["loss"]) == (0, "")

    with_api(tmp_path, work)


def test_a_plan_ends_where_it_is_told_to(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        ids = [row["lookup_id"] for row in await filled(rig, 5)]
        some = await plan(rig, after=ids[0], through=ids[2])
        assert (some["end"], some["messages"]) == (ids[2], 2)
        assert (await plan(rig, through=ids[4] + 9))["end"] == ids[4]
        over = await plan(rig, after=ids[2], through=ids[1])
        assert (over["end"], over["messages"]) == (ids[2], 0)

    with_api(tmp_path, work)


def test_limits_say_where_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers_plan, "STEP_ROWS", 3)

    async def work(rig: ApiRig) -> None:
        rows = await filled(rig)
        ids = [row["lookup_id"] for row in rows]
        size = (await plan(rig))["bytes"] // len(ids)
        for limits, count in (
            ({"max_messages": 4}, 4),
            ({"max_messages": 6, "max_bytes": 2 * size}, 2),
            ({"max_bytes": 1}, 1),
            ({"max_bytes": 5 * size + size // 2}, 5),
            ({"max_messages": 99, "max_bytes": 1 << 40}, 10),
        ):
            found = await plan(rig, **limits)
            assert (found["messages"], found["bytes"]) == (count, count * size), limits
            assert sum(one <= found["end"] for one in ids) == count, limits

    with_api(tmp_path, work)


def test_since_goes_past_what_arrived_before(tmp_path: Path) -> None:
    now = [1_700_000_000]

    def clock() -> tuple[int, int]:
        return now[0] * 1000, now[0]

    async def work(rig: ApiRig) -> None:
        await rig.create()
        for _ in range(6):
            await rig.send()
            now[0] += 10
        first = (await plan(rig))["earliest"]
        for since, left in ((0, 6), (1_700_000_000, 6), (1_700_000_021, 3), (1_800_000_000, 0)):
            found = await plan(rig, since=since)
            assert (found["messages"], found["after"]) == (left, first + 5 - left), since

    with_api(tmp_path, work, clock=clock)


def test_a_plan_waits_for_something_new(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        rows = await filled(rig, 3)
        last = rows[-1]["lookup_id"]
        nothing = await plan(rig, after=last, wait_ms=10)
        assert nothing["latest"] == last
        waiting = asyncio.create_task(plan(rig, after=last, wait_ms=1000))
        await rig.send(label="new")
        found = await waiting
        assert (found["messages"], found["latest"]) == (1, last + 1)

    with_api(tmp_path, work)


def test_who_consumes_ends_before_what_others_have_locked(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create(AUDIT, transactional=True)
        for _ in range(5):
            await rig.send(AUDIT, delivery="transactional")
        first = (await plan(rig, AUDIT))["earliest"]

        def lock(manager: QueueManager) -> None:
            who = Caller.administrator()
            descriptor = manager.queues.open_queue(parse_name(AUDIT), QueueAccessType.RECEIVE, who)
            manager.messages.read_message_by_lookup_identifier(
                descriptor, first + 2, peek=False, transaction=begin(manager)
            )

        await rig.run(lock)
        assert (await plan(rig, AUDIT))["messages"] == 5
        consuming = await plan(rig, AUDIT, group="archive")
        assert (consuming["messages"], consuming["latest"]) == (2, first + 1)

    with_api(tmp_path, work)


def test_a_plan_tells_how_far_was_purged(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        rows = await filled(rig, 4)
        assert (await rig.post(f"{at()}/purge")).status == 200
        found = await plan(rig)
        assert found["purged_through"] == rows[-1]["lookup_id"]
        assert found["messages"] == 0

    with_api(tmp_path, work)


@pytest.mark.parametrize("parts", [1, 2, 3, 10, 100])
@pytest.mark.parametrize("most", [None, 1, 4])
def test_parts_cover_the_range_and_are_about_equal(
    parts: int, most: int | None, tmp_path: Path
) -> None:
    async def work(rig: ApiRig) -> None:
        rows = await filled(rig, 12)
        ids = [row["lookup_id"] for row in rows]
        body = {"queue": ORDERS, "after": ids[1], "through": ids[-1] + 5, "parts": parts}
        reply = await rig.post(SPLIT, {**body, "max_records": most})
        cuts = reply.json["cuts"]
        assert cuts[0]["after"] == ids[1]
        assert cuts[-1]["through"] == ids[-1] + 5
        assert all(a["through"] == b["after"] for a, b in pairwise(cuts))
        for cut in cuts:
            inside = [one for one in ids if cut["after"] < one <= cut["through"]]
            assert cut["messages"] == len(inside) > 0
            assert most is None or len(inside) <= most
        assert len(cuts) >= min(parts, 10)
        assert sum(cut["bytes"] for cut in cuts) == (await plan(rig, after=ids[1]))["bytes"]

    with_api(tmp_path, work)


def test_a_split_into_very_many_parts_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handlers_plan, "PARTS_MAX", 5)

    async def work(rig: ApiRig) -> None:
        await filled(rig, 12)
        body = {"queue": ORDERS, "through": 1000}
        refused = await rig.post(SPLIT, {**body, "max_records": 2})
        assert refused.status == 422
        assert "larger parts" in refused.json["error"]["remedy"]
        assert len((await rig.post(SPLIT, {**body, "max_records": 3})).json["cuts"]) == 4

    with_api(tmp_path, work)


def test_nothing_has_no_parts(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        reply = await rig.post(SPLIT, {"queue": ORDERS, "through": 99, "parts": 4})
        assert reply.json == {"cuts": []}

    with_api(tmp_path, work)


def test_plans_need_the_right_to_peek_and_a_queue_to_read(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        bob = await rig.user("bob", role=Role.READ)
        body = {"queues": [{"queue": ORDERS}]}
        assert (await rig.post(PLAN, body, token=bob)).status == 403
        split = {"queue": ORDERS, "through": 1}
        assert (await rig.post(SPLIT, split, token=bob)).status == 403
        nobody = {"queues": [{"queue": r".\private$\nobody"}]}
        assert (await rig.post(PLAN, nobody)).status == 404

    with_api(tmp_path, work)


def test_without_numpy_the_remedy_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        reply = await rig.post(PLAN, {"queues": [{"queue": ORDERS}]})
        assert reply.status == 501
        assert install("spark") in reply.json["error"]["remedy"]

    monkeypatch.delitem(sys.modules, "posthouse.store.bulk_rows", raising=False)
    monkeypatch.delattr("posthouse.store.bulk_rows", raising=False)
    monkeypatch.setitem(sys.modules, "numpy", None)
    monkeypatch.delattr("posthouse.store.bulk_rows", raising=False)
    with_api(tmp_path, work)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (ModuleNotFoundError("No module", name="pyarrow"), "has no pyarrow"),
        (ModuleNotFoundError("No module", name="numpy.core"), "has no numpy"),
        (ModuleNotFoundError("No module named 'six'", name="six"), "No module named 'six'"),
        (ImportError("libarrow.so.21: cannot open", name="pyarrow.lib"), "libarrow.so.21"),
    ],
)
def test_why_arrow_cannot_be_used_is_the_real_reason(error: ImportError, cause: str) -> None:
    assert cause in str(handlers_plan.not_loaded(error))
