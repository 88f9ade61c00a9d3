"""The thread that exchanges changes with the authority of the directory.

It asks for changes from time to time and has them taken in, and it carries out what calls of the
engine need. One thread makes all calls of an authority, so what it answers is taken in in the order
in which it was said.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import Final, NamedTuple

from posthouse.directory.authority import Authority, AuthorityAway, Changes, failure_of
from posthouse.directory.mirror import Interrupted, Order, carry_out
from posthouse.directory.objects import DirectoryObject
from posthouse.engine.directory.authority_calls import Answered, AuthorityNeeded, ends_entering
from posthouse.engine.manager import QueueManager
from posthouse.protocols.engine_calls import Call, Release
from posthouse.runtime.driver import Driver, OnNeed, made_again

CLOSE_WAIT_S: Final = 2.0
PORTION: Final = 500
"""This many objects are taken in at once, some hundredths of a second: calls wait for that."""
_ANSWER_LOOK_S: Final = 0.2

Post = Callable[[Callable[[QueueManager], object], Callable[[object], None]], None]
"""Has a call made on the engine from another thread; what it returns comes back somewhere."""
Done = Callable[[Answered], None]


class Need:
    """Orders of a call that waits for them; what is `given_up` is not carried out."""

    def __init__(self, orders: Sequence[Order], done: Done) -> None:
        self.orders = orders
        self.done = done
        self.given_up = False


class _Refresh(NamedTuple):
    done: Callable[[], None]
    whole: bool = False


def silent(patience_s: float) -> str:
    """Why a call waits no more."""
    return f"it has not answered for {patience_s:.0f} seconds; what was begun may be done yet"


def need_now(driver: Driver, ask: Callable[[Sequence[Order]], Answered]) -> OnNeed:
    """For a driver without an event loop: a call that needs the authority waits for it."""

    def asked(need: AuthorityNeeded, call: Call, release: Release) -> None:
        driver.decide(made_again(need, ask(need.orders), call), release)

    return asked


def _may_take(changes: Changes, manager: QueueManager) -> bool:
    return manager.directory.may_take(changes)


def _take_ahead(part: Sequence[DirectoryObject], manager: QueueManager) -> bool:
    manager.directory.take_ahead(part)
    return True


class DirectoryFeed:
    """Asks one authority for one queue manager, every `refresh_s`; `away_s` while it is away."""

    def __init__(
        self,
        authority: Authority,
        post: Post,
        *,
        refresh_s: float,
        away_s: float,
        patience_s: float,
        portion: int = PORTION,
    ) -> None:
        self._portion = portion
        self._authority = authority
        self._post = post
        self._refresh_s = refresh_s
        self._pause_away_s = min(refresh_s, away_s)
        self._patience_s = patience_s
        self._jobs: SimpleQueue[Need | _Refresh | None] = SimpleQueue()
        self._closing = Event()
        self._guard = Lock()  # of the authority, where others than the thread ask it
        self._writes = 0
        self._token = ""
        self._thread = Thread(target=self._run, name="posthouse-directory", daemon=True)

    def start(self) -> None:
        """Asks for everything, and goes on from there."""
        self._thread.start()

    def refresh(self, done: Callable[[], None] = lambda: None, *, whole: bool = False) -> None:
        """Asks for changes now, or for everything; `done` is called in the thread afterwards."""
        self._jobs.put(_Refresh(done, whole))

    def need(self, orders: Sequence[Order], done: Done) -> Need:
        """Has orders carried out; `done` is called in the thread."""
        need = Need(orders, done)
        self._jobs.put(need)
        return need

    def ask_now(self, orders: Sequence[Order]) -> Answered:
        """Has orders carried out, and waits for the result."""
        if not self._guard.acquire(timeout=self._patience_s):
            return AuthorityAway(silent(self._patience_s))
        try:
            self._writes += 1
            return carry_out(self._authority, orders)
        except Interrupted as interrupted:
            return interrupted
        except Exception as error:  # a mistake does not end the thread
            return failure_of(error)
        finally:
            self._guard.release()

    def close(self) -> None:
        """Ends the thread; one that waits for a server is left to its time limit."""
        self._closing.set()
        self._jobs.put(None)
        if self._thread.is_alive():
            self._thread.join(CLOSE_WAIT_S)

    # -- the thread

    def _run(self) -> None:
        online = self.refreshed()
        while not self._closing.is_set():
            pause_s = self._refresh_s if online else self._pause_away_s
            try:
                job = self._jobs.get(timeout=pause_s)
            except Empty:
                online = self.refreshed()
                continue
            if isinstance(job, Need):
                if not job.given_up:
                    job.done(self.ask_now(job.orders))
            elif isinstance(job, _Refresh):
                self._token = "" if job.whole else self._token
                online = self.refreshed()
                job.done()
        with contextlib.suppress(Exception):
            self._authority.close()

    def refreshed(self) -> bool:
        """Has changes taken in; False where the authority is away."""
        with self._guard:
            writes = self._writes
            try:
                changes = self._authority.changes(self._token)
            except Exception as error:
                reason = str(failure_of(error))
            else:
                reason = ""
        if reason:
            self._decided(lambda manager: manager.directory.away(reason))
            return False

        owed = self._taken(changes, writes)
        if owed is None:
            return True
        self._token = changes.token
        return self._enter(owed) if owed else True

    def _taken(self, changes: Changes, writes: int) -> list[Order] | None:
        """Has changes taken in, many of them in portions; None: they were not."""
        values, size = changes.objects, self._portion
        starts = range(0, len(values) - size, size)
        steps = [partial(_take_ahead, values[start : start + size]) for start in starts]
        first = [partial(_may_take, changes)] if steps else []
        if not all(self._still(writes, step) for step in (*first, *steps)):
            return None
        left = len(starts) * size
        taken = frozenset((type(one), one.identifier) for one in values[:left])
        last = changes._replace(objects=values[left:], unusable=changes.unusable | taken)
        owed = self._still(writes, lambda m: m.directory.take(last))
        return owed if isinstance(owed, list) else None

    def _still(self, writes: int, call: Callable[[QueueManager], object]) -> object:
        """Makes a call unless there was a change of our own: what was read before is old then."""
        return self._decided(lambda manager: call(manager) if self._writes == writes else None)

    def _enter(self, owed: list[Order]) -> bool:
        answers = []
        for order in owed:
            answers.append((order, self.ask_now([order])))
            if ends_entering(*answers[-1]):
                break
        self._decided(lambda manager: manager.directory.entered(answers))
        return not any(isinstance(answer, AuthorityAway) for _, answer in answers)

    def _decided(self, call: Callable[[QueueManager], object]) -> object:
        """Has a call made and waits for what it returns; None when everything ends."""
        answered: SimpleQueue[object] = SimpleQueue()
        self._post(call, answered.put)
        answer: object = None
        while not self._closing.is_set():
            with contextlib.suppress(Empty):
                answer = answered.get(timeout=_ANSWER_LOOK_S)
                break
        return answer
