"""Operations: each act, dry runs, stop, resume, restarts, rights, bounds."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from posthouse.engine.ledger.records import TABLE_OPERATION
from posthouse.engine.operations import operations as engine
from posthouse.engine.operations.operations import OperationProgress, Operations
from posthouse.model.roles import Role
from posthouse.protocols.handlers import operation_runs
from posthouse.protocols.handlers.operation_runs import OperationRun
from posthouse.protocols.handlers.request_steps import Outside, Steps, at_once
from posthouse.security.accounts import Token
from tests.protocols.admin.api_rig import AUDIT, ORDERS, ApiRig, at, with_api
from tests.protocols.admin.operation_work import (
    OPERATIONS,
    after_step,
    all_labels,
    begin,
    both,
    ended,
    fill,
)

MANY = 1100  # three steps


def test_each_act(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await both(rig)
        await fill(rig, 40)
        shown = await ended(rig, await begin(rig, "move", to=AUDIT, where="priority = 3"))
        assert (shown["state"], shown["matched"], shown["done"]) == ("done", 5, 5)
        shown = await ended(rig, await begin(rig, "copy", to=AUDIT, where="priority = 1"))
        assert (shown["done"], shown["refused"]) == (5, 0)
        assert len(await all_labels(rig, AUDIT)) == 10
        page = (await rig.get(f"{at()}/messages", limit=3)).json["messages"]
        ids = [message["lookup_id"] for message in page]
        shown = await ended(rig, await begin(rig, "delete", lookup_ids=[*ids, ids[0], 999_999]))
        assert (shown["done"], shown["gone"], shown["total"]) == (3, 1, 4)
        shown = await ended(rig, await begin(rig, "resend", to=AUDIT, where="priority = 2"))
        assert shown["done"] > 0
        assert len(await all_labels(rig, ORDERS)) + len(await all_labels(rig, AUDIT)) == 42
        shown = await ended(rig, await begin(rig, "delete"))
        assert shown["done"] == shown["total"]
        assert await all_labels(rig, ORDERS) == []

    with_api(tmp_path, work)


def test_failures_return_to_their_source(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await both(rig)
        await fill(rig, 30)
        failed = f"{ORDERS};failed"
        shown = await ended(rig, await begin(rig, "move", to=failed))
        assert shown["done"] == 30
        reply = await rig.post(OPERATIONS, {"act": "return", "queue": failed})
        shown = await ended(rig, reply.json["id"])
        assert (shown["state"], shown["done"]) == ("done", 30)
        assert len(await all_labels(rig, ORDERS)) == 30

    with_api(tmp_path, work)


def test_a_dry_run_counts_and_changes_nothing(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await both(rig)
        await fill(rig, 100)
        before = await all_labels(rig, ORDERS)
        shown = await ended(rig, await begin(rig, "move", to=AUDIT, dry_run=True))
        assert (shown["matched"], shown["done"], len(shown["sample"])) == (100, 0, 20)
        assert await all_labels(rig, ORDERS) == before
        assert await all_labels(rig, AUDIT) == []

    with_api(tmp_path, work)


@pytest.mark.parametrize("act", ["move", "copy", "delete"])
def test_a_stopped_operation_goes_on_where_it_was(
    act: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(run: OperationRun) -> Steps[None]:
        run.stopping = True
        yield from ()

    async def work(rig: ApiRig) -> None:
        await both(rig)
        await fill(rig, MANY)
        options = {} if act == "delete" else {"to": AUDIT}
        with monkeypatch.context() as patch:
            patch.setattr(OperationRun, "_step", after_step(stop))
            number = await begin(rig, act, **options)
            shown = await ended(rig, number)
        assert (shown["state"], shown["done"], shown["scanned"]) == ("stopped", 500, 500)
        assert len(await all_labels(rig, AUDIT)) == (0 if act == "delete" else 500)
        await fill(rig, 7)  # these came later
        resumed = await rig.post(f"{OPERATIONS}/{number}/resume")
        assert resumed.status == 200
        assert (await rig.post(f"{OPERATIONS}/{number}/resume")).status == 409
        shown = await ended(rig, number)
        assert (shown["state"], shown["done"], shown["scanned"]) == ("done", MANY, MANY)
        left = MANY + 7 if act == "copy" else 7
        assert len(await all_labels(rig, ORDERS)) == left
        found = Counter(await all_labels(rig, AUDIT))
        assert sum(found.values()) == len(found) == (0 if act == "delete" else MANY)
        for path in ("stop", "resume"):
            assert (await rig.post(f"{OPERATIONS}/{number}/{path}")).status == 409

    with_api(tmp_path, work)


@pytest.mark.parametrize("act", ["move", "copy", "resend"])
def test_a_restart_neither_loses_nor_doubles_a_message(
    act: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server ends in a run, and the last words of its step were not written."""

    def hang(run: OperationRun) -> Steps[None]:
        yield Outside(lambda resume: None)

    async def first(rig: ApiRig) -> int:
        await both(rig)
        await fill(rig, MANY)
        monkeypatch.setattr(OperationRun, "_step", after_step(hang))
        monkeypatch.setattr(Operations, "save", lambda self, operation: None)
        number = await begin(rig, act, to=AUDIT)
        await until(rig, lambda: has(rig, AUDIT, 500))
        return number

    number = with_api(tmp_path, first)
    monkeypatch.undo()

    async def second(rig: ApiRig) -> None:
        shown = (await rig.get(f"{OPERATIONS}/{number}")).json
        assert shown["state"] == "interrupted"
        assert (await rig.post(f"{OPERATIONS}/{number}/resume")).status == 200
        shown = await ended(rig, number)
        assert shown["state"] == "done"
        found = Counter(await all_labels(rig, AUDIT))
        assert (len(found), sum(found.values())) == (MANY, MANY)
        assert len(await all_labels(rig, ORDERS)) == (MANY if act == "copy" else 0)

    with_api(tmp_path, second)


async def has(rig: ApiRig, queue: str, count: int) -> bool:
    return int((await rig.get(at(queue))).json["messages"]) >= count


async def until(rig: ApiRig, true: Callable[[], Awaitable[bool]]) -> None:
    while not await true():
        pass  # each look lets the server work


def test_rights_count_at_the_begin_and_in_each_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(rig: ApiRig) -> None:
        await both(rig)
        await fill(rig, MANY)
        bob = await rig.user("bob", role=Role.OPERATE)
        body = {"act": "move", "queue": ORDERS, "to": AUDIT}
        assert (await rig.post(OPERATIONS, body, token=bob)).status == 403
        for queue in (ORDERS, AUDIT):
            rights = ["peek", "receive", "send"]
            await rig.post(f"{at(queue)}/access/grant", {"who": "bob", "rights": rights})

        def revoke(run: OperationRun) -> Steps[None]:
            yield from at_once(lambda m: m.accounts.replace(m.accounts.find("bob")))

        with monkeypatch.context() as patch:
            patch.setattr(OperationRun, "_step", after_step(revoke))
            number = (await rig.post(OPERATIONS, body, token=bob)).json["id"]
            shown = await ended(rig, number)
        assert (shown["state"], shown["done"]) == ("failed", 500)
        assert "MQ_ERROR_ACCESS_DENIED" in shown["error"]
        assert len(await all_labels(rig, ORDERS)) == MANY - 500
        carol = await rig.user("carol", role=Role.OPERATE)
        assert (await rig.get(f"{OPERATIONS}/{number}", token=carol)).status == 404
        assert (await rig.get(OPERATIONS, token=carol)).json["operations"] == []
        assert (await rig.post(f"{OPERATIONS}/{number}/resume", token=carol)).status == 404
        assert len((await rig.get(OPERATIONS, token=bob)).json["operations"]) == 1
        look = (await rig.get(OPERATIONS, token=rig.tokens["look"])).json["operations"]
        assert look[0]["where"] is None
        assert (await rig.ask("DELETE", f"{OPERATIONS}/{number}")).status == 200
        assert (await rig.get(f"{OPERATIONS}/{number}")).status == 404

    with_api(tmp_path, work)


def test_a_revoked_token_stops_its_operations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(rig: ApiRig) -> None:
        await both(rig)
        await fill(rig, MANY)
        made = (await rig.post("/api/v1/tokens", {"role": "operate"})).json

        def revoke(run: OperationRun) -> Steps[None]:
            rig.admin.end_sessions_of([made["info"]["id"]])
            yield from ()

        monkeypatch.setattr(OperationRun, "_step", after_step(revoke))
        body = {"act": "move", "queue": ORDERS, "to": AUDIT}
        begun = await rig.post(OPERATIONS, body, token=made["token"])
        shown = await ended(rig, begun.json["id"])
        assert (shown["state"], shown["done"]) == ("stopped", 500)

    with_api(tmp_path, work)


def test_an_expired_token_stops_its_operations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = False

    def expire(run: OperationRun) -> Steps[None]:
        nonlocal over
        over = True
        yield from ()

    async def work(rig: ApiRig) -> None:
        await both(rig)
        await fill(rig, 3 * 500)
        expires = {"role": "operate", "expires": "2100-01-01T00:00:00Z"}
        token = (await rig.post("/api/v1/tokens", expires)).json["token"]
        monkeypatch.setattr(OperationRun, "_step", after_step(expire))
        monkeypatch.setattr(Token, "expired", lambda self, now_s: over and bool(self.expires_s))
        body = {"act": "move", "queue": ORDERS, "to": AUDIT}
        begun = await rig.post(OPERATIONS, body, token=token)
        shown = await ended(rig, begun.json["id"])
        assert (shown["state"], shown["done"]) == ("stopped", 1000)  # looked at with each step

    with_api(tmp_path, work)


def test_a_token_for_some_queues_reaches_operations_of_these(tmp_path: Path) -> None:
    """Tokens of applications mostly belong to one user, the administrator."""

    async def work(rig: ApiRig) -> None:
        await both(rig)
        number = await begin(rig, "delete", where="label = 'a secret'")
        await ended(rig, number)
        for queue, found in ((ORDERS, 200), (AUDIT, 404)):
            made = {"role": "administer", "queues": [f"{queue}=full"]}
            token = (await rig.post("/api/v1/tokens", made)).json["token"]
            listed = (await rig.get(OPERATIONS, token=token)).json["operations"]
            assert len(listed) == (found == 200)
            assert (await rig.get(f"{OPERATIONS}/{number}", token=token)).status == found
        assert (await rig.post(f"{OPERATIONS}/{number}/stop", token=token)).status == 404
        assert (await rig.post(f"{OPERATIONS}/{number}/resume", token=token)).status == 404
        assert (await rig.ask("DELETE", f"{OPERATIONS}/{number}", token=token)).status == 404
        assert (await rig.ask("DELETE", at())).status == 200
        made = {"role": "administer", "queues": [f"{ORDERS}=full"]}
        token = (await rig.post("/api/v1/tokens", made)).json["token"]
        assert (await rig.get(OPERATIONS, token=token)).json["operations"] == []

    with_api(tmp_path, work)


def test_a_token_for_one_queue_changes_no_operation_that_reaches_another(tmp_path: Path) -> None:
    """Forgotten, a copy would be begun again under its key by its own program: two copies."""

    async def work(rig: ApiRig) -> None:
        await both(rig)
        await fill(rig, 3)
        body = {"act": "copy", "queue": ORDERS, "to": AUDIT, "key": "ab" * 16}
        number = (await rig.post(OPERATIONS, body)).json["id"]
        await ended(rig, number)
        for queues, status in (
            ([f"{ORDERS}=full"], 403),
            ([f"{ORDERS}=peek", f"{AUDIT}=full"], 403),
            ([f"{ORDERS}=peek,receive", f"{AUDIT}=send"], 200),
        ):
            made = {"role": "operate", "queues": queues}
            token = (await rig.post("/api/v1/tokens", made)).json["token"]
            for act in ("stop", "resume"):
                path = f"{OPERATIONS}/{number}/{act}"
                assert (await rig.post(path, token=token)).status == (status, 409)[status == 200]
            assert (await rig.get(f"{OPERATIONS}/{number}", token=token)).status == 200
            path = f"{OPERATIONS}/{number}"
            assert (await rig.ask("DELETE", path, token=token)).status == status
        assert (await rig.post(OPERATIONS, body)).json["id"] != number

    with_api(tmp_path, work)


def test_many_begins_at_once_leave_nothing_behind(tmp_path: Path) -> None:
    """One that is refused was not created: what is kept until somebody deletes it has a limit."""

    async def work(rig: ApiRig) -> None:
        await both(rig)
        body = {"act": "delete", "queue": ORDERS}
        replies = await asyncio.gather(*(rig.post(OPERATIONS, body) for _ in range(40)))
        begun = [reply.json["id"] for reply in replies if reply.status == 201]
        assert {reply.status for reply in replies} == {201, 507}
        for number in begun:
            assert (await ended(rig, number))["state"] == "done"
        listed = (await rig.get(OPERATIONS)).json["operations"]
        assert sorted(one["id"] for one in listed) == sorted(begun)

    with_api(tmp_path, work)


@pytest.mark.parametrize(
    "body",
    [
        {"act": "move"},
        {"act": "copy", "where": "priority = 1"},
        {"act": "delete", "to": AUDIT},
        {"act": "delete", "group": "0" * 12},
        {"act": "delete", "where": "priority = 1", "lookup_ids": [1]},
        {"act": "delete", "where": "nonsense"},
        {"act": "delete", "lookup_ids": []},
        {"act": "explode"},
        {"act": "move", "to": r".\private$\none"},
        {"act": "delete", "queue": r".\private$\none"},
    ],
)
def test_bad_requests_begin_nothing(body: dict[str, Any], tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await both(rig)
        reply = await rig.post(OPERATIONS, {"queue": ORDERS, **body})
        assert reply.status in (400, 404, 422), reply
        assert (await rig.get(OPERATIONS)).json["operations"] == []

    with_api(tmp_path, work)


def test_they_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "KEPT_MAX", 3)

    def hang(run: OperationRun) -> Steps[None]:
        yield Outside(lambda resume: None)

    async def work(rig: ApiRig) -> None:
        await both(rig)
        for _ in range(5):
            await ended(rig, await begin(rig, "delete"))
        listed = (await rig.get(OPERATIONS)).json["operations"]
        assert [one["id"] for one in listed] == [5, 4, 3]
        await fill(rig, 1)
        monkeypatch.setattr(OperationRun, "_step", after_step(hang))
        for _ in range(operation_runs.RUNNING_MAX // 2):
            await begin(rig, "delete")
            await fill(rig, 1)
        refused = await rig.post(OPERATIONS, {"act": "delete", "queue": ORDERS})
        assert refused.status == 507, refused
        running = (await rig.get(OPERATIONS)).json["operations"][0]["id"]
        assert (await rig.ask("DELETE", f"{OPERATIONS}/{running}")).status == 409

    with_api(tmp_path, work)


def test_one_user_holds_half_of_the_places_and_two_others_find_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(run: OperationRun) -> Steps[None]:
        yield Outside(lambda resume: None)

    async def work(rig: ApiRig) -> None:
        await both(rig)
        await fill(rig, 1)
        monkeypatch.setattr(OperationRun, "_step", after_step(hang))
        statuses = list[list[int]]()
        for name in ("ann", "bob", "carol", "dave"):
            token = await rig.user(name, role=Role.OPERATE)
            await rig.post(f"{at()}/access/grant", {"who": name, "rights": ["receive"]})
            body = {"act": "delete", "queue": ORDERS}
            replies = [await rig.post(OPERATIONS, body, token=token) for _ in range(4)]
            statuses.append([reply.status for reply in replies])
        two, one, none = [201] * 2 + [507] * 2, [201] + [507] * 3, [507] * 4
        assert statuses == [two, one, one, none]

    with_api(tmp_path, work)


def test_the_number_of_the_newest_is_not_given_again_after_a_restart(tmp_path: Path) -> None:
    numbers = list[int]()

    async def work(rig: ApiRig) -> None:
        if not numbers:
            await both(rig)
        numbers.append(await begin(rig, "delete"))
        await ended(rig, numbers[-1])
        assert (await rig.ask("DELETE", f"{OPERATIONS}/{numbers[-1]}")).status == 200

    for _ in range(3):
        with_api(tmp_path, work)
    assert numbers == [1, 2, 3]


def test_what_is_kept_of_the_newest_number_is_a_record_that_older_versions_read(
    tmp_path: Path,
) -> None:
    """They take each record of the table for a definition or for progress, or do not start."""

    async def kept(rig: ApiRig) -> list[tuple[bytes, bytes]]:
        return await rig.run(lambda m: list(m.ledger.state.of_table(TABLE_OPERATION)))

    async def work(rig: ApiRig) -> None:
        await both(rig)
        for number in (1, 2):
            assert await begin(rig, "delete") == number
            await ended(rig, number)
            assert [key[0] for key, _ in sorted(await kept(rig))] == [*b"dp"]
            assert (await rig.ask("DELETE", f"{OPERATIONS}/{number}")).status == 200
            ((key, value),) = await kept(rig)
            assert key[:1] == b"p"
            assert msgspec.msgpack.decode(value, type=OperationProgress) == OperationProgress()

    with_api(tmp_path, work)


def test_operations_of_one_user_do_not_push_out_those_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "KEPT_MAX", 4)

    async def work(rig: ApiRig) -> None:
        await both(rig)
        first = await begin(rig, "delete")
        await ended(rig, first)
        bob = await rig.user("bob", role=Role.OPERATE)
        await rig.post(f"{at()}/access/grant", {"who": "bob", "rights": ["receive"]})
        numbers = []
        for _ in range(6):
            begun = await rig.post(OPERATIONS, {"act": "delete", "queue": ORDERS}, token=bob)
            numbers.append(begun.json["id"])
            await ended(rig, numbers[-1])
        listed = (await rig.get(OPERATIONS)).json["operations"]
        assert [one["id"] for one in listed] == [*reversed(numbers[-3:]), first]

    with_api(tmp_path, work)


def test_a_return_that_is_resumed_leaves_later_messages_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was stopped before its first page, so that nothing but its begin has the ceiling."""
    failed = f"{ORDERS};failed"

    async def put(rig: ApiRig, count: int) -> None:
        await fill(rig, count)
        await ended(rig, await begin(rig, "move", to=failed))

    def stop(self: OperationRun) -> Steps[None]:
        self.stopping = True
        yield from ()

    async def work(rig: ApiRig) -> None:
        await both(rig)
        await put(rig, 6)
        with monkeypatch.context() as patch:
            patch.setattr(OperationRun, "_return", stop)
            reply = await rig.post(OPERATIONS, {"act": "return", "queue": failed})
            shown = await ended(rig, reply.json["id"])
        assert (shown["state"], shown["done"]) == ("stopped", 0)
        await put(rig, 3)  # these came later
        await rig.post(f"{OPERATIONS}/{shown['id']}/resume")
        shown = await ended(rig, shown["id"])
        assert (shown["state"], shown["done"]) == ("done", 6)
        assert len(await all_labels(rig, failed)) == 3
        assert len(await all_labels(rig, ORDERS)) == 6

    with_api(tmp_path, work)
