"""What a stream holds at its queue managers: the leases of its group, renewed while it runs.

Renewals and acknowledgments have a thread and connections of their own, so that neither waits for
the other nor for Spark. Acknowledging is receiving and may take its time; at most one is under way.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from posthouse.client.errors import ClientConnectionError
from posthouse.client.groups import GroupReader, GroupState
from posthouse.model.errors import SharingViolation
from posthouse.spark.endpoint import Endpoint
from posthouse.spark.places import Place

CONSUME: Final = "consume"
OBSERVE: Final = "observe"
RENEW_S: Final = 5.0  # a lease lasts 15 s, and no setting makes it shorter than 10
TAKE_OVER_S: Final = 5.0  # waited beyond the end of a lease that its reader may have died with
RETRY_S: Final = 0.5
ACKNOWLEDGE_S: Final = 600.0


def owner_of(checkpoint: str) -> str:
    """Who reads, in words that stay the same when the stream is started again.

    A new reader with the same checkpoint takes over at once, and so does one of the same driver:
    its process is the parent of the one that we run in. Others wait until the lease lapses.
    """
    if checkpoint:
        return f"checkpoint {checkpoint}"
    parent = os.getppid()
    try:
        began = Path(f"/proc/{parent}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        since = began[19]
    except (OSError, IndexError):
        since = "?"
    return f"driver {socket.gethostname()} {parent} {since}"


class Leases:
    """The leases of one group on all queues of a stream."""

    def __init__(self, group: str, mode: str, owner: str) -> None:
        self.group = group
        self.mode = mode
        self.owner = owner
        self.epochs: dict[str, int] = {}
        self._places: dict[str, Place] = {}
        self._renewing = Worker("posthouse lease", self._renew_all, RENEW_S)
        self._acknowledging = Worker("posthouse acknowledge", None, None)
        self._own: dict[tuple[str, Endpoint], Endpoint] = {}
        self._ended = False

    def take(self, place: Place, position: int | None) -> GroupState:
        """Takes the lease of a queue; a reader of this group that just died is waited for."""
        group = place.endpoint.group(place.queue, self.group)
        until: float | None = None
        while True:
            try:
                state = group.lease(self.mode, self.owner, position)
                break
            except SharingViolation:
                left_s = self._lapses_in_s(place)
                if until is None:
                    until = time.monotonic() + (left_s or 0.0) + TAKE_OVER_S
                if left_s is None or time.monotonic() > until:
                    raise
            time.sleep(RETRY_S)
        self.epochs[place.queue] = state.epoch
        self._places[place.queue] = place
        self._renewing.start()
        return state

    def _lapses_in_s(self, place: Place) -> float | None:
        """When the lease ends; None: another group or an exclusive reader is in the way."""
        state = place.endpoint.find_group(place.queue, self.group)
        return state.lease_left_ms / 1000 if state is not None and state.leased else None

    def claim(self, queue: str, through: int) -> GroupState:
        """Makes sure, durably, that nobody else takes what a batch is about to read."""
        group = self._places[queue].endpoint.group(queue, self.group)
        return group.claim(self.epochs[queue], through)

    def beside(self, task: Callable[[], None]) -> None:
        """Does something beside the stream, when what was begun before is done."""
        self._acknowledging.do(task)

    def acknowledge(self, queues: Mapping[str, int]) -> None:
        """Receives up to these ids."""
        for queue, through in queues.items():
            if queue in self.epochs:
                self._group("acknowledge", queue).acknowledge(self.epochs[queue], through)

    def check(self) -> None:
        """Raises what went wrong beside the stream: somebody else has taken over, say."""
        self._renewing.check()
        self._acknowledging.check()

    def end(self) -> None:
        """Nothing more will be read: others may receive what was not claimed."""
        if self._ended:
            return
        self._ended = True
        self._renewing.stop()
        for queue, epoch in self.epochs.items():
            with suppress(SharingViolation):  # somebody else has it by now
                group = self._places[queue].endpoint.group(queue, self.group)
                group.end(self.mode, self.owner, epoch)

    def close(self) -> None:
        """Waits for what is under way, and ends the leases as far as they can be reached."""
        self._acknowledging.stop()
        with suppress(ClientConnectionError):
            self.end()

    def _renew_all(self) -> None:
        for queue, epoch in list(self.epochs.items()):
            try:
                self._group("renew", queue).renew(self.mode, self.owner, epoch)
            except ClientConnectionError:
                continue  # it may be starting again; who reads meanwhile is told so

    def _group(self, use: str, queue: str) -> GroupReader:
        """The group through a connection of one of the threads."""
        endpoint = self._places[queue].endpoint
        key = (use, endpoint)
        if key not in self._own:
            manager = endpoint.manager
            if use == "renew":  # renewed every few seconds anyway
                manager = manager._replace(retry_s=0.0)
            if use == "acknowledge":
                manager = manager._replace(timeout_s=max(ACKNOWLEDGE_S, manager.timeout_s))
            self._own[key] = Endpoint(manager)
        return self._own[key].group(queue, self.group)


class Worker:
    """A thread that does what it is told, and something of its own every so often."""

    def __init__(self, name: str, often: Callable[[], None] | None, every_s: float | None) -> None:
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._changed = threading.Condition()
        self._often = often
        self._every_s = every_s
        self._task: Callable[[], None] | None = None
        self._failure: Exception | None = None
        self._stopped = False

    def start(self) -> None:
        """Begins to run, once."""
        self.check()
        if not self._thread.is_alive() and not self._stopped:
            self._thread.start()

    def do(self, task: Callable[[], None]) -> None:
        """Hands over something to do, when what was handed over before is done."""
        self.start()
        with self._changed:
            self._changed.wait_for(lambda: self._task is None or self._failure or self._stopped)
            self.check()
            self._task = task
            self._changed.notify_all()

    def check(self) -> None:
        """Raises what went wrong."""
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Waits for what is under way, and ends."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._task or self._stopped, self._every_s)
                task = self._task or (None if self._stopped else self._often)
                if task is None:
                    return
            try:
                task()
            except Exception as error:  # whatever it is, the stream has to hear of it
                with self._changed:
                    self._failure = error
                    self._changed.notify_all()
                return
            with self._changed:
                if task is self._task:
                    self._task = None
                self._changed.notify_all()


def committed_through(group: GroupState, through: int) -> int | None:
    """How far a group can be acknowledged for a batch that is committed; None where it is."""
    reachable = min(through, group.claimed) if group.mode == CONSUME else through
    return reachable if reachable > group.position else None
