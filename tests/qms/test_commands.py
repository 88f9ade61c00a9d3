"""Commands for jobs: no shell, a clean environment, another user, and an end in any case."""

from __future__ import annotations

import json
import os
import pwd
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import posthouse
from posthouse.model.bindery import NWOT_JOB_SERVER
from posthouse.qms import FileServer, JobQueue
from posthouse.qms.commands import (
    PROGRESS,
    Command,
    CommandWorker,
    about,
    clean_environment,
    fetched,
    run,
)
from posthouse.qms.objects import ServicedJob
from posthouse.qms.queue_server import CannotRun, JobGone, Pulse, QueueServer, Served, Task
from posthouse.qms.sessions import SessionDoor

HOSTILE = "\x1b[31m`id` $(id) ; ../../x {file}"
PATIENCE_S = 30.0
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root may choose another user")


@pytest.fixture
def queue(server: FileServer) -> JobQueue:
    made = server.create_queue("WORK", users=["SUPERVISOR"], operators=["SUPERVISOR"])
    server.create_server("S", queues=[made])
    return made


@pytest.fixture
def task(qm: posthouse.QueueManagerClient, queue: JobQueue) -> Callable[..., Task]:
    """`task(data, ...)`: a job in service."""

    def take(data: bytes = b"one\ntwo\n", **more: Any) -> Task:
        queue.submit(data, HOSTILE, **more)
        door = SessionDoor(qm, "S", NWOT_JOB_SERVER)
        door.attach_queue_server_to_queue(queue.id)
        attached = FileServer(door).queue("WORK")
        taken = door.service_queue_job(attached.id, ())
        return Task(door, ServicedJob(attached, taken), threading.Event())

    return take


def served(qm: posthouse.QueueManagerClient, worker: CommandWorker, jobs: int = 1) -> Served:
    return QueueServer(qm, "S", NWOT_JOB_SERVER, ["WORK"], worker, jobs=jobs, retry_s=0).run()


def python(text: str, *words: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", "-c", text, *words)


def history(qm: posthouse.QueueManagerClient) -> list[tuple[str, str]]:
    return [(one["outcome"], one["result"]) for one in qm.call("GET", "/job-history")["jobs"]]


def test_a_command_has_nothing_of_the_submitter_but_its_file(
    qm: posthouse.QueueManagerClient, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No word, no variable and no path comes from a job; what it says of itself is JSON."""
    monkeypatch.setenv("SECRET", "of the server")
    queue.submit(b"data of the job", HOSTILE, record=b"\x1b]0;title\x07")
    tell = """
import json, os, sys
known = json.load(open(os.environ["POSTHOUSE_JOB"]))
data = sys.stdin.read(), open(sys.argv[1]).read(), open(os.environ["POSTHOUSE_JOB_FILE"]).read()
print(json.dumps([sys.argv[2:], sorted(os.environ), data, known["owner"], known["description"],
                  os.getcwd() == os.environ["HOME"] == os.environ["TMPDIR"]]))
"""
    worker = CommandWorker(python(tell, "{file}", "x{file}", "$HOME"), environment={"MINE": "1"})
    assert served(qm, worker) == (1, 0)
    ((outcome, result),) = history(qm)
    assert outcome == "finished"
    words, names, data, owner, description, at_home = json.loads(result)
    assert words == ["x{file}", "$HOME"]
    assert set(names) - {"LC_CTYPE"} == {
        *("PATH", "LANG", "HOME", "TMPDIR", "MINE"),
        *("POSTHOUSE_JOB", "POSTHOUSE_JOB_FILE", "POSTHOUSE_JOB_NUMBER", "POSTHOUSE_JOB_TYPE"),
        "POSTHOUSE_JOB_PROGRESS",
    }
    assert data == ["data of the job"] * 3
    assert (owner, description, at_home) == ("SUPERVISOR", HOSTILE.replace("\x1b", "?"), True)


@pytest.mark.parametrize(
    ("words", "outcome", "result"),
    [
        (python("print('\\x1b[31mred', end='')"), "finished", "[31mred"),
        (python("import sys; print('out'); sys.exit('bad\\x07')"), "failed", "exit code 1. bad"),
        (python("import sys; print('out'); sys.exit(3)"), "failed", "exit code 3. out"),
        (python("import os; os.kill(os.getpid(), 9)"), "failed", "ended by signal 9. "),
        (python("print('x' * 5000)"), "finished", "x" * 2999),
    ],
    ids=["done", "failed", "exit code", "killed", "much"],
)
def test_the_end_of_a_command_is_the_end_of_its_job(
    qm: posthouse.QueueManagerClient,
    queue: JobQueue,
    words: tuple[str, ...],
    outcome: str,
    result: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And nothing of it is left."""
    folders = tmp_path / "folders"
    folders.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folders))
    queue.submit(b"")
    served(qm, CommandWorker(words))
    assert history(qm) == [(outcome, result)]
    assert not list(folders.iterdir())


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("nosuchcommand", "the command nosuchcommand was not found: no program of that name is in"),
        ("/nowhere/at-all", "the command /nowhere/at-all does not exist. Check the path"),
        ("/usr", "the command /usr is a folder. Name a program in it"),
        ("{file}", "{file} is the file of a job: name a program in front of it"),
        ("", "the command is empty: name a program"),
    ],
)
def test_a_command_that_is_not_there_is_found_before_any_job(word: str, why: str) -> None:
    with pytest.raises(CannotRun) as error:
        CommandWorker((word, "x"))
    assert str(error.value).startswith(why)


def test_a_file_that_may_not_be_run_is_no_command(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("text")
    with pytest.raises(CannotRun, match=r"may not be run\. Allow it: chmod"):
        CommandWorker((str(tmp_path / "plain"),))


def test_a_path_is_taken_from_where_the_server_is_started(
    qm: posthouse.QueueManagerClient,
    queue: JobQueue,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "here").symlink_to("/bin/cat")
    monkeypatch.chdir(tmp_path)
    queue.submit(b"text")
    served(qm, CommandWorker(("./here",)))
    assert history(qm) == [("finished", "text")]


@pytest.mark.parametrize("restart", [False, True])
def test_a_command_that_is_removed_gives_the_job_back_and_ends_the_server(
    qm: posthouse.QueueManagerClient, queue: JobQueue, tmp_path: Path, restart: bool
) -> None:
    program = tmp_path / "program"
    program.symlink_to("/bin/cat")
    worker = CommandWorker((str(program),))
    queue.submit(b"first")
    kept = queue.submit(b"second", restart=restart)
    assert served(qm, worker) == (1, 0)
    program.unlink()
    with pytest.raises(CannotRun, match="cannot be run: No such file or directory"):
        served(qm, worker, jobs=2)
    assert history(qm) == [("finished", "first")]
    entry = queue.job(kept.number).entry()
    assert (entry.servicing_server_id_number, entry.job_number) == (0, kept.number)
    assert served(qm, CommandWorker(("cat",))) == (1, 0)
    assert history(qm)[-1] == ("finished", "second")


def test_a_command_that_takes_too_long_is_ended(
    qm: posthouse.QueueManagerClient, queue: JobQueue
) -> None:
    queue.submit(b"")
    waits = python("import signal; signal.signal(15, lambda *a: exit(0)); signal.pause()")
    served(qm, CommandWorker(waits, timeout_s=0.2))
    assert history(qm) == [("failed", "it took longer than 0.2 s")]


def test_a_command_that_closed_its_output_is_waited_for(
    qm: posthouse.QueueManagerClient, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not asked for more all the time."""
    reads, read = [], os.read

    def counted(file: int, size: int) -> bytes:
        reads.append(file)
        return read(file, size)

    monkeypatch.setattr(os, "read", counted)
    queue.submit(b"")
    served(qm, CommandWorker(python("import os, time; os.closerange(1, 3); time.sleep(0.3)")))
    assert [outcome for outcome, _ in history(qm)] == ["finished"]
    assert len(reads) < 100


PROGRESSING = """
import os, sys
with open(os.environ["POSTHOUSE_JOB_PROGRESS"], "w") as progress:
    print("3/10 third\\x1b page", file=progress, flush=True)
    sys.stdin.read()
    open(os.environ["GO"]).read()  # until somebody has seen it
    print("no figures", file=progress, flush=True)
    open(os.environ["GO"]).read()
"""


def test_progress_is_seen_while_the_command_runs(
    qm: posthouse.QueueManagerClient, queue: JobQueue, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    number = queue.submit(b"").number
    worker = CommandWorker(python(PROGRESSING), environment={"GO": str(go)})
    server = threading.Thread(target=served, args=(qm, worker))
    server.start()
    for shown in ((3, 10, "third  page"), (3, 10, "no figures")):
        wait_for(lambda shown=shown: progress(qm, number) == shown)  # type: ignore[misc]
        go.write_text("")
    server.join(PATIENCE_S)
    assert history(qm) == [("finished", "")]


def progress(qm: posthouse.QueueManagerClient, number: int) -> tuple[int, int, str] | None:
    told = qm.call("GET", f"/job-queues/WORK/jobs/{number}")["progress"]
    return told and (told["done"], told["total"], told["text"])


def wait_for(true: Callable[[], bool]) -> None:
    """Until it is so; the processes of the test do it by themselves."""
    over = threading.Event()
    for _ in range(int(PATIENCE_S * 50)):
        if true():
            return
        over.wait(0.02)
    raise AssertionError("it did not come to that")


SLEEPER = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import signal; signal.pause()"])
with open(os.environ["POSTHOUSE_JOB_PROGRESS"], "w") as progress:
    print(f"1/2 {os.getpid()} {child.pid}", file=progress, flush=True)
child.wait()
"""


def is_there(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.parametrize("way", ["removed", "stopped"])
def test_a_job_that_is_gone_is_broken_off_with_all_that_it_started(
    qm: posthouse.QueueManagerClient, queue: JobQueue, way: str
) -> None:
    job = queue.submit(b"", restart=True)
    stop = threading.Event()
    worker = CommandWorker(python(SLEEPER))
    server = QueueServer(qm, "S", NWOT_JOB_SERVER, ["WORK"], worker, stop=stop)
    thread = threading.Thread(target=server.run)
    thread.start()
    wait_for(lambda: progress(qm, job.number) is not None)
    told = progress(qm, job.number)
    assert told is not None
    processes = [int(word) for word in told[2].split()]
    assert all(map(is_there, processes))
    if way == "removed":
        job.remove()
        wait_for(lambda: not any(map(is_there, processes)))
    stop.set()
    thread.join(PATIENCE_S)
    assert not any(map(is_there, processes))
    if way == "stopped":  # it is given back, and stays by its flag
        assert job.entry().servicing_server_id_number == 0
        assert job.entry().target_execution_time == b"\xff" * 6  # for the next one at once
    else:
        assert [outcome for outcome, _ in history(qm)] == ["removed"]


# -- signs of life


class CutOff(Task):
    """A job whose queue manager no longer answers."""

    def __init__(self, task: Task) -> None:
        super().__init__(task.door, task.job, task.stop)
        self.healed = threading.Event()
        self.asked = threading.Event()

    def alive(self) -> None:
        self.asked.set()
        self.healed.wait(PATIENCE_S)


def until_gone(pulse: Pulse) -> None:
    while True:
        pulse.check()


def test_a_job_is_given_up_when_nobody_answers(task: Callable[..., Task]) -> None:
    """The thread that asks hangs; the work does not, and can end its command."""
    cut = CutOff(task())
    with Pulse(cut, beat_s=0.01, silent_s=0.2) as pulse:
        assert cut.asked.wait(PATIENCE_S)
        with pytest.raises(JobGone, match=r"not answered for 0\.2 s"):
            until_gone(pulse)
    cut.healed.set()


class Counted(Task):
    """A job that says how often it was asked for."""

    def __init__(self, task: Task, enough: int) -> None:
        super().__init__(task.door, task.job, task.stop)
        self._left = enough
        self.enough = threading.Event()

    def alive(self) -> None:
        super().alive()
        self._left -= 1
        if not self._left:
            self.enough.set()


def test_a_job_that_is_answered_goes_on_for_any_time(task: Callable[..., Task]) -> None:
    """Twenty beats are longer than the silence that would end it."""
    counted = Counted(task(), 20)
    with Pulse(counted, beat_s=0.02, silent_s=0.3) as pulse:
        assert counted.enough.wait(PATIENCE_S)
        pulse.check()


def test_progress_does_not_wait_for_the_next_beat(task: Callable[..., Task]) -> None:
    counted = Counted(task(), 1)
    with Pulse(counted, beat_s=PATIENCE_S) as pulse:
        pulse.report(1, 2, "half")
        assert counted.enough.wait(PATIENCE_S / 2)


def test_a_pulse_ends_when_the_job_is_somebody_elses(task: Callable[..., Task]) -> None:
    taken = task(restart=True)
    with Pulse(taken, beat_s=0.01) as pulse:
        pulse.check()
        taken.job.abort()
        with pytest.raises(JobGone):
            until_gone(pulse)


# -- another user


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may enter; those of pytest are its user's own."""
    with tempfile.TemporaryDirectory(prefix="posthouse-open-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@root_only
def test_a_command_runs_as_another_user_with_no_groups_and_no_way_to_what_is_private(
    task: Callable[..., Task], open_folder: Path
) -> None:
    nobody = pwd.getpwnam("nobody")
    secret = open_folder / "home"
    secret.mkdir(mode=0o700)
    (secret / "key").write_text("secret")
    taken = task()
    folder = open_folder / "work"
    folder.mkdir(mode=0o700)
    file = fetched(taken, folder)
    environment = clean_environment(folder) | about(taken, folder, file)
    for path in (folder, *folder.iterdir()):
        os.chown(path, nobody.pw_uid, nobody.pw_gid)
    script = (
        f"id -u; id -g; id -G; cat {secret}/key 2>/dev/null || echo denied; "
        f"kill -0 {os.getpid()} 2>/dev/null || echo harmless; "
        "cat; touch own && echo wrote; echo 1/1 told > $POSTHOUSE_JOB_PROGRESS"
    )
    words = ("/bin/sh", "-c", script)
    command = Command(words, environment, folder, 30.0, nobody.pw_uid, nobody.pw_gid)
    told = run(command, taken, file).split()
    user, group = str(nobody.pw_uid), str(nobody.pw_gid)
    assert told == [user, group, group, "denied", "harmless", "one", "two", "wrote"]
    assert (folder / "own").stat().st_uid == nobody.pw_uid
    assert PROGRESS in environment
