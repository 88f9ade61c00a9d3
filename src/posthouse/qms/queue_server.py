"""A queue server: takes jobs of its queues one after the other and lets a worker do them.

What it lost with its connection is the queue manager's to decide: a job that was in service stays
or goes by its restart flag. The server connects again, attaches again and goes on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, Protocol, Self

from posthouse.api.jobs import RESULT_MAX
from posthouse.client.manager import QueueManagerClient
from posthouse.model.completion_codes import (
    NO_Q_JOB,
    NO_Q_JOB_RIGHTS,
    NO_Q_SERVER,
    NO_QUEUE,
    Q_HALTED,
    Q_STN_NOT_SERVER,
)
from posthouse.model.errors import InvalidHandle, QmsError, QueueError
from posthouse.model.qms import NWCF_SERVICE_RESTART
from posthouse.qms.objects import FileServer, JobQueue, ServicedJob
from posthouse.qms.sessions import SessionDoor

POLL_S: Final = 0.5
AGAIN_S: Final = (0.1, 0.5, 1.0, 2.0, 5.0)  # between attempts to connect
RETRY_S: Final = 5.0  # before a failed job is tried again; doubled each time
RETRY_MAX_S: Final = 600.0
BEAT_S: Final = 2.0  # between two signs of life of a job
SILENT_S: Final = 45.0  # without an answer: the queue manager gives the job up 15 s later at least
_GONE: Final = frozenset({NO_Q_JOB, NO_Q_JOB_RIGHTS, Q_STN_NOT_SERVER, NO_QUEUE})
_IDLE: Final = frozenset({NO_Q_JOB, Q_HALTED})


class JobFailed(Exception):
    """The worker could not do the job; the text states why."""


class CannotRun(Exception):
    """The worker cannot do any job: the server gives back the one that it has, and ends."""


class JobGone(Exception):
    """The job is no longer this server's: it was removed, or the connection broke."""


class Task:
    """A job in the hands of a worker."""

    def __init__(self, door: SessionDoor, job: ServicedJob, stop: threading.Event) -> None:
        self.door = door
        self.job = job
        self.stop = stop
        """Set when the server is to end at once."""
        self._told: tuple[int, int, str] = (0, 0, "")

    @property
    def queue(self) -> JobQueue:
        """Where it was."""
        return self.job.queue

    @property
    def number(self) -> int:
        """Its number there."""
        return self.job.number

    @property
    def owner(self) -> str:
        """Who submitted it, by name."""
        with suppress(QueueError):
            return self.door.get_object_name(self.job.taken.client_id)[0]
        return f"{self.job.taken.client_id:08X}"

    def report(self, done: int, total: int, text: str = "") -> None:
        """How far it is; raises `JobGone` when the job is no longer this server's."""
        self.note(done, total, text)
        self.alive()

    def note(self, done: int, total: int, text: str = "") -> None:
        """Keep the progress for the next report to the queue manager."""
        self._told = (max(done, 0), max(total, 0), text[:RESULT_MAX])

    def alive(self) -> None:
        """Reports the same again, to see whether the job is still this server's."""
        try:
            self.door.report_progress(self.queue.id, self.number, *self._told)
        except (InvalidHandle, ConnectionError) as error:
            raise JobGone(str(error)) from error
        except QmsError as error:
            if error.completion in _GONE:
                raise JobGone(error.cause) from error
            raise


class Pulse:
    """Signs of life of a job, beside the work. A `with` around it.

    They come from a thread of their own, which a network that is cut holds up; the work looks with
    `check` whether it is still wanted, and is not held up.
    """

    def __init__(self, task: Task, *, beat_s: float = BEAT_S, silent_s: float = SILENT_S) -> None:
        self._task = task
        self._beat_s = beat_s
        self._silent_s = silent_s
        self._answered = time.monotonic()
        self._gone: JobGone | None = None
        self._over = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over = True
        self._wake.set()
        self._thread.join(self._beat_s)  # not for ever: it may wait for a network that is gone

    def report(self, done: int, total: int, text: str = "") -> None:
        """How far the job is; told at once, and not waited for."""
        self._task.note(done, total, text)
        self._wake.set()

    def check(self) -> None:
        """Raises `JobGone` when the job is no longer this server's, or there is no answer."""
        if self._gone is not None:
            raise self._gone
        if time.monotonic() - self._answered > self._silent_s:
            raise JobGone(f"the queue manager has not answered for {self._silent_s:g} s")

    def _run(self) -> None:
        while True:
            self._wake.wait(self._beat_s)
            self._wake.clear()
            if self._over:
                return
            try:
                self._task.alive()
            except JobGone as gone:
                self._gone = gone
                return
            except QueueError as error:
                self._gone = JobGone(error.cause)
                return
            self._answered = time.monotonic()


class Worker(Protocol):
    """Does jobs. Returns what came of one, in a line or two; raises `JobFailed`, or `CannotRun`
    where it can do none."""

    types: Sequence[int]
    """Which it takes; none: all."""

    def __call__(self, task: Task) -> str:
        """Does one."""


class Served(NamedTuple):
    """What a server did."""

    finished: int
    failed: int


Tell = Callable[[str], None]


class QueueServer:
    """A queue server of one name at one or several queues."""

    def __init__(
        self,
        manager: QueueManagerClient,
        name: str,
        type: int,
        queues: Sequence[str],
        worker: Worker,
        *,
        password: str | None = None,
        poll_s: float = POLL_S,
        retry_s: float = RETRY_S,
        jobs: int | None = None,
        tell: Tell = lambda text: None,
        stop: threading.Event | None = None,
    ) -> None:
        self._manager = manager
        self._identity = (name, type, password)
        self._names = queues
        self._worker = worker
        self._poll_s = poll_s
        self._retry_s = retry_s
        self._jobs = jobs
        self._tell = tell
        self._stop = stop or threading.Event()
        self._finished = self._failed = 0

    @property
    def served(self) -> Served:
        """What it has done so far."""
        return Served(self._finished, self._failed)

    def run(self) -> Served:
        """Until it is told to stop, or has done this many jobs.

        Raises `CannotRun` when its worker cannot do jobs; the one it had stays in its queue.
        """
        attempts = 0
        while not self._over:
            try:
                self._connected()
                attempts = 0
            except (InvalidHandle, ConnectionError) as error:
                self._tell(f"The connection is lost: {error}")
                pause = AGAIN_S[min(attempts, len(AGAIN_S) - 1)]
                attempts += 1
                self._stop.wait(pause)
        return self.served

    @property
    def _over(self) -> bool:
        enough = self._jobs is not None and self._finished + self._failed >= self._jobs
        return enough or self._stop.is_set()

    def _connected(self) -> None:
        door = SessionDoor(self._manager, *self._identity)
        try:
            server = FileServer(door)
            queues = [_queue(server, name) for name in self._names]
            for queue in queues:
                queue.attach()
            self._tell(f"{self._identity[0]} services {', '.join(one.name for one in queues)}.")
            self._work(door, queues)
            for queue in queues:
                door.detach_queue_server_from_queue(queue.id)
        finally:
            with suppress(QueueError, ConnectionError):
                door.close()

    def _work(self, door: SessionDoor, queues: Sequence[JobQueue]) -> None:
        while not self._over:
            taken = [self._one(door, queue) for queue in queues if not self._over]
            if not any(taken):
                self._stop.wait(self._poll_s)

    def _one(self, door: SessionDoor, queue: JobQueue) -> bool:
        """The next job of a queue, if there is one."""
        try:
            taken = door.service_queue_job(queue.id, self._worker.types)
        except QmsError as error:
            if error.completion in _IDLE:
                return False
            if error.completion in (Q_STN_NOT_SERVER, NO_Q_SERVER):
                raise InvalidHandle(error.cause) from error  # attach again
            raise
        task = Task(door, ServicedJob(queue, taken), self._stop)
        began = time.monotonic()
        self._tell(f"{queue.name} {task.number}: begun, for {task.owner}")
        try:
            self._end(task, began)
        except QmsError as error:
            if error.completion not in _GONE:
                raise
            self._tell(f"{queue.name} {task.number}: {error.cause}")
        except JobGone as gone:
            self._tell(f"{queue.name} {task.number}: broken off: {gone}")
            if not self._stop.is_set():
                self._give_back(task, str(gone))
        return True

    def _give_back(self, task: Task, why: str) -> None:
        """Gives a job back. Without an answer we may still have it, and until that ends no other
        server gets it.
        """
        try:
            self._abort(task, why)
        except QmsError as error:
            if error.completion not in _GONE:
                raise

    def _return(self, task: Task, why: str) -> None:
        """Nothing was done of the job: it stays in its queue, whatever its flag is."""
        try:
            task.door.abort_servicing_queue_job(task.queue.id, task.number, why, give_back=True)
        except QmsError as error:
            if error.completion not in _GONE:
                raise
        else:
            self._tell(f"{task.queue.name} {task.number}: given back to the queue: {why}")

    def _end(self, task: Task, began: float) -> None:
        queue, number = task.queue, task.number
        try:
            result = self._did(task)
        except JobFailed as failed:
            self._failed += 1
            self._abort(task, str(failed))
            self._tell(f"{queue.name} {number}: failed: {str(failed)[:RESULT_MAX]}")
        except CannotRun as error:
            self._return(task, str(error)[:RESULT_MAX])
            raise
        else:
            task.door.finish_servicing_queue_job(queue.id, number, 0, result[:RESULT_MAX])
            self._finished += 1
            self._tell(f"{queue.name} {number}: finished in {time.monotonic() - began:.1f} s")

    def _did(self, task: Task) -> str:
        """What the worker made of it. A job that upsets the worker itself must not end the server:
        with the restart flag it would end the next one, too.
        """
        try:
            return self._worker(task)
        except (CannotRun, JobFailed, JobGone, QueueError, ConnectionError):
            raise
        except Exception as error:
            first = (str(error).splitlines() or [""])[0]
            raise JobFailed(f"{type(error).__name__}: {first}") from error

    def _abort(self, task: Task, why: str) -> None:
        self._put_off(task)
        task.door.abort_servicing_queue_job(task.queue.id, task.number, why[:RESULT_MAX])

    def _put_off(self, task: Task) -> None:
        """A job that stays in the queue is not tried again at once, nor forever at short notice."""
        entry = task.door.read_entry(task.queue.id, task.number)
        if not entry.struct.job_control_flags & NWCF_SERVICE_RESTART or self._retry_s <= 0:
            return
        wait_s = min(self._retry_s * 2 ** min(entry.attempts - 1, 20), RETRY_MAX_S)
        then = datetime.now(UTC) + timedelta(seconds=wait_s)
        task.door.put_off(task.queue.id, task.number, then)


def _queue(server: FileServer, name: str) -> JobQueue:
    word, colon, rest = name.partition(":")
    return server.queue(rest, word) if colon else server.queue(name)
