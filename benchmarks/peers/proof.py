"""Shows from outside that an acknowledgement means a sync: the kernel's account, by strace.

Groups are sent one after the other, so the sync of each lies between two moments that the client
records: when it begins to send, and when the server confirms that all is durable.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.peers.client import client
from benchmarks.peers.contest import Entrant
from benchmarks.peers.driver import make_driver
from benchmarks.peers.ours import PosthouseServer
from benchmarks.peers.work import KIB, ONE_AT_A_TIME, RECEIVE, SEND, TRANSACTION, Load, Mode
from benchmarks.processes import started
from benchmarks.witness import NotSynced

CALLS: Final = ("fsync", "fdatasync", "msync")
_CALL = re.compile(
    r"^(?P<thread>\d+) +(?P<at>\d+\.\d+) "
    rf"(?:<\.\.\. )?(?P<name>{'|'.join(CALLS)})(?: resumed>|\()"
    r".*?(?:= (?P<result>-?\d+).*<(?P<took>\d+\.\d+)>)?$"
)
WORDS: Final = {
    Mode.PIPELINED: (SEND, RECEIVE),
    Mode.SINGLE: (ONE_AT_A_TIME, "receive one at a time"),
    Mode.TRANSACTION: (TRANSACTION, ""),
}


class Sync(NamedTuple):
    """A sync call that succeeded: from when to when, in UTC."""

    began: float
    ended: float


class Proof(NamedTuple):
    """Groups of one way to send or receive, and how many of them had a whole sync inside."""

    case: str
    groups: int
    covered: int
    syncs: int


def can_trace() -> bool:
    """Whether there is something to look with, and the right to; some containers forbid it."""
    strace = shutil.which("strace")
    if strace is None:
        return False
    return not subprocess.run([strace, "-o", os.devnull, "true"], capture_output=True).returncode


def prove(entrant: Entrant, groups: int, directory: Path) -> list[Proof]:
    """Every durable way of one peer. Raises `NotSynced` where ours lacks a sync."""
    proofs: list[Proof] = []
    for mode in [mode for mode in WORDS if mode in entrant.peer.modes]:
        proofs += _prove_mode(entrant, mode, groups, directory)
    for proof in proofs:
        if isinstance(entrant.server, PosthouseServer) and proof.covered < proof.groups:
            raise NotSynced(
                f"{proof.case}: {proof.groups - proof.covered} of {proof.groups} groups"
                " were acknowledged without a sync"
            )
    return proofs


def _prove_mode(entrant: Entrant, mode: Mode, groups: int, directory: Path) -> list[Proof]:
    name, server = entrant
    queue, trace = f"proof_{mode.value}", directory / f"{name}-{mode.value}.trace"
    make_driver(name, server.address).prepare(queue, mode)
    with client("prove", name, server.address, queue, Load(mode, groups, KIB)) as child:
        child.report("ready")
        with traced(server.processes(), trace):
            child.tell("go")
            done = child.report("done")
    syncs = read_syncs(trace.read_text(encoding="utf-8", errors="replace").splitlines())
    return [
        Proof(case, groups, *count(syncs, done[key]))
        for case, key in zip(WORDS[mode], ("sent", "received"), strict=True)
        if case
    ]


@contextmanager
def traced(processes: Iterable[int], trace: Path) -> Iterator[None]:
    """Notes the sync calls of running processes, their threads and what they start."""
    words = ["strace", "-f", "-ttt", "-T", "-o", str(trace), "-e", f"trace={','.join(CALLS)}"]
    waited_for = set(map(str, processes))
    for process in waited_for:
        words += ["-p", process]
    with started(words) as strace:
        assert strace.stderr is not None
        while waited_for:
            line = strace.stderr.readline()
            if not line:
                raise PermissionError("strace may not look at the server here")
            waited_for -= set(re.findall(r"Process (\d+) attached", line))
        yield
        strace.send_signal(signal.SIGINT)  # it lets go of them
        strace.communicate()


def read_syncs(lines: Iterable[str]) -> list[Sync]:
    """The sync calls of a trace that ended well."""
    begun: dict[str, float] = {}
    syncs: list[Sync] = []
    for line in lines:
        found = _CALL.match(line)
        if found is None:
            continue
        thread, at = found["thread"], float(found["at"])
        if "resumed>" in line:
            if found["result"] == "0" and thread in begun:
                syncs.append(Sync(begun[thread], at))
        elif found["result"] == "0":
            syncs.append(Sync(at, at + float(found["took"])))
        else:
            begun[thread] = at
    return syncs


def count(syncs: list[Sync], waits: list[tuple[float, float]]) -> tuple[int, int]:
    """How many of the waits have a whole sync inside, and the syncs inside any of them."""
    inside = [
        sum(since <= sync.began and sync.ended <= to for sync in syncs) for since, to in waits
    ]
    return sum(number > 0 for number in inside), sum(inside)
