"""Whether messages are taken, and what is wrong: `/readyz`, status and the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from posthouse.engine.manager import QueueManager
from posthouse.engine.pipelines.claims import ClaimRange
from posthouse.engine.queues.queue import Queue
from posthouse.engine.settings import EngineSettings, QueueManagerSettings
from posthouse.model.errors import MachineQuotaExceeded
from posthouse.model.group_names import GroupMode
from posthouse.runtime.home import real_clock
from tests.protocols.admin.api_rig import ORDERS, ApiRig, at, with_api


def test_readiness_follows_flow_control_and_gives_the_reason_to_who_has_a_token(
    tmp_path: Path,
) -> None:
    async def work(rig: ApiRig) -> None:
        anybody: dict[str, Any] = {"token": None, "headers": {"Host": "anything.example"}}
        reply = await rig.get("/readyz", **anybody)
        assert (reply.status, reply.text) == (200, "ready\n")
        await rig.run(lambda m: m.machine.begin_flow_control("memory"))
        reply = await rig.get("/readyz", **anybody)
        assert (reply.status, reply.text) == (503, "not ready\n")
        reply = await rig.get("/readyz")
        assert reply.status == 503
        assert reply.text.startswith("not ready: the memory for messages")
        assert (await rig.get("/readyz", token="wrong")).status == 401
        assert (await rig.post("/readyz", token=None)).status == 405
        assert (await rig.get("/healthz", token=None)).status == 200  # it lives
        await rig.run(lambda m: m.machine.end_flow_control("memory"))
        assert (await rig.get("/readyz", token=None)).status == 200
        rig.admin.pages._healthy = lambda: False
        assert (await rig.get("/readyz", token=None)).status == 503

    with_api(tmp_path, work)


def test_a_refused_message_names_what_is_short_and_its_remedy(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.post("/api/v1/queues", {"path": ORDERS})
        await rig.run(lambda m: m.machine.begin_flow_control("memory"))
        target = "/api/v1/queues/" + "%2E%5Cprivate%24%5Corders" + "/messages"
        error = (await rig.post(target, {"body_text": "x"})).json["error"]
        assert "the memory for messages" in error["cause"]
        assert "unsynced" in error["remedy"]
        assert "machine quota" not in error["remedy"] != MachineQuotaExceeded.default_remedy

    with_api(tmp_path, work)


def test_status_tells_what_is_wrong(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.post("/api/v1/queues", {"path": ORDERS})
        fine = (await rig.get("/api/v1/status")).json
        assert (fine["ready"], fine["not_ready"], fine["problems"]) == (True, [], [])
        queue = "/api/v1/queues/" + "%2E%5Cprivate%24%5Corders"
        for number in range(3):
            body = {"body_text": str(number), "journal": ["negative"]}
            assert (await rig.post(f"{queue}/messages", body)).status == 201
        await rig.run(claim_two)
        leased = (await rig.get("/api/v1/status")).json
        assert leased["claims"][0]["messages"] == 2
        assert leased["problems"] == []  # a reader is at work
        await rig.run(end_lease)
        await rig.run(lambda m: m.machine.begin_flow_control("memory"))
        status = (await rig.get("/api/v1/status")).json
        assert (status["ready"], status["throttled"]) == (False, ["memory"])
        short, claimed = status["problems"]
        assert short.startswith("new messages are refused: the memory")
        assert "2 messages claimed by the group g, and no reader runs" in claimed
        assert "posthouse group release" in claimed
        page = (await rig.get("/")).text
        assert "2 messages claimed by the group g" in page
        bob = await rig.user("bob")
        assert (await rig.get("/api/v1/status", token=bob)).json["claims"] == []
        shown = (await rig.get(queue)).json
        assert (shown["messages"], shown["claimed"]) == (3, 2)
        await rig.run(lambda m: m.machine.end_flow_control("memory"))
        taken = (await rig.post(f"{queue}/receive", {"count": 5})).json
        assert len(taken["messages"]) == 1
        assert taken["reason"] == ""
        none = (await rig.post(f"{queue}/receive", {"timeout_ms": 1})).json
        assert none["messages"] == []
        assert "of 2 messages 2 are claimed by the group g. " in none["reason"]

    with_api(tmp_path, work)


def test_dead_letters_and_queues_that_cannot_connect_are_problems(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.post("/api/v1/queues", {"path": ORDERS})
        queue = "/api/v1/queues/" + "%2E%5Cprivate%24%5Corders"
        await rig.post(f"{queue}/messages", {"body_text": "x", "journal": ["negative"]})
        await rig.post(f"{queue}/purge")
        far = "/api/v1/queues/" + "DIRECT%3DOS%3Afar%5Cprivate%24%5Corders"
        await rig.post(f"{far}/messages", {"body_text": "x"})
        await rig.run(fail_to_connect)
        status = (await rig.get("/api/v1/status")).json
        (dead,) = status["dead_letters"]
        assert dead == {"name": "ALPHA\\system$;deadletter", "count": 1}
        (away,) = status["unreachable"]
        assert (away["messages"], away["reason"]) == (1, "far cannot be resolved")
        first, second = status["problems"]
        assert first.startswith("1 dead letter: 1 in ALPHA\\system$;deadletter")
        assert "cannot connect (1 message waiting): far cannot be resolved" in second

    with_api(tmp_path, work)


def test_paused_queues_with_messages_and_full_queues_are_problems(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.post("/api/v1/queues", {"path": ORDERS, "quota_kib": 10})
        queue = "/api/v1/queues/" + "%2E%5Cprivate%24%5Corders"
        await rig.post(f"{queue}/messages", {"body_text": "x" * 8_000})
        far = "/api/v1/queues/" + "DIRECT%3DOS%3Afar%5Cprivate%24%5Corders"
        await rig.post(f"{far}/messages", {"body_text": "x"})
        assert (await rig.get("/api/v1/status")).json["problems"] == []
        await rig.post(f"{queue}/messages", {"body_text": "x" * 1_500})
        await rig.post(f"{far}/pause")
        paused, full = (await rig.get("/api/v1/status")).json["problems"]
        name = "DIRECT=OS:far\\private$\\orders"
        assert paused == f"{name} is paused (1 message waiting). posthouse queue resume '{name}'"
        assert full.startswith("ALPHA\\private$\\orders: 9")
        assert "% of its quota of 10 KiB is used." in full
        await rig.post(f"{far}/resume")
        moved = await rig.post(f"{queue}/move", {"to": f"{ORDERS};retry", "where": "priority < 8"})
        assert moved.json["done"] == 2
        problems = (await rig.get("/api/v1/status")).json["problems"]
        (full,) = [one for one in problems if "quota" in one]
        assert full.startswith("ALPHA\\private$\\orders: 9")  # its subqueues are counted
        await rig.post(f"{queue}%3Bretry/purge")
        assert (await rig.get("/api/v1/status")).json["problems"] == []

    with_api(tmp_path, work)


def orders_of(manager: QueueManager) -> Queue:
    return manager.queues._local(ORDERS)


def claim_two(manager: QueueManager) -> None:
    queue = orders_of(manager)
    ids = sorted(place.lookup_id for place, _ in queue.state.order.forward())
    group = manager.groups.lease(queue, "g", GroupMode.CONSUME, "me")
    manager.groups.claim(group, group.definition.epoch, ClaimRange(ids[1]))


def end_lease(manager: QueueManager) -> None:
    group = orders_of(manager).groups["g"]
    manager.groups.end_lease(group, group.definition.epoch)


def fail_to_connect(manager: QueueManager) -> None:
    """As the binary protocol reports it (`posthouse.protocols.outgoing_reports`)."""
    (queue,) = manager.queues.outgoing_queues()
    assert queue.outgoing is not None
    queue.outgoing.last_error = "far cannot be resolved"


async def problems(rig: ApiRig) -> list[str]:
    return list((await rig.get("/api/v1/status")).json["problems"])


def test_queues_that_nothing_reads_are_named(tmp_path: Path) -> None:
    now = list(real_clock())

    async def work(rig: ApiRig) -> None:
        await rig.post("/api/v1/queues", {"path": ORDERS, "journal": True})
        for _ in range(2):
            await rig.send()
        await rig.post(f"{at()}/receive", {})  # into the journal, which does not count
        now[1] += 86_399
        assert await problems(rig) == []
        now[1] += 1
        (line,) = await problems(rig)
        assert "private$\\orders: the oldest message is 24 hours old" in line
        await rig.post(f"{at()}/receive", {})
        assert await problems(rig) == []

    with_api(tmp_path, work, clock=lambda: (now[0], now[1]))


def test_the_limit_of_age_is_a_setting(tmp_path: Path) -> None:
    now = list(real_clock())

    async def work(rig: ApiRig) -> None:
        await rig.create()
        await rig.send()
        now[1] += 10**8
        assert await problems(rig) == []

    settings = EngineSettings("ALPHA", queue_manager=QueueManagerSettings(oldest_age_s=0))
    with_api(tmp_path, work, engine=settings, clock=lambda: (now[0], now[1]))


def test_jobs_that_failed_are_named(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.post("/api/v1/job-queues", {"name": "REPORTS", "users": ["SUPERVISOR"]})
        made = await rig.post("/api/v1/job-queues/REPORTS/jobs", {"file": "eA=="})
        assert made.status == 201, made
        assert await problems(rig) == []

        def fail(manager: QueueManager) -> None:
            (queue_id,) = manager.jobs.queue_ids()
            (job,) = manager.jobs.queue(queue_id).jobs()
            job.entry.failure = "exit code 3"

        await rig.run(fail)
        assert await problems(rig) == [
            "REPORTS: 1 job failed: exit code 3. posthouse job list REPORTS"
        ]

    with_api(tmp_path, work)
