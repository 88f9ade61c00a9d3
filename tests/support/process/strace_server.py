"""A server under strace: what it wrote, synced and answered, in order."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import posthouse
from posthouse.wire.frames import frames
from posthouse.wire.frames.frames import Splitter
from tests.process.shop import LEFT, NOTES, ORDERS, RIGHT, open_shop
from tests.support.strace_lines import Call, parsed

CALLS = "pwritev,pwritev2,pwrite64,write,writev,sendmsg,sendto,fdatasync,fsync,openat"


SOCKET_WRITES = ("write", "writev", "sendmsg", "sendto")


PATH = re.compile(r"<((?:\\x[0-9a-f]{2})+)>")


# Space that is prepared, nobody is told of it: the first bytes of the whole write are zero.
FIRST_ZEROS = re.compile(r'^[^"]*"\\x00\\x00\\x00\\x00')


BYTES = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')


START_S = 60.0


SENDS, BATCHES, COMMITS, RECEIVES = 20, 5, 10, 20


def traced(folder: Path, work: Callable[[Path], None]) -> list[Call]:
    """What a server did while one client worked, one thing at a time."""
    trace, ready, home = folder / "trace", folder / "ready.json", folder / "home"
    command = ["strace", "-f", "-y", "-xx", "-s", "1000000", "-e", f"trace={CALLS}"]
    command += ["-o", str(trace), sys.executable, "-m", "posthouse.cli.main", "serve"]
    command += ["--home", str(home), "--ready-file", str(ready), "--ports", "ephemeral"]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(command, env=environment)
    try:
        until = time.monotonic() + START_S
        while not ready.exists():
            assert time.monotonic() < until
            assert process.poll() is None
            time.sleep(0.02)
        open_shop(home)
        work(home)
        os.kill(json.loads(ready.read_text())["pid"], signal.SIGTERM)
        assert process.wait(START_S) == 0
    finally:
        process.kill()
        process.wait()
    return parsed(PATH.sub(lambda found: f"<{unescaped(found[1]).decode()}>", trace.read_text()))


def unescaped(text: str) -> bytes:
    """What strace wrote in hexadecimal."""
    return bytes.fromhex(text.replace("\\x", ""))


def work(home: Path) -> None:
    """Durable sends small and large, ends of received messages, commits."""
    with posthouse.connect(home) as qm:
        orders = qm.queue(ORDERS)
        for _ in range(SENDS):
            orders.send(b"x", recoverable=True)
            qm.queue(NOTES).send(b"express")
        for _ in range(BATCHES):  # large ones are synced by the writer thread
            orders.send_many([b"x" * 1000] * 200, recoverable=True)
        for _ in range(RECEIVES):
            orders.receive(0)
        for _ in range(COMMITS):
            with qm.transaction() as tx:
                qm.queue(LEFT).send(b"left", tx=tx)
                qm.queue(RIGHT).send(b"right", tx=tx)


def written(call: Call) -> bytes:
    """What a call wrote to a client."""
    if call.name not in SOCKET_WRITES or not call.path.startswith("socket:"):
        return b""
    return b"".join(map(unescaped, BYTES.findall(call.text)))


def frames_in(data: bytes) -> list[str]:
    """The names of the frames that tell of something durable."""
    if data.startswith(b"HTTP/"):
        data = data.partition(b"\r\n\r\n")[2]
    return [NAMES[kind] for kind, _, _ in Splitter().feed(data) if kind in NAMES]


def account(
    calls: list[Call], store: str, answers: Callable[[bytes], list[str]] = frames_in
) -> tuple[Counter[str], list[str]]:
    """What was seen, and the answers that left while something of the log was not synced."""
    unsynced: set[str] = set()
    early: list[str] = []
    seen: Counter[str] = Counter()
    for call in calls:
        name, path, text = call
        log = path.startswith(store) and path.endswith(".log")
        if log and name.startswith("pwrite") and not FIRST_ZEROS.search(text):
            unsynced.add(path)
            seen["log writes"] += 1
        elif log and name == "openat" and "O_CREAT" in text:
            unsynced.add(store)
        elif log and name in ("fdatasync", "fsync"):
            unsynced.discard(path)
            seen["log syncs"] += 1
        elif name == "fsync" and path == store:
            unsynced.discard(store)
        for answer in answers(written(call)):
            seen[answer] += 1
            if unsynced:
                early.append(f"{answer} while {sorted(unsynced)} wait")
    return seen, early


NAMES = {frames.SENT: "SENT", frames.ENDED: "ENDED", frames.DONE: "DONE"}
