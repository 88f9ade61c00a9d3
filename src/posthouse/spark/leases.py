"""The leases of a stream's group at its queue managers, renewed while it runs.

Renewals and acknowledgments have threads and connections of their own, so that neither waits for
the other nor for Spark. Acknowledging is receiving and may take its time; at most one is under way.
Leases are renewed side by side: a queue manager that does not answer, or has many queues, does not
let those of others lapse.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from posthouse.client.admin_http import AWAY
from posthouse.client.errors import ClientConnectionError
from posthouse.client.groups import Claim, GroupReader, GroupState
from posthouse.model.errors import ServiceNotAvailable, SharingViolation
from posthouse.spark.endpoint import GONE, Endpoint
from posthouse.spark.queue_selection import Place
from posthouse.spark.reader_names import is_dead

CONSUME: Final = "consume"
OBSERVE: Final = "observe"
RENEW_S: Final = 5.0  # a lease lasts 15 s, and no setting makes it shorter than 10
TAKE_OVER_S: Final = 5.0  # waited beyond the end of a lease that its reader may have died with
RETRY_S: Final = 0.5
ACKNOWLEDGE_S: Final = 600.0
RENEWED_BY_ONE: Final = 32  # leases of a queue manager that one thread renews


class Leases:
    """The leases of one group on all queues of a stream."""

    def __init__(self, group: str, mode: str, owner: str, *, patient: bool = True) -> None:
        self.group = group
        self.mode = mode
        self.owner = owner
        self.patient = patient  # waits for a queue manager that is away when it acknowledges
        self.epochs: dict[str, int] = {}
        self.states: dict[str, GroupState] = {}
        self._places: dict[str, Place] = {}
        self._renewers: list[Renewer] = []
        self._acknowledging = Worker("posthouse acknowledge", None, None)
        self._own: dict[Endpoint, Endpoint] = {}
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
                if left_s == 0.0:
                    continue  # it was a dead reader's
                if until is None and left_s is not None:
                    until = time.monotonic() + left_s + TAKE_OVER_S
                if until is None or time.monotonic() > until:
                    raise
            time.sleep(RETRY_S)
        self.epochs[place.queue], self.states[place.queue] = state.epoch, state
        self._places[place.queue] = place
        self._renewer(place).add(place.queue, state.epoch)
        return state

    def _lapses_in_s(self, place: Place) -> float | None:
        """When the lease ends; None: it has, or another group or an exclusive reader has the queue.

        A living lease is left alone. One whose reader has died on this machine is ended here.
        """
        state = place.endpoint.find_group(place.queue, self.group)
        if state is None or not state.leased:
            return None
        if is_dead(state.owner):
            group = place.endpoint.group(place.queue, self.group)
            with suppress(SharingViolation):  # another reader has it by now
                group.end(self.mode, state.owner, state.epoch)
                return 0.0
        return state.lease_left_ms / 1000

    def _renewer(self, place: Place) -> Renewer:
        """One that has room for another queue of this queue manager."""
        for one in self._renewers:
            if one.endpoint is place.endpoint and len(one.epochs) < RENEWED_BY_ONE:
                return one
        made = Renewer(place.endpoint, self.group, self.mode, self.owner)
        self._renewers.append(made)
        return made

    def claim(self, queue: str, claim: Claim) -> GroupState:
        """Makes sure, durably, that no other reader takes what a batch is about to read."""
        group = self._places[queue].endpoint.group(queue, self.group)
        state = group.claim(self.epochs[queue], claim)
        self.states[queue] = state
        return state

    def beside(self, task: Callable[[], None]) -> None:
        """Does something beside the stream, when what was begun before is done."""
        self._acknowledging.do(task)

    def wait(self) -> None:
        """Until what was begun beside the stream is done; raises what went wrong."""
        self._acknowledging.wait()

    def acknowledge(self, queues: Mapping[str, int], stream: str) -> None:
        """Receives up to these ids what the stream has claimed."""
        for queue, through in queues.items():
            if queue in self.epochs:
                group = self._group(queue)
                group.acknowledge(self.epochs[queue], through, stream)

    def forget(self, queue: str) -> None:
        """A queue is gone, and what was held there with it."""
        for held in (self.epochs, self.states, *(one.epochs for one in self._renewers)):
            held.pop(queue, None)  # type: ignore[attr-defined]

    def check(self) -> None:
        """Raises an error of the background threads, such as a lease that another reader took
        over.
        """
        for one in self._renewers:
            one.worker.check()
        self._acknowledging.check()

    def end(self) -> None:
        """Nothing more will be read: others may receive what was not claimed."""
        if self._ended:
            return
        self._ended = True
        for one in self._renewers:
            one.worker.stop()
        for queue, epoch in self.epochs.items():
            endpoint = self._places[queue].endpoint
            # Somebody else has it by now, or it is away or deleted: then the lease lapses.
            with suppress(SharingViolation, *AWAY, *GONE), endpoint.impatient():
                endpoint.group(queue, self.group).end(self.mode, self.owner, epoch)

    def close(self) -> None:
        """Waits for what is under way, and ends the leases as far as they can be reached."""
        self._acknowledging.stop()
        with suppress(ClientConnectionError):
            self.end()
        self.disconnect()

    def disconnect(self) -> None:
        """Gives the connections of the threads back, which have ended."""
        for endpoint in (*self._own.values(), *(one.mine for one in self._renewers)):
            endpoint.close()

    def _group(self, queue: str) -> GroupReader:
        """The group through a connection of the thread that acknowledges."""
        endpoint = self._places[queue].endpoint
        if endpoint not in self._own:
            manager = endpoint.manager
            manager = manager._replace(
                timeout_s=max(ACKNOWLEDGE_S, manager.timeout_s),
                retry_s=manager.retry_s if self.patient else 0.0,
            )
            self._own[endpoint] = Endpoint(manager)
        return self._own[endpoint].group(queue, self.group)


class Renewer:
    """Renews some leases of one queue manager, in a thread and over a connection of its own."""

    def __init__(self, endpoint: Endpoint, group: str, mode: str, owner: str) -> None:
        self.endpoint = endpoint
        self.epochs: dict[str, int] = {}
        manager = endpoint.manager
        self.mine = Endpoint(
            manager._replace(timeout_s=min(RENEW_S, manager.timeout_s), retry_s=0.0)
        )
        self._group = group
        self._mode = mode
        self._owner = owner
        self.worker = Worker("posthouse lease", self._renew, RENEW_S)

    def add(self, queue: str, epoch: int) -> None:
        """One more lease."""
        self.epochs[queue] = epoch
        self.worker.start()

    def _renew(self) -> None:
        for queue, epoch in list(self.epochs.items()):
            # The server may be restarting, or the queue deleted: planning the next batch raises
            # that.
            with suppress(ClientConnectionError, ServiceNotAvailable, *GONE):
                self.mine.group(queue, self._group).renew(self._mode, self._owner, epoch)


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

    def wait(self) -> None:
        """Until what was handed over is done; raises what went wrong."""
        with self._changed:
            self._changed.wait_for(lambda: self._task is None or self._failure or self._stopped)
        self.check()

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
            except Exception as error:  # the stream must get every failure
                with self._changed:
                    self._failure = error
                    self._changed.notify_all()
                return
            with self._changed:
                if task is self._task:
                    self._task = None
                self._changed.notify_all()


def claimed_through(state: GroupState, stream: str, through: int) -> int | None:
    """Up to where a stream can acknowledge for a batch that is committed; None: nothing is left.

    A consuming group's claim has to be the stream's own.
    """
    if state.mode != CONSUME:
        return through if through > state.position else None
    reachable = min(through, state.claimed)
    own = state.stream == stream and reachable > state.claim_after
    return reachable if own else None
