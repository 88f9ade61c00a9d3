"""The real doors of the settings, run in the process of a test."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp

from posthouse.runtime.endpoints import standard_doors
from posthouse.runtime.ports import PortSet
from posthouse.runtime.serve import DoorAddress, Options, Outcome, Service, run

PATIENCE_S = 60  # for what never comes
Client = Callable[[aiohttp.ClientSession, dict[str, str]], Awaitable[None]]


def serve(
    folder: Path,
    config: str | None,
    client: Client,
    look: Callable[[Service, list[DoorAddress]], None] = lambda service, places: None,
) -> Outcome:
    """Runs the real doors; the client's session goes through the control socket.

    None: with the settings that the home has.
    """
    home, ready_file = folder / "home", folder / "ready.json"
    home.mkdir(exist_ok=True)
    if config is not None:
        (home / "posthouse.toml").write_text(config)
    tasks: list[asyncio.Task[None]] = []

    async def visit() -> None:
        try:
            while not ready_file.exists():
                await asyncio.get_running_loop().run_in_executor(None, ready_file.exists)
            endpoints = json.loads(ready_file.read_text())["endpoints"]
            connector = aiohttp.UnixConnector(endpoints["control"])
            async with aiohttp.ClientSession("http://localhost", connector=connector) as session:
                async with asyncio.timeout(PATIENCE_S):
                    await client(session, endpoints)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    def doors(service: Service) -> list[DoorAddress]:
        tasks.append(asyncio.get_running_loop().create_task(visit()))
        places = standard_doors(service)
        look(service, places)
        return places

    options = Options(
        home, name="ALPHA", ports=PortSet.EPHEMERAL, ready_file=ready_file, version="9.9"
    )
    outcome = run(options, doors)
    for task in tasks:
        task.result()
    return outcome


async def json_of(response: aiohttp.ClientResponse) -> Any:
    assert response.status == 200, await response.text()
    return await response.json()
