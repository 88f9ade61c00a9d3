"""Named groups over the API: leases, claims, acknowledgments, operators, rights, figures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from posthouse.client.admin_http import BulkHttp
from posthouse.client.groups import Claim, GroupReader
from posthouse.engine.settings import EngineSettings
from posthouse.model.errors import SharingViolation
from posthouse.model.roles import Role
from tests.protocols.admin.api_rig import AUDIT, ApiRig, Reply, at, with_api

NAME = r"ALPHA\private$\orders"
GROUP = at() + "/groups/archive"
CONSUME = {"mode": "consume", "owner": "night"}


async def leased(rig: ApiRig, **body: Any) -> Any:
    reply = await rig.post(GROUP + "/lease", CONSUME | body)
    assert reply.status == 200, reply
    return reply.json


async def fill(rig: ApiRig, count: int = 4) -> list[int]:
    await rig.create()
    for number in range(count):
        await rig.send(label=f"{number}", delivery="recoverable")
    page = (await rig.get(at() + "/messages")).json["messages"]
    return [message["lookup_id"] for message in page]


def refused(reply: Reply, status: int, name: str, *words: str) -> None:
    assert reply.status == status, reply
    error = reply.json["error"]
    assert error["name"] == name
    for word in words:
        assert word in error["cause"] + error["remedy"]


def test_a_reader_leases_claims_and_acknowledges(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        ids = await fill(rig)
        group = await leased(rig)
        assert (group["name"], group["queue"], group["mode"]) == ("archive", NAME, "consume")
        assert (group["epoch"], group["owner"], group["leased"]) == (1, "night", True)
        assert 0 < group["lease_left_ms"] <= 15_000
        assert (group["position"], group["lag_messages"]) == (ids[0] - 1, 4)
        claim = (await rig.post(GROUP + "/claim", {"epoch": 1, "through": ids[2]})).json
        assert (claim["claimed"], claim["claimed_messages"]) == (ids[2], 3)
        done = (await rig.post(GROUP + "/acknowledge", {"epoch": 1, "through": ids[1]})).json
        assert (done["received"], done["position"], done["acknowledged"]) == (2, ids[1], 2)
        assert (done["claimed_messages"], done["lag_messages"]) == (1, 2)
        again = (await rig.post(GROUP + "/acknowledge", {"epoch": 1, "through": ids[1]})).json
        assert again["received"] == 0
        assert await rig.labels() == ["2", "3"]
        shown = (await rig.get(GROUP)).json
        assert shown | {"lease_left_ms": 0, "received": 0} == again | {"lease_left_ms": 0}

    with_api(tmp_path, work)


def test_an_acknowledgment_of_many_is_answered_after_its_last_step(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        ids = await fill(rig, 9)
        await leased(rig)
        await rig.post(GROUP + "/claim", {"epoch": 1, "through": ids[-1]})
        done = (await rig.post(GROUP + "/acknowledge", {"epoch": 1, "through": ids[-1]})).json
        assert (done["received"], done["lag_messages"]) == (9, 0)
        assert await rig.labels() == []

    with_api(tmp_path, work, engine=EngineSettings("ALPHA", step_messages=2))


def test_others_are_told_whose_the_queue_is(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        ids = await fill(rig)
        await rig.create(AUDIT)
        await leased(rig)
        chosen = {"lookup_ids": [ids[0]]}
        for path, body in (
            ("/receive", {}),
            ("/receive", {"timeout_ms": 1000}),
            ("/delete", chosen),
            ("/delete", chosen | {"dry_run": True}),
            ("/move", chosen | {"to": AUDIT}),
            ("/resend", chosen | {"to": AUDIT}),
        ):
            reply = await rig.post(at() + path, body)
            refused(reply, 409, "MQ_ERROR_SHARING_VIOLATION", "group archive", "group release")
        reply = await rig.ask("DELETE", f"{at()}/messages/{ids[0]}")
        refused(reply, 409, "MQ_ERROR_SHARING_VIOLATION", "group archive")
        reply = await rig.ask("DELETE", at())
        refused(reply, 409, "MQ_ERROR_SHARING_VIOLATION", "group archive")
        assert await rig.labels(AUDIT) == []
        copied = await rig.post(at() + "/copy", chosen | {"to": AUDIT})
        assert copied.json["done"] == 1
        assert len(await rig.labels()) == 4

    with_api(tmp_path, work)


def test_a_waiting_receive_ends_when_the_lease_begins(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        waiting = asyncio.create_task(rig.post(at() + "/receive", {"timeout_ms": 60_000}))
        while not (await rig.get(at())).json["waiting_readers"]:
            pass
        await leased(rig)
        refused(await waiting, 409, "MQ_ERROR_SHARING_VIOLATION", "group archive")

    with_api(tmp_path, work)


def test_a_purge_counts_and_leaves_what_is_claimed(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        ids = await fill(rig)
        await leased(rig)
        await rig.post(GROUP + "/claim", {"epoch": 1, "through": ids[0]})
        for dry_run in ("true", "false"):
            purged = await rig.post(at() + "/purge", dry_run=dry_run)
            assert purged.json["messages"] == 3
        queue = (await rig.get(at())).json
        assert (queue["messages"], queue["purged_through"]) == (1, ids[3])
        assert queue["groups"][0]["purged"] == 3

    with_api(tmp_path, work)


def test_a_reader_that_ends_says_so(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await fill(rig, 1)
        await leased(rig)
        refused(
            await rig.post(GROUP + "/lease", CONSUME | {"end": True}),
            422,
            "MQ_ERROR_INVALID_PARAMETER",
        )
        assert not (await leased(rig, epoch=1, end=True))["leased"]
        assert (await rig.post(at() + "/receive", {})).status == 200

    with_api(tmp_path, work)


@pytest.mark.parametrize("begin", ["earliest", "latest", 0, None])
def test_a_new_group_begins_where_it_is_told(tmp_path: Path, begin: object) -> None:
    async def work(rig: ApiRig) -> None:
        await fill(rig)
        lag = (await leased(rig, position=begin))["lag_messages"]
        assert lag == (0 if begin == "latest" else 4)

    with_api(tmp_path, work)


def test_an_operator_lists_sets_releases_and_deletes(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        ids = await fill(rig)
        await leased(rig)
        await rig.post(GROUP + "/claim", {"epoch": 1, "through": ids[1]})
        for method, body in (("PATCH", {"position": ids[2]}), ("DELETE", None)):
            reply = await rig.ask(method, GROUP, body, token=rig.tokens["operate"])
            refused(reply, 409, "MQ_ERROR_SHARING_VIOLATION", "group release")
        released = await rig.post(GROUP + "/release", token=rig.tokens["operate"])
        assert (released.json["released"], released.json["epoch"]) == (2, 2)
        moved = await rig.ask("PATCH", GROUP, {"position": "latest"})
        assert moved.json["lag_messages"] == 0
        moved = await rig.ask("PATCH", GROUP, {"position": ids[2]})
        assert (moved.json["position"], moved.json["lag_messages"]) == (ids[2], 1)
        for page in (await rig.get("/api/v1/groups"), await rig.get(at() + "/groups")):
            assert [group["name"] for group in page.json["groups"]] == ["archive"]
            assert page.json["next"] is None
        assert (await rig.ask("DELETE", GROUP)).json == {"done": True}
        assert (await rig.get(at() + "/groups")).json["groups"] == []

    with_api(tmp_path, work)


def test_groups_are_listed_in_pages(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        for name in "cab":
            body = {"mode": "observe", "owner": "me"}
            assert (await rig.post(f"{at()}/groups/{name}/lease", body)).status == 200
        first = (await rig.get("/api/v1/groups", limit=2)).json
        assert ([group["name"] for group in first["groups"]], first["next"]) == (["a", "b"], 2)
        rest = (await rig.get("/api/v1/groups", offset=2, limit=2)).json
        assert ([group["name"] for group in rest["groups"]], rest["next"]) == (["c"], None)

    with_api(tmp_path, work)


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("lease", {"mode": "consume"}),
        ("lease", {"mode": "eat", "owner": "x"}),
        ("lease", {"mode": "consume", "owner": ""}),
        ("lease", {"mode": "consume", "owner": "x", "position": "middle"}),
        ("lease", {"mode": "consume", "owner": "x", "position": -1}),
        ("claim", {"epoch": 0, "through": 1}),
        ("claim", {"through": 1}),
        ("acknowledge", {"epoch": 1}),
        ("acknowledge", {"through": "all"}),
    ],
)
def test_a_form_that_is_wrong_is_refused(tmp_path: Path, verb: str, body: Any) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        assert (await rig.post(f"{GROUP}/{verb}", body)).status == 400

    with_api(tmp_path, work)


def test_a_group_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        claim = {"epoch": 1, "through": 0}
        for reply in (
            await rig.get(GROUP),
            await rig.post(GROUP + "/lease", CONSUME | {"epoch": 1}),
            await rig.post(GROUP + "/claim", claim),
            await rig.post(GROUP + "/acknowledge", claim),
            await rig.post(GROUP + "/release"),
            await rig.ask("PATCH", GROUP, {"position": 0}),
            await rig.ask("DELETE", GROUP),
        ):
            refused(reply, 404, "MQ_ERROR", "archive")
        assert (await rig.get(at(AUDIT) + "/groups")).status == 404

    with_api(tmp_path, work)


def test_rights_and_roles_are_those_of_reading(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await fill(rig, 1)
        reply = await rig.post(GROUP + "/lease", CONSUME, token=rig.tokens["read"])
        assert reply.status == 403
        looker = await rig.user("looker", role=Role.OPERATE)
        grant = {"who": "looker", "rights": ["peek", "get-properties"]}
        assert (await rig.post(at() + "/access/grant", grant)).status == 200
        assert (await rig.post(GROUP + "/lease", CONSUME, token=looker)).status == 403
        observe = {"mode": "observe", "owner": "looker"}
        own = at() + "/groups/own"
        assert (await rig.post(own + "/lease", observe, token=looker)).status == 200
        assert (await rig.get(GROUP, token=looker)).status == 404
        await leased(rig)
        for verb, body in (
            ("claim", {"epoch": 1, "through": 0}),
            ("acknowledge", {"epoch": 1, "through": 0}),
            ("release", None),
        ):
            assert (await rig.post(f"{GROUP}/{verb}", body, token=looker)).status == 403
        stranger = await rig.user("stranger", role=Role.OPERATE)
        assert (await rig.get("/api/v1/groups", token=stranger)).json["groups"] == []
        assert (await rig.get(at() + "/groups", token=stranger)).status == 403

    with_api(tmp_path, work)


def test_outgoing_queues_have_no_groups(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        far = "DIRECT=OS:beta\\private$\\far"
        await rig.send(far, label="x")
        reply = await rig.post(f"{at(far)}/groups/archive/lease", CONSUME)
        assert reply.status == 422, reply
        assert (await rig.get(at(far) + "/groups")).json["groups"] == []

    with_api(tmp_path, work)


def test_lag_and_claims_are_in_the_metrics(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        ids = await fill(rig)
        await leased(rig)
        await rig.post(GROUP + "/claim", {"epoch": 1, "through": ids[2]})
        await rig.post(GROUP + "/acknowledge", {"epoch": 1, "through": ids[0]})
        text = (await rig.get("/metrics")).text
        samples = {
            sample.name: sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if {"queue": NAME, "group": "archive"}.items() <= sample.labels.items()
        }
        assert samples.pop("posthouse_group_lag_bytes") > 0
        assert samples == {
            "posthouse_group_lag_messages": 3,
            "posthouse_group_claimed_messages": 2,
            "posthouse_group_leased": 1,
            "posthouse_group_acknowledged_total": 1,
        }

    with_api(tmp_path, work)


def test_who_released_set_and_deleted_is_in_the_log(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        told: list[tuple[str, Any]] = []
        rig.desk.driver.on_event = lambda event: told.append((event.name, event.details["by"]))
        await fill(rig)
        await leased(rig)
        await rig.post(GROUP + "/release")
        await rig.ask("PATCH", GROUP, {"position": 0})
        await rig.ask("DELETE", GROUP)
        names = ["group_released", "group_set", "group_deleted"]
        assert told[-3:] == [(name, "administrator") for name in names]

    with_api(tmp_path, work)


# -- the client


def test_a_client_reads_for_a_group(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        ids = await fill(rig)

        def read() -> None:
            with BulkHttp(rig.url, rig.tokens["operate"]) as http:
                reader = GroupReader(http, NAME, "archive")
                group = reader.lease("consume", "night", "earliest")
                assert (group.epoch, group.lag_messages) == (1, 4)
                assert reader.renew("consume", "night", 1).leased
                assert reader.claim(1, Claim(0, ids[2])).claimed_messages == 3
                group, received = reader.acknowledge(1, ids[1])
                assert (group.position, received) == (ids[1], 2)
                assert not reader.end("consume", "night", 1).leased
                group, received = reader.acknowledge(None, ids[2])
                assert received == 1
                assert reader.show() == group
                reader.lease("consume", "night")
                with pytest.raises(SharingViolation, match="newer reader"):
                    reader.claim(1, Claim(ids[2], ids[3]))

        await _in_a_thread(read)
        assert await rig.labels() == ["3"]

    with_api(tmp_path, work)


async def _in_a_thread(work: Callable[[], None]) -> None:
    await asyncio.to_thread(work)
