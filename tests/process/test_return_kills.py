"""An error queue goes back group by group, while manager and command are killed again and again."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path

from posthouse import Draft
from posthouse.formats.encode import nservicebus_headers
from tests.conftest import Dose
from tests.process.offices import Office, wait_for_delivery
from tests.process.warm import Loaded, WarmServer

ERROR = r".\private$\error"
GROUPS = 7
BATCH = 500
STACK = "   at System.Throw()\n   at Shop.Handler{0}.Handle(Order order) in C:\\a.cs:line 7"


def extension(group: int, failed_queue: str) -> bytes:
    """The headers that NServiceBus writes when a message has failed for good."""
    return nservicebus_headers(
        {
            "NServiceBus.MessageId": f"id-{group}",
            "NServiceBus.FailedQ": failed_queue,
            "NServiceBus.ExceptionInfo.ExceptionType": "System.InvalidOperationException",
            "NServiceBus.ExceptionInfo.Message": f"cause {group % 4}",
            "NServiceBus.ExceptionInfo.StackTrace": STACK.format(group),
            "NServiceBus.TimeOfFailure": "2026-11-17 10:11:12:131415 Z",
        }
    )


def sources(there: Office) -> list[tuple[str, str]]:
    """Where each group failed: the queue as the header names it, and its own name.

    Two groups failed in one queue, and two on another machine.
    """
    local = [(f"source{number}@ALPHA", f"source{number}") for number in (0, 1, 2, 3, 3)]
    return [*local, *[(there.name_of(name), name) for name in ("far0", "far1")]]


def fill(here: Office, headers: list[bytes], messages: int) -> None:
    """The error queue: the groups are mixed, each body is its place."""
    error = here.qm.queue(ERROR)
    for at in range(0, messages, BATCH):
        numbers = range(at, min(at + BATCH, messages))
        drafts = [Draft(b"%d" % n, extension=headers[n % GROUPS]) for n in numbers]
        with here.qm.transaction() as tx:
            error.send_many(drafts, tx=tx)


class Kills:
    """Which of the two is killed when, one kind after the other."""

    def __init__(self, within_s: float) -> None:
        self._chance = random.Random(7)
        self._within_s = within_s
        self._kinds = cycle([(True, False), (False, True), (True, True)])
        self.half_way = 0  # kills that found a group neither whole nor gone

    def kill(self, server: WarmServer, command: int) -> None:
        """Kills the command, the manager or both; in the end no command runs, and the manager."""
        time.sleep(self._chance.uniform(0, self._within_s))
        of_command, of_manager = next(self._kinds)
        if of_command:
            os.kill(command, signal.SIGKILL)  # it may have ended by itself
        if of_manager:
            server.kill()
            server.start()
        server.loaded.wait(command)


def send_back(here: Office, key: str, kills: Kills, times: int) -> None:
    """One group goes back, in spite of some kills."""
    server = here.server
    arguments = ["message", "return", ERROR, "--group", key, "--home", str(server.home)]
    for _ in range(times):
        before = remaining(here, key)
        kills.kill(server, server.loaded.fork("posthouse.cli.main", *arguments))
        kills.half_way += 0 < remaining(here, key) < before
    command = server.loaded.fork("posthouse.cli.main", *arguments)
    assert server.loaded.wait(command) == 0, server.loaded.errors.read_text()
    assert remaining(here, key) == 0


def remaining(here: Office, key: str) -> int:
    groups = {group.key: group.count for group in here.qm.queue(ERROR).failures()}
    return groups.get(key, 0)


def test_each_is_once_at_its_source_in_order(tmp_path: Path, dose: Dose) -> None:
    messages, kills = dose(350, 10_000), Kills(dose(20, 250) / 100)
    Loaded(tmp_path, "posthouse.cli.messages.command")  # so that commands start fast
    with ExitStack() as running:
        here = Office(tmp_path / "alpha", "ALPHA", running)
        there = Office(tmp_path / "beta", "BETA", running)
        here.create("error", *(f"source{number}" for number in range(4)), transactional=True)
        there.create("far0", "far1", transactional=True)
        places = sources(there)
        headers = [extension(group, address) for group, (address, _) in enumerate(places)]
        fill(here, headers, messages)
        groups = here.qm.queue(ERROR).failures()
        assert len(groups) == GROUPS
        assert sum(group.count for group in groups) == messages
        for number, group in enumerate(groups):
            send_back(here, group.key, kills, dose(number % 2, 4))
        assert here.qm.queue(ERROR).count() == 0
        wait_for_delivery([here], unread=True)
        found = 0
        for number, (address, name) in enumerate(places):
            office = there if address.startswith("DIRECT") else here
            mine = [body for body in map(int, office.bodies(name)) if body % GROUPS == number]
            assert mine == list(range(number, messages, GROUPS))
            found += len(mine)
        assert found == messages
        print(f"{messages} messages, {kills.half_way} kills half-way through a group")
        assert kills.half_way >= dose(0, 1)
