"""A program that only talks to a server needs three packages: nothing of the server is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.client.serving import serving

SERVER_ONLY = ("typer", "rich", "aiohttp", "prometheus_client", "uvloop", "isal", "pyarrow")
PROGRAM = f"""
import asyncio, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {SERVER_ONLY!r}:
            raise ModuleNotFoundError(f"{{name}} is not installed here")

sys.meta_path.insert(0, Missing())
import posthouse
import posthouse.aio

with posthouse.connect() as qm:
    queue = qm.create_queue(r".\\private$\\orders", transactional=True)
    with qm.transaction() as tx:
        queue.send({{"customer": 7}}, label="order 1", tx=tx)
    print(queue.receive(timeout=5).decoded().value)

async def count():
    async with posthouse.aio.connect() as qm:
        return await qm.queue(r".\\private$\\orders").count()

print(asyncio.run(count()))
print(posthouse.msmq("127.0.0.1").queue(r"private$\\orders").name)
"""


def test_the_client_works_without_the_packages_of_the_server(home: Path) -> None:
    with serving(home):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={"POSTHOUSE_HOME": str(home), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("{'customer': 7}\n0\n")
