"""The figures of the last hour and day: right, bounded, and for administrators."""

from __future__ import annotations

import sys
from pathlib import Path

from posthouse.protocols.handlers.history_samples import (
    DAY_SAMPLES,
    DAY_TICKS,
    HOUR_SAMPLES,
    TICK_S,
)
from tests.protocols.admin.api_rig import AUDIT, ORDERS, ApiRig, at, with_api

HISTORY = "/api/v1/history"


def test_figures_are_those_of_the_queues(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await rig.create(AUDIT)
        history, manager = rig.admin.history, rig.desk.manager
        begin = 10_000_000
        history.tick(manager, begin, 500)
        for _ in range(6):
            await rig.send(label="x", body_text="12345")
        await rig.send(AUDIT, label="y")
        await rig.send(r"DIRECT=OS:BETA\private$\far", label="z")
        await rig.post(f"{at()}/receive", {"count": 2})
        await rig.ask("DELETE", at(AUDIT))
        history.tick(manager, begin + 2 * TICK_S * 1000, 400)
        shown = (await rig.get(HISTORY)).json
        assert (shown["span"], shown["interval_s"]) == ("hour", TICK_S)
        assert shown["accepted"][-1] == 7 / (2 * TICK_S)  # the outgoing one counts, too
        assert shown["received"][-1] == 2 / (2 * TICK_S)
        assert shown["messages"][-1] == 4
        assert shown["outgoing"][-1] == 1
        assert shown["disk_free"][-2:] == [500, 400]
        assert len(shown["times"]) == len(shown["dead_letters"]) == len(shown["bytes"])

    with_api(tmp_path, work)


def test_rings_are_bounded_and_the_day_has_every_thirtieth(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        history, manager = rig.admin.history, rig.desk.manager
        for number in range(DAY_TICKS * (DAY_SAMPLES + 3)):
            history.tick(manager, number * TICK_S * 1000, None)
        hour, day = [(await rig.get(HISTORY, span=span)).json for span in ("hour", "day")]
        assert (len(hour["times"]), len(day["times"])) == (HOUR_SAMPLES, DAY_SAMPLES)
        assert (hour["interval_s"], day["interval_s"]) == (10, 300)
        size = sum(
            sys.getsizeof(sample) + sum(map(sys.getsizeof, sample))
            for ring in (history.hour, history.day)
            for sample in ring.samples
        )
        assert size < 350 << 10

    with_api(tmp_path, work)


def test_they_show_all_queues_so_they_are_the_administrators(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        token = await rig.user("bob")
        assert (await rig.get(HISTORY, token=token)).status == 403
        scoped = await rig.token(scopes=((ORDERS, ~0),))
        assert (await rig.get(HISTORY, token=scoped)).status == 403
        assert (await rig.get(HISTORY, token=rig.tokens["look"])).status == 200
        assert (await rig.get(HISTORY, span="year")).status == 400

    with_api(tmp_path, work)
