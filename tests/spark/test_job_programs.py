"""Programs of submitters: who they run as, what they may read, and when they are refused."""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from posthouse import qms
from posthouse.model.bindery import NWOT_JOB_SERVER
from posthouse.model.errors import QmsError
from posthouse.model.job_types import PYSPARK
from posthouse.qms import namespaces
from posthouse.qms.objects import FileServer, ServicedJob
from posthouse.qms.queue_server import JobFailed, Task
from posthouse.qms.sessions import SessionDoor
from posthouse.spark.jobs import programs as job_programs
from posthouse.spark.jobs.programs import Programs
from tests.process.spark_office import SparkOffice

NOBODY = pwd.getpwnam("nobody")
QUEUE = "PROGRAMS"
PYTHON = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin")
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may choose another user")
needs_python = pytest.mark.skipif(PYTHON is None, reason="there is no Python of the system's")


@pytest.fixture
def ground() -> Iterator[Path]:
    """A folder that everybody may enter; those of pytest are its user's own."""
    with tempfile.TemporaryDirectory(prefix="posthouse-open-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def of_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server runs in a Python that everybody may run."""
    assert PYTHON is not None
    monkeypatch.setattr("sys.executable", PYTHON)
    monkeypatch.setattr(job_programs, "_PYTHON", Path(PYTHON).resolve())


@pytest.fixture
def task(office: SparkOffice) -> Iterator[Callable[..., Task]]:
    """`task(program, code_users)`: a job of SUPERVISOR with that file, in service."""
    with qms.on(office.qm) as server:
        queue = server.create_queue(QUEUE, users=["EVERYONE"])
        server.create_server("PRG", queues=[queue])

        def take(program: bytes, *, is_code_user: bool = True) -> Task:
            if is_code_user:
                queue.add("Q_CODE_USERS", "SUPERVISOR")
            queue.submit(program, type=PYSPARK)
            door = SessionDoor(office.qm, "PRG", NWOT_JOB_SERVER)
            there = FileServer(door).queue(QUEUE)
            door.attach_queue_server_to_queue(there.id)
            taken = door.service_queue_job(there.id, (PYSPARK,))
            return Task(door, ServicedJob(there, taken), threading.Event())

        yield take
        server.door.delete_object("PRG", NWOT_JOB_SERVER)
        queue.destroy()


TELLING = """
import os, sys
token = open(os.environ["POSTHOUSE_TOKEN_FILE"]).read()
print(os.getuid(), os.getgid(), os.getgroups(), token[:4], os.getcwd() == os.environ["HOME"])
for path in {private!r}:
    try:
        print(len(open(path).read()))
    except OSError as error:
        print(error.strerror)
open("own", "w").write("x")
print(sorted(name for name in os.environ if "SECRET" in name), sys.flags.isolated)
"""


@needs_python
@pytest.mark.spec("QMS Servicing/14")
def test_a_program_runs_as_nobody_and_reads_nothing_that_is_private(
    task: Callable[..., Task],
    office: SparkOffice,
    of_system: None,
    ground: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Decision 17, with the process as it really is."""
    monkeypatch.setenv("SECRET", "of the server")
    monkeypatch.setattr(tempfile, "tempdir", str(ground))
    home = ground / "home"
    home.mkdir(mode=0o700)
    key = home / "key"
    key.write_text("secret")
    text = TELLING.format(private=[str(key), f"/proc/{os.getpid()}/environ"])
    told = Programs("local[1]", [home]).run(task(text.encode()), office.url)
    who = f"{NOBODY.pw_uid} {NOBODY.pw_gid} []"
    assert told == f"{who} pht_ True Permission denied No such file or directory [] 1"
    assert not list(ground.glob("posthouse-program*"))


LINGERING = """
import fcntl, os
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        lock = open({lock!r}, "a")
        fcntl.flock(lock, fcntl.LOCK_EX)
        open(os.environ["POSTHOUSE_JOB_PROGRESS"], "w").write("1/1 locked\\n")
        import signal
        signal.pause()
    os._exit(0)
os.wait()
ready = open("ready", "w")
while True:
    try:
        fcntl.flock(open({lock!r}, "a"), fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(open({lock!r}, "a"), fcntl.LOCK_UN)
    except OSError:
        break
    import time
    time.sleep(0.01)
own = [name for name in os.listdir("/proc") if name.isdigit()]
try:
    beside = os.listdir(os.path.dirname(os.environ["HOME"]))
except OSError as error:
    beside = error.strerror
print(os.getpid(), len(own), beside)
"""


@needs_python
def test_what_a_program_starts_ends_with_it_and_it_sees_nothing_of_others(
    task: Callable[..., Task],
    office: SparkOffice,
    of_system: None,
    ground: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A process of one program used to outlive it and read the token of the next one."""
    monkeypatch.setattr(tempfile, "tempdir", str(ground))
    lock = ground / "lock"
    lock.touch()
    lock.chmod(0o666)
    text = LINGERING.format(lock=str(lock))
    told = Programs("local[1]", []).run(task(text.encode()), office.url)
    assert told == "1 2 Permission denied"
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # its holder is gone


def test_without_namespaces_the_programs_of_one_user_run(
    task: Callable[..., Task], office: SparkOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    namespaces._found.cache_clear()
    try:
        programs, taken = Programs("local[1]", [], trusted=True), task(b"print('ran')")
        assert programs.run(taken, office.url) == "ran"
        assert programs.run(taken, office.url) == "ran"
        programs._owner = "SOMEBODY"
        with pytest.raises(JobFailed, match=r"cannot be kept apart here, .* one of SOMEBODY"):
            programs.run(taken, office.url)
    finally:
        namespaces._found.cache_clear()


@pytest.mark.spec("QMS Servicing/14")
def test_programs_of_others_than_code_users_do_not_begin(
    task: Callable[..., Task], office: SparkOffice, ground: Path
) -> None:
    left = ground / "left"
    program = f"open({str(left)!r}, 'w')".encode()
    with pytest.raises(QmsError, match="Q_CODE_USERS"):
        Programs("local[1]", [], trusted=True).run(task(program, is_code_user=False), office.url)
    assert not left.exists()


def test_programs_are_refused_where_they_could_read_what_is_private(
    task: Callable[..., Task], office: SparkOffice, of_system: None, ground: Path
) -> None:
    home = ground / "home"
    home.mkdir(mode=0o755)
    taken = task(b"print('ran')")
    with pytest.raises(JobFailed, match=r"programs could read .*--trust-code"):
        Programs("local[1]", [home]).run(taken, office.url)
    home.chmod(0o700)
    assert Programs("local[1]", [home]).run(taken, office.url) == "ran"


def test_a_python_that_nobody_may_run_makes_programs_the_servers_own(
    task: Callable[..., Task],
    office: SparkOffice,
    ground: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So they are refused, whatever they could read."""
    monkeypatch.setattr(job_programs, "_PYTHON", ground / "python")
    home = ground / "home"
    home.mkdir(mode=0o700)
    with pytest.raises(JobFailed, match=r"programs could read .* nobody may not run"):
        Programs("local[1]", [home]).run(task(b"print('ran')"), office.url)


def test_a_python_behind_a_closed_folder_is_one_that_nobody_may_run(
    ground: Path, of_system: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Environments have links to a Python that everybody may run: that alone does not help."""
    assert Programs("local[1]", [])._identity is not None
    closed = ground / "closed"
    closed.mkdir(mode=0o700)
    (closed / "python").symlink_to(job_programs._PYTHON)
    monkeypatch.setattr(job_programs, "_PYTHON", closed / "python")
    assert Programs("local[1]", [])._identity is None


def test_the_user_of_programs_has_to_be_there() -> None:
    with pytest.raises(ValueError, match="no user who-is-this"):
        Programs("local[1]", [], user="who-is-this")


@pytest.mark.parametrize(
    ("way", "mode", "owner", "readable"),
    [
        (0o755, 0o755, 0, True),
        (0o755, 0o750, 0, False),
        (0o755, 0o704, 0, False),  # names, but not what they lead to
        (0o755, 0o701, 0, False),
        (0o700, 0o755, 0, False),
        (0o711, 0o755, 0, True),
        (0o755, 0o500, NOBODY.pw_uid, True),
        (0o755, 0o055, NOBODY.pw_uid, False),
    ],
)
def test_what_a_program_could_read(
    of_system: None, ground: Path, way: int, mode: int, owner: int, readable: bool
) -> None:
    folder = ground / "way" / "home"
    folder.mkdir(parents=True)
    os.chown(folder, owner, 0)
    folder.chmod(mode)
    folder.parent.chmod(way)
    assert Programs("local[1]", [])._may_read(folder) is readable
    assert not Programs("local[1]", [])._may_read(folder / "not there")


def test_files_are_private_by_their_group_too(of_system: None, ground: Path) -> None:
    file = ground / "token"
    file.touch(0o640)
    assert not Programs("local[1]", [])._may_read(file)
    os.chown(file, 0, NOBODY.pw_gid)
    assert Programs("local[1]", [])._may_read(file)


def test_root_reads_everything(of_system: None, ground: Path) -> None:
    home = ground / "home"
    home.mkdir(mode=0o000)
    assert Programs("local[1]", [], user="root")._may_read(home)
