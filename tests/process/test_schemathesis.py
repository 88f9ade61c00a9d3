"""The API against its own document: schemathesis as each role and without a token."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from posthouse.protocols.http import wrong_tokens
from posthouse.protocols.http.background_work import paused
from posthouse.protocols.http.query_runs import QueryRuns
from tests.conftest import SOAK, Dose
from tests.protocols.admin.api_rig import AUDIT, ORDERS, ApiRig, with_api

# Refused with 422: a request in the right form that the queue manager cannot do.
SETTINGS = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "401", "403", "404", "409", "422"]
"""


HOOKS = {
    "SCHEMATHESIS_HOOKS": "tests.process.schemathesis_arrow",
    "PYTHONPATH": str(Path(__file__).parents[2]),
}


def hasty_clock() -> tuple[int, int]:
    """A receive that waits a minute waits a few milliseconds."""
    return time.monotonic_ns() // 1_000, int(time.time())


@asynccontextmanager
async def turning(rig: ApiRig) -> AsyncIterator[None]:
    """Turns follow each other though nothing happens, so that the hasty clock is looked at."""

    async def turn() -> None:
        while True:
            await rig.desk.call(lambda manager: None)
            await asyncio.sleep(0.01)

    task = asyncio.create_task(turn())
    try:
        yield
    finally:
        task.cancel()


SOAKED = [pytest.param(role, marks=pytest.mark.soak) for role in ("read", "operate", "none")]


@pytest.mark.parametrize("role", ["administer", *SOAKED])
def test_schemathesis_finds_nothing(
    role: str, tmp_path: Path, dose: Dose, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wrong_tokens, "FREE", 1_000_000)  # it guesses tokens: nobody waits for them
    # Usually it runs as the one role that may do everything, and without the many cases that the
    # document alone gives: `test_each_route_needs_its_role_and_a_token` has what the others may.
    examples, phases = dose(1, 500), "coverage,fuzzing,stateful" if SOAK else "fuzzing,stateful"

    async def work(rig: ApiRig) -> None:
        await rig.create()
        await rig.create(AUDIT, transactional=True)
        for label in ("one", "two"):
            await rig.send(ORDERS, label=label, body_text="<order/>")
            await rig.send(AUDIT, label=label, delivery="transactional")
        await rig.user("bob")
        rig.admin.services.query = QueryRuns(rig.admin, None).run
        rig.admin.services.pause = lambda seconds: paused(seconds / 1_000)  # as the hasty clock
        document = tmp_path / "openapi.json"
        document.write_text((await rig.get("/api/v1/openapi.json")).text)
        settings = tmp_path / "schemathesis.toml"
        settings.write_text(SETTINGS)
        command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(settings)]
        command += ["run", str(document), "--url", rig.url, "--checks", "all", "--mode", "all"]
        command += ["--max-examples", str(examples), "--no-color", "--seed", "1"]
        command += ["--phases", phases]
        command += ["--generation-database", "none"]
        if role != "none":
            command += ["--header", f"Authorization: Bearer {rig.tokens[role]}"]
        async with turning(rig):
            process = await asyncio.create_subprocess_exec(
                *command,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=tmp_path,
                env=os.environ | HOOKS,
            )
            output, _ = await process.communicate()
        assert process.returncode == 0, output.decode()

    with_api(tmp_path, work, clock=hasty_clock, seconds=dose(270, 7200))
