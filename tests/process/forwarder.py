"""A client that forwards messages of another computer in transactions, and kills at one step.

Its steps are everything that it sends, over remote read or to its own queue manager: before, right
behind it, and when it is answered. Whatever fails, it ends; another one goes on.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import posthouse
from posthouse.client.blocking import Channel
from posthouse.client.rpc_link import RpcLink

FINISHED, FAILED = 0, 3


class Fate:
    """Counts steps; at the chosen one a process dies, this one or a server."""

    def __init__(self, step: int, victim: int) -> None:
        self.steps = 0
        self._step = step
        self._victim = victim

    def next(self) -> None:
        self.steps += 1
        if self.steps == self._step:
            os.kill(self._victim or os.getpid(), signal.SIGKILL)

    def haunt(self, kind: type[Any], name: str) -> None:
        """Every call of a method is two steps."""
        method: Callable[..., Any] = getattr(kind, name)

        def haunted(*args: Any, **options: Any) -> Any:
            self.next()
            value = method(*args, **options)
            self.next()
            return value

        setattr(kind, name, haunted)


def run(arguments: list[str]) -> int:
    """Home, port of the other computer, source, target, step, victim, and where to tell."""
    home, port, source, target, step, victim, notes = arguments
    fate = Fate(int(step), int(victim))
    for kind, name in ((RpcLink, "flush"), (RpcLink, "wait"), (Channel, "run")):
        fate.haunt(kind, name)
    try:
        forward(home, int(port), source, target)
    except (posthouse.QueueError, posthouse.ClientConnectionError):
        return FAILED
    finally:
        Path(notes).write_text(str(fate.steps))
    return FINISHED


def forward(home: str, port: int, source: str, target: str) -> None:
    """Until nothing is left."""
    with (
        posthouse.connect(home, reconnect=0.2) as qm,
        posthouse.msmq(
            "127.0.0.1", rpc_port=port, via=qm, peer="BETA", timeout=10.0, reconnect=0.2
        ) as far,
    ):
        while True:
            with qm.transaction() as tx:
                try:
                    message = far.queue(source).receive(0, tx=tx)
                except posthouse.IoTimeout:
                    return
                qm.queue(target).send(message.body, tx=tx)
