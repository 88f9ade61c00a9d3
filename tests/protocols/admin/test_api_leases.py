"""Messages on a lease: taken by one caller, removed at the end, available again without it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from posthouse.engine.manager import QueueManager
from posthouse.model.names import parse_name
from posthouse.model.roles import Role
from posthouse.protocols.handlers import lease_table
from posthouse.protocols.handlers.request_steps import Conversation
from posthouse.security.access import Caller
from posthouse.security.accounts import Token
from tests.protocols.admin.api_rig import ORDERS, ApiRig, Reply, at, with_api


async def lease(rig: ApiRig, **body: Any) -> Any:
    options = body.pop("options", {})
    reply = await rig.post(f"{at()}/lease", body, **options)
    assert reply.status == 200, reply
    return reply.json


async def end(rig: ApiRig, found: Any, **body: Any) -> Reply:
    options = body.pop("options", {})
    return await rig.post(f"/api/v1/leases/{found['lease']}/end", body, **options)


async def filled(rig: ApiRig, count: int = 3) -> None:
    await rig.create()
    for number in range(count):
        await rig.send(label=str(number), delivery="recoverable")


async def counts(rig: ApiRig) -> tuple[int, int]:
    """Messages of the queue, and how many of them are locked."""
    queue = (await rig.get(at())).json
    return queue["messages"], queue["locked"]


async def left(rig: ApiRig) -> list[str]:
    """The labels of the messages that another reader gets."""
    reply = await rig.post(f"{at()}/receive", {"count": 100})
    return [message["label"] for message in reply.json["messages"]]


async def let_time_pass(rig: ApiRig, seconds: int) -> None:
    """The leases are as old as if this time had passed."""
    for one in rig.admin.services.leases._open.values():
        one.ends_ms -= seconds * 1000


def test_messages_on_a_lease_are_removed_at_its_end(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await filled(rig)
        found = await lease(rig, count=2)
        assert [message["label"] for message in found["messages"]] == ["0", "1"]
        assert await counts(rig) == (3, 2)
        ended = await end(rig, found)
        assert (ended.status, ended.json["ended"], ended.json["left"]) == (200, 2, [])
        assert await counts(rig) == (1, 0)
        assert await left(rig) == ["2"]
        again = await end(rig, found)  # the answer was lost
        assert (again.status, again.json) == (ended.status, ended.json)

    with_api(tmp_path, work)


def test_what_is_returned_is_available_again(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await filled(rig)
        found = await lease(rig, count=3)
        first, second, _ = [message["lookup_id"] for message in found["messages"]]
        kept = (await end(rig, found, outcome="received", lookup_ids=[second])).json
        assert (kept["ended"], len(kept["left"])) == (1, 2)
        back = (await end(rig, found, outcome="returned", lookup_ids=[first, first])).json
        assert (back["ended"], len(back["left"])) == (1, 1)
        assert await left(rig) == ["0"]
        await end(rig, found, outcome="returned")
        assert await left(rig) == ["2"]

    with_api(tmp_path, work)


def test_a_lease_whose_time_is_over_has_lost_its_messages(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await filled(rig, 1)
        found = await lease(rig, lease_s=10)
        await let_time_pass(rig, 9)
        assert (
            await rig.post(f"/api/v1/leases/{found['lease']}/renew", {"lease_s": 10})
        ).status == 200
        await let_time_pass(rig, 9)
        assert await counts(rig) == (1, 1)
        await let_time_pass(rig, 2)
        await rig.run(rig.admin.services.leases.expire)  # as the server does every few seconds
        assert await left(rig) == ["0"]
        refused = await end(rig, found)
        assert (refused.status, "time is over" in str(refused.json)) == (422, True), refused

    with_api(tmp_path, work)


def test_the_server_ends_leases_by_itself(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await filled(rig, 1)
        await lease(rig, lease_s=1)
        await let_time_pass(rig, 2)
        rig.admin._sample()
        assert await left(rig) == ["0"]
        assert len(rig.admin.services.leases) == 0

    with_api(tmp_path, work)


def test_a_lease_waits_for_a_message(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        waiting = asyncio.create_task(lease(rig, timeout_ms=60_000))
        while not (await rig.get(at())).json["waiting_readers"]:
            pass  # each look lets the server work
        await rig.send(label="late")
        found = await waiting
        assert [message["label"] for message in found["messages"]] == ["late"]
        assert await counts(rig) == (1, 1)
        await end(rig, found)
        empty = await lease(rig, timeout_ms=1)
        assert (empty["messages"], empty["lease"]) == ([], "")
        assert len(rig.admin.services.leases) == 0
        assert (await rig.get(at())).json["readers"] == 0

    with_api(tmp_path, work)


def test_a_lease_belongs_to_its_user(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await filled(rig, 1)
        found = await lease(rig)
        other = {"token": await rig.user("mallory", administrator=True, role=Role.ADMINISTER)}
        for verb in ("end", "renew"):
            refused = await rig.post(f"/api/v1/leases/{found['lease']}/{verb}", {}, **other)
            assert refused.status == 422
        assert await counts(rig) == (1, 1)
        reader = {"token": await rig.user("reader", role=Role.READ)}
        assert (await rig.post(f"{at()}/lease", {}, **reader)).status == 403

    with_api(tmp_path, work)


def test_messages_of_others_cannot_be_ended(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await filled(rig, 2)
        first, second = await lease(rig), await lease(rig)
        foreign = [second["messages"][0]["lookup_id"]]
        refused = await end(rig, first, lookup_ids=foreign)
        assert (refused.status, await counts(rig)) == (422, (2, 2))

    with_api(tmp_path, work)


def test_a_queue_that_is_deleted_ends_its_leases(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await filled(rig, 1)
        found = await lease(rig)
        await rig.ask("DELETE", at())
        assert (await end(rig, found)).status >= 400
        await let_time_pass(rig, 100)
        await rig.run(rig.admin.services.leases.expire)
        assert len(rig.admin.services.leases) == 0

    with_api(tmp_path, work)


def test_leases_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_table, "LEASES_OF_USER", 2)

    async def work(rig: ApiRig) -> None:
        await filled(rig, 3)
        for _ in range(2):
            await lease(rig)
        refused = await rig.post(f"{at()}/lease", {})
        assert refused.status == 507
        assert await left(rig) == ["2"]

        def readers(manager: QueueManager) -> int:
            queue = manager.queues.find_local(parse_name(ORDERS))
            return 0 if queue is None else len(queue.descriptors)

        assert await rig.run(readers) == 2

    with_api(tmp_path, work)


def test_after_a_restart_the_messages_are_available(tmp_path: Path) -> None:
    async def take(rig: ApiRig) -> str:
        await filled(rig, 1)
        return str((await lease(rig))["lease"])

    async def look(rig: ApiRig) -> None:
        assert (await end(rig, {"lease": name})).status == 422
        assert await left(rig) == ["0"]

    name = with_api(tmp_path, take)
    with_api(tmp_path, look)


def test_an_end_counts_with_the_rights_of_now(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await filled(rig, 2)
        token = await rig.user("bob", role=Role.OPERATE)
        await rig.post(f"{at()}/access/grant", {"who": "bob", "rights": ["receive"]})
        bob = {"options": {"token": token}}
        first, second = await lease(rig, **dict(bob)), await lease(rig, **dict(bob))
        ended = await end(rig, first, **dict(bob))
        assert (ended.status, await counts(rig)) == (200, (1, 1)), ended
        await rig.post(f"{at()}/access/revoke", {"who": "bob"})
        renewed = await rig.post(f"/api/v1/leases/{second['lease']}/renew", {}, token=token)
        assert (renewed.status, (await end(rig, second, **dict(bob))).status) == (403, 403)
        assert await counts(rig) == (1, 1)

    with_api(tmp_path, work)


def test_a_lease_that_was_returned_is_not_received_later(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await filled(rig, 1)
        found = await lease(rig)
        assert (await end(rig, found, outcome="returned")).status == 200
        assert (await end(rig, found, outcome="received")).status == 422
        assert (await end(rig, found, outcome="returned")).status == 200
        assert await left(rig) == ["0"]

    with_api(tmp_path, work)


def test_a_caller_who_is_gone_before_the_answer_gets_no_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gone while the messages are taken, or while the disk is waited for; so may be the token."""
    whole, cancelled = lease_table.Leases.add, list[Conversation[Any]]()
    revoked = False

    def add(self: lease_table.Leases, manager: QueueManager, made: lease_table.Lease) -> str:
        key = whole(self, manager, made)
        for conversation in cancelled:
            conversation.cancel()
        if revoked:
            self.end_of(manager, [made.token_id])
        return key

    monkeypatch.setattr(lease_table.Leases, "add", add)

    async def work(rig: ApiRig) -> None:
        nonlocal revoked
        await filled(rig, 1)
        for early, over in ((True, False), (False, False), (False, True)):
            revoked = over
            answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
            conversation = rig.admin.api.call(
                Caller.administrator(),
                Role.ADMINISTER,
                "POST",
                f"{at()}/lease",
                b"{}",
                lambda status, body, to=answered: to.set_result(body),  # type: ignore[misc]
            )
            assert conversation is not None
            if early:
                conversation.cancel()
            else:
                cancelled.append(conversation)
            assert json.loads(await answered)["lease"] == ""
            cancelled.clear()
            assert len(rig.admin.services.leases) == 0
            assert await counts(rig) == (1, 0)
        cancelled.clear()
        revoked = False
        assert (await lease(rig))["lease"]

    with_api(tmp_path, work)


def test_the_ends_of_a_user_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_table, "ENDED_OF_USER", 2)

    async def work(rig: ApiRig) -> None:
        await filled(rig, 3)
        ended = [await lease(rig) for _ in range(3)]
        for found in ended:
            assert (await end(rig, found)).status == 200
        assert [(await end(rig, found)).status for found in ended] == [422, 200, 200]

    with_api(tmp_path, work)


def test_ends_of_one_user_push_out_none_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_table, "ENDED_OF_USER", 3)
    monkeypatch.setattr(lease_table, "ENDED", 4)

    async def work(rig: ApiRig) -> None:
        await filled(rig, 8)
        users = [{"token": await rig.user(name, role=Role.OPERATE)} for name in ("bob", "carol")]
        for name in ("bob", "carol"):
            body = {"who": name, "rights": ["receive", "peek"]}
            assert (await rig.post(f"{at()}/access/grant", body)).status == 200
        ended = []
        for user in (0, 0, 1, 1, 1, 1):
            found = await lease(rig, options=users[user])
            assert (await end(rig, found, options=users[user])).status == 200
            ended.append((user, found))
        again = [(await end(rig, found, options=users[user])).status for user, found in ended]
        # carol has three, and then the one with the most loses the oldest
        assert again == [200, 200, 422, 422, 200, 200]

    with_api(tmp_path, work)


# -- leases end with their token and their user, and can be ended


@pytest.mark.parametrize("way", ["revoked", "disabled", "deleted", "password"])
def test_a_lease_ends_with_its_token_and_its_user(tmp_path: Path, way: str) -> None:
    async def work(rig: ApiRig) -> None:
        await filled(rig)
        eve = await rig.user("eve", role=Role.OPERATE)
        await rig.post(f"{at()}/access/grant", {"who": "eve", "rights": ["receive"]})
        tokens = (await rig.get("/api/v1/tokens")).json["tokens"]
        (token,) = [one["id"] for one in tokens if one["user"] == "eve"]
        found = await lease(rig, count=2, lease_s=3600, options={"token": eve})
        mine = await lease(rig, lease_s=3600)
        assert await counts(rig) == (3, 3)
        if way == "revoked":
            reply = await rig.ask("DELETE", f"/api/v1/tokens/{token}")
        elif way == "disabled":
            reply = await rig.ask("PATCH", "/api/v1/users/eve", {"disabled": True})
        elif way == "deleted":
            reply = await rig.ask("DELETE", "/api/v1/users/eve")
        else:
            reply = await rig.post("/api/v1/users/eve/password", {"password": "another one"})
        assert reply.status == 200
        assert await counts(rig) == (3, 1)
        assert (await end(rig, found)).status == 422
        assert (await end(rig, mine)).status == 200

    with_api(tmp_path, work)


def test_a_lease_that_was_renewed_ends_with_the_token_of_that(tmp_path: Path) -> None:
    """A program changes its token, and goes on with what it has."""

    async def work(rig: ApiRig) -> None:
        await filled(rig)
        eve = await rig.user("eve", role=Role.OPERATE)
        await rig.post(f"{at()}/access/grant", {"who": "eve", "rights": ["receive"]})
        found = await lease(rig, lease_s=3600, options={"token": eve})
        reply = await rig.post("/api/v1/tokens", {"user": "eve", "role": "operate"})
        options = {"token": reply.json["token"]}
        path = f"/api/v1/leases/{found['lease']}/renew"
        assert (await rig.post(path, {"lease_s": 60}, **options)).status == 200
        tokens = (await rig.get("/api/v1/tokens")).json["tokens"]
        of_eve = [one["id"] for one in tokens if one["user"] == "eve"]
        of_eve.sort(key=lambda one: one in options["token"])  # that of the renewal last
        counted = []
        for token in of_eve:
            await rig.ask("DELETE", f"/api/v1/tokens/{token}")
            counted.append(await counts(rig))
        assert counted == [(3, 1), (3, 0)]

    with_api(tmp_path, work)


def test_a_lease_ends_as_its_token_expires(tmp_path: Path, monkeypatch: Any) -> None:
    over: list[str] = []

    async def work(rig: ApiRig) -> None:
        await filled(rig)
        made = (await rig.post("/api/v1/tokens", {"role": "operate"})).json
        await lease(rig, count=2, lease_s=3600, options={"token": made["token"]})
        monkeypatch.setattr(Token, "expired", lambda self, now_s: self.id in over)
        await rig.run(rig.admin.services.leases.expire)
        assert await counts(rig) == (3, 2)
        over.append(made["info"]["id"])
        await rig.run(rig.admin.services.leases.expire)
        assert await counts(rig) == (3, 0)

    with_api(tmp_path, work)


@pytest.mark.parametrize("way", ["revoked", "disabled"])
def test_no_lease_begins_with_a_token_that_is_over(tmp_path: Path, way: str) -> None:
    """Or with one of a user who has changed, while the request waited for its messages."""

    async def work(rig: ApiRig) -> None:
        await filled(rig, 0)
        eve = await rig.user("eve", role=Role.OPERATE)
        await rig.post(f"{at()}/access/grant", {"who": "eve", "rights": ["receive"]})
        tokens = (await rig.get("/api/v1/tokens")).json["tokens"]
        (token,) = [one["id"] for one in tokens if one["user"] == "eve"]
        rig.admin.pending.cancel = lambda token_id: None  # type: ignore[method-assign]
        waiting = asyncio.create_task(rig.post(f"{at()}/lease", {"timeout_ms": 5_000}, token=eve))
        while not (await rig.get(at())).json["waiting_readers"]:
            pass  # each look lets the server work
        if way == "revoked":
            await rig.ask("DELETE", f"/api/v1/tokens/{token}")
        else:
            await rig.ask("PATCH", "/api/v1/users/eve", {"disabled": True})
        await rig.send(label="late", delivery="recoverable")
        assert (await waiting).status == 403
        assert await counts(rig) == (1, 0)

    with_api(tmp_path, work)


def test_leases_are_listed_and_taken_away(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await filled(rig, 4)
        eve = await rig.user("eve", role=Role.OPERATE)
        await rig.post(f"{at()}/access/grant", {"who": "eve", "rights": ["receive", "properties"]})
        hers = await lease(rig, count=2, lease_s=60, options={"token": eve})
        mine = await lease(rig)
        listed = (await rig.get("/api/v1/leases")).json["leases"]
        assert [(one["lease"], one["user"], one["messages"]) for one in listed] == [
            (hers["lease"], "eve", 2),
            (mine["lease"], "administrator", 1),
        ]
        assert listed[0]["queue"] == "ALPHA\\private$\\orders"
        assert [
            one["lease"] for one in (await rig.get("/api/v1/leases", user="EVE")).json["leases"]
        ] == [hers["lease"]]
        assert len((await rig.get("/api/v1/leases", queue=ORDERS)).json["leases"]) == 2
        assert (await rig.get("/api/v1/leases", queue=ORDERS + ";journal")).json["leases"] == []
        only = (await rig.get("/api/v1/leases", token=eve)).json["leases"]
        assert [one["user"] for one in only] == ["eve"]
        shown = (await rig.get(at())).json["holders"]
        assert shown == [
            {"user": "eve", "by": "lease", "messages": 2},
            {"user": "administrator", "by": "lease", "messages": 1},
        ]
        assert [one["user"] for one in (await rig.get(at(), token=eve)).json["holders"]] == ["eve"]
        path = "/api/v1/leases/"
        assert (await rig.ask("DELETE", path + mine["lease"], token=eve)).status == 422
        look = rig.tokens["look"]
        assert (await rig.ask("DELETE", path + hers["lease"], token=look)).status == 403
        reply = await rig.ask("DELETE", path + hers["lease"])
        assert reply.json == {"lease": hers["lease"], "messages": 2}
        assert await counts(rig) == (4, 1)
        assert (await rig.ask("DELETE", path + hers["lease"])).status == 422
        assert (await end(rig, hers, options={"token": eve})).status == 422

    with_api(tmp_path, work)


def test_a_token_for_some_queues_ends_leases_of_these(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await filled(rig)
        found = await lease(rig)
        for queues, status in (([f"{ORDERS}=peek"], 422), ([f"{ORDERS}=receive"], 200)):
            made = {"role": "operate", "queues": queues}
            token = (await rig.post("/api/v1/tokens", made)).json["token"]
            listed = (await rig.get("/api/v1/leases", token=token)).json["leases"]
            assert len(listed) == (status == 200)
            path = f"/api/v1/leases/{found['lease']}"
            assert (await rig.ask("DELETE", path, token=token)).status == status

    with_api(tmp_path, work)
