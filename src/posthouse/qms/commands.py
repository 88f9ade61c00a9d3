"""A worker that runs one command for each job: no shell, a clean environment, a folder of its own.

Nothing that a submitter wrote becomes a word of the command, a path or a variable: the command gets
the job's file on standard input and under a name of ours, and what is known of the job as JSON.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import selectors
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from posthouse.model.job_types import job_type_name
from posthouse.qms.queue_server import CannotRun, JobFailed, JobGone, Pulse, Task

PROGRESS: Final = "POSTHOUSE_JOB_PROGRESS"
FILE: Final = "{file}"  # in the command: the path of the job's file
PATH: Final = "/usr/local/bin:/usr/bin:/bin"
TAIL: Final = 3000  # bytes of output that are kept
PIPE: Final = 1 << 16
GRACE_S: Final = 5.0
_PROGRESS: Final = re.compile(rb"\s*(\d{1,18})\s*/\s*(\d{1,18})\s*(.*)")
_PR_SET_PDEATHSIG: Final = 1


class Command(NamedTuple):
    """What is run for a job."""

    words: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    timeout_s: float | None = None
    user: int | None = None  # another uid, where the server may choose one
    group: int | None = None


class CommandWorker:
    """Runs the same command for each job; raises `CannotRun` at once where there is none."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        types: Sequence[int] = (),
        timeout_s: float | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.types = types
        self._timeout_s = timeout_s
        self._environment = dict(environment or {})
        program = look_up(words[0], self._environment.get("PATH", PATH)) if words else ""
        self._words = (program, *words[1:])

    def __call__(self, task: Task) -> str:
        """Runs it; exit code 0 finishes the job."""
        with tempfile.TemporaryDirectory(prefix="posthouse-job-") as name:
            folder = Path(name)
            file = fetched(task, folder)
            words = [str(file) if word == FILE else word for word in self._words]
            environment = clean_environment(folder) | about(task, folder, file) | self._environment
            command = Command(words, environment, folder, self._timeout_s)
            return run(command, task, file)


def look_up(word: str, path: str) -> str:
    """The program that the first word of a command means; raises `CannotRun` with the remedy.

    A word with a slash is a path from where the server is started, any other is looked for in PATH.
    """
    if word == FILE:
        raise CannotRun(f"{FILE} is the file of a job: name a program in front of it")
    if not word:
        raise CannotRun("the command is empty: name a program")
    found = Path.cwd() / word if "/" in word else Path(shutil.which(word, path=path) or "")
    if not found.name:
        raise CannotRun(
            f"the command {word} was not found: no program of that name is in {path}. Write its "
            "whole path, or pass your own PATH with --env PATH"
        )
    if not found.exists():
        raise CannotRun(f"the command {found} does not exist. Check the path")
    if found.is_dir():
        raise CannotRun(f"the command {found} is a folder. Name a program in it")
    if not os.access(found, os.X_OK):
        raise CannotRun(f"the command {found} may not be run. Allow it: chmod +x {found}")
    return str(found)


def fetched(task: Task, folder: Path) -> Path:
    """The job's file, under a name of ours."""
    path = folder / "job"
    with path.open("xb") as file:
        for piece in task.job.chunks():
            file.write(piece)
    return path


def clean_environment(folder: Path) -> dict[str, str]:
    """What a program needs, and nothing of this process."""
    return {
        "PATH": PATH,
        "LANG": "C.UTF-8",
        "HOME": str(folder),
        "TMPDIR": str(folder),
    }


def about(task: Task, folder: Path, file: Path) -> dict[str, str]:
    """The environment that describes the job to a command; texts of the submitter are in a file
    only.
    """
    taken, queue = task.job.taken, task.queue
    known = folder / "job.json"
    known.write_bytes(
        msgspec.json.encode(
            {
                "queue": queue.name,
                "number": task.number,
                "type": taken.job_type,
                "owner": task.owner,
                "description": taken.description,
                "record": taken.queue_record,
            }
        )
    )
    pipe = folder / "progress"
    os.mkfifo(pipe, 0o600)
    return {
        "POSTHOUSE_JOB": str(known),
        PROGRESS: str(pipe),
        "POSTHOUSE_JOB_FILE": str(file),
        "POSTHOUSE_JOB_NUMBER": str(task.number),
        "POSTHOUSE_JOB_TYPE": job_type_name(taken.job_type),
    }


# -- one process


def run(command: Command, task: Task, file: Path) -> str:
    """Runs a command to its end, reports its progress, and returns the last of its output."""
    # Also for writing: a pipe without a writer is at its end, and always ready to read.
    pipe = os.open(command.environment[PROGRESS], os.O_RDWR | os.O_NONBLOCK)
    try:
        process = _started(command, file)
        try:
            with Pulse(task) as pulse:
                watched = _Watched(process, pipe, pulse, task.stop, command.timeout_s)
                watched.follow()
        finally:
            _end(process)
    finally:
        os.close(pipe)
    return _outcome(process.returncode, watched)


def _started(command: Command, file: Path) -> subprocess.Popen[bytes]:
    try:
        with file.open("rb") as data:
            return subprocess.Popen(
                list(command.words),
                stdin=data,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=command.folder,
                env=dict(command.environment),
                start_new_session=True,
                preexec_fn=_ends_with_us(),
                **_identity(command),
            )
    except OSError as error:
        raise CannotRun(
            f"the command {command.words[0]} cannot be run: {error.strerror}. Put that right, and "
            "start the server again"
        ) from error


def _identity(command: Command) -> dict[str, Any]:
    if command.user is None:
        return {}
    return {"user": command.user, "group": command.group, "extra_groups": ()}


def _ends_with_us() -> Callable[[], None]:
    """When this server is killed its command is, too: its end would go unnoticed.

    Loaded before the process forks, so that the child only makes the call.
    """
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    return ask


class _Watched:
    """A process whose output is read until it ends."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        progress: int,
        pulse: Pulse,
        stop: threading.Event,
        timeout_s: float | None,
    ) -> None:
        self.process = process
        self._pulse = pulse
        self._stop = stop
        self.said: dict[str, bytes] = {"out": b"", "errors": b"", "progress": b""}
        self.reported = (0, 0, "")
        self.timed_out = False
        self._deadline = None if timeout_s is None else time.monotonic() + timeout_s
        self._timeout_s = timeout_s
        self._selector = selectors.DefaultSelector()
        assert process.stdout is not None
        assert process.stderr is not None
        for name, file in (
            ("out", process.stdout.fileno()),
            ("errors", process.stderr.fileno()),
            ("progress", progress),
        ):
            os.set_blocking(file, False)
            self._selector.register(file, selectors.EVENT_READ, name)

    def follow(self) -> None:
        """Until it has ended, or is to be ended."""
        with self._selector:
            while self.process.poll() is None:
                self._read(0.1)
                self._pulse.check()  # raises when the job is gone
                if self._stop.is_set():
                    raise JobGone("the server stops")
                if self._deadline is not None and time.monotonic() >= self._deadline:
                    self.timed_out = True
                    return
            self._read(0.0)

    def _read(self, timeout_s: float) -> None:
        for key, _ in self._selector.select(timeout_s):
            while data := _some(key.fd):
                self._take(key.data, data)
            if data is not None:  # closed, and would be ready for ever
                self._selector.unregister(key.fd)

    def _take(self, name: str, data: bytes) -> None:
        whole = self.said[name] + data
        if name == "progress":
            *lines, whole = whole[-PIPE:].split(b"\n")
            for line in lines[-1:]:
                self._report(line)
        self.said[name] = whole[-TAIL:]

    def _report(self, line: bytes) -> None:
        found = _PROGRESS.fullmatch(line)
        if found:
            done, total, text = found.groups()
            self.reported = (int(done), int(total), _text(text)[:200])
        else:
            self.reported = (*self.reported[:2], _text(line)[:200])
        self._pulse.report(*self.reported)

    @property
    def timeout(self) -> str:
        """How long it might have taken, for people."""
        return f"{self._timeout_s:g} s"


def _some(file: int) -> bytes | None:
    """What there is; nothing at its end, None while there is nothing."""
    try:
        return os.read(file, PIPE)
    except BlockingIOError:
        return None


def _text(data: bytes) -> str:
    """What a program wrote, in one line without controls."""
    words = data.decode("utf-8", "replace")
    return "".join(c if c.isprintable() else " " for c in words).strip()


def _end(process: subprocess.Popen[bytes]) -> None:
    """With all that it started, also a namespace whose first process left the group."""
    started = _children(process)
    for number, grace_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, None)):
        if process.poll() is not None:
            break
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)  # what outlived it
    for child in started:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            signal.pidfd_send_signal(child, signal.SIGKILL)
        os.close(child)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def _children(process: subprocess.Popen[bytes]) -> list[int]:
    """Descriptors of the processes that a running one has started itself."""
    found: list[int] = []
    if process.poll() is None:
        with contextlib.suppress(OSError):
            listed = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
            for number in listed.split():
                with contextlib.suppress(ProcessLookupError):
                    found.append(os.pidfd_open(int(number)))
    return found


def _outcome(code: int, watched: _Watched) -> str:
    out, errors = (_text(watched.said[name]) for name in ("out", "errors"))
    if watched.timed_out:
        raise JobFailed(f"it took longer than {watched.timeout}")
    if code < 0:
        raise JobFailed(f"ended by signal {-code}. {errors or out}")
    if code:
        raise JobFailed(f"exit code {code}. {errors or out}")
    return out
