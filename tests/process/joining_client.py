"""Clients that join a database to a transaction and are killed before or after a step of it.

Run as a program with a home and a database. For each line of its input (queue, number of the step,
`before` or `after`) it forks one client, and writes how that ended.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import psycopg

import posthouse
from posthouse.client import database_transactions, transaction

FINISHED = 7


def main(home: str, dsn: str) -> None:
    for line in sys.stdin:
        child = os.fork()
        if not child:
            work(home, dsn, *line.split())
            os._exit(FINISHED)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def work(home: str, dsn: str, path: str, number: str, when: str) -> None:
    """One client's life."""
    run = database_transactions.run_steps
    transaction.run_steps = lambda steps: run(_deadly(steps, int(number), when))  # type: ignore[assignment]
    qm = posthouse.connect(home)
    connection = psycopg.connect(dsn)
    with qm.transaction(join=[connection]) as tx:
        qm.queue(path).send(b"paid", tx=tx)
        connection.execute("INSERT INTO payments VALUES (%s)", (path,))


_done = 0


def _deadly(steps: Any, number: int, when: str) -> Any:
    value = None
    while True:
        try:
            step = steps.send(value)
        except StopIteration as end:
            return end.value
        value = yield _counted(step, number, when)


def _counted(step: Callable[[], Any], number: int, when: str) -> Callable[[], Any]:
    def counted() -> Any:
        global _done
        _done += 1
        if _done == number and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        value = step()
        if _done == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return value

    return counted


if __name__ == "__main__":
    main(*sys.argv[1:])
