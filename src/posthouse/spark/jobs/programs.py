"""PySpark files as applications of their own (decision 17).

A program is somebody else's code. It runs in a namespace of its own, so that it sees no process of
others and everything it starts ends with it; in a folder of its own, whose name others cannot guess
or list; with a clean environment, a token cut to its client's rights and, where this server may
choose, as another user of the system, who cannot read the queue manager's home.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shlex
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from posthouse.qms import namespaces
from posthouse.qms.commands import Command, about, clean_environment, fetched, run
from posthouse.qms.queue_server import JobFailed, Task
from posthouse.spark.java import java_home
from posthouse.spark.sessions import is_local
from posthouse.spark.worker_home import spark_home

NOBODY: Final = "nobody"
_PYTHON: Final = Path(sys.executable)  # as commands name it: in an environment a link


class Identity(NamedTuple):
    """A user of the system."""

    user: int
    group: int


class Programs:
    """Runs PySpark files. `private` are files and folders that programs must not be able to read.

    `user` is the system's user that programs run as; without one it is `nobody` where this process
    may choose, else its own. `trusted` lets them run where they could read what is private.
    """

    def __init__(
        self,
        master: str,
        private: Iterable[Path],
        *,
        user: str | None = None,
        trusted: bool = False,
        timeout_s: float | None = None,
        conf: Mapping[str, str] | None = None,
    ) -> None:
        self._master = master
        self._conf = dict(conf or {})
        self._private = [path.absolute() for path in private]
        self._identity = _identity(user)
        self._remedy = "Start the server as root or with another --code-user, or with --trust-code"
        can_start = self._may_read(_PYTHON) and self._may_pass(_PYTHON.parents)
        if user is None and self._identity is not None and not can_start:
            self._identity = None  # that user could not even start this Python
            self._remedy = (
                f"The user {NOBODY} may not run {_PYTHON}: use a Python that everybody may read, "
                "or start the server with another --code-user, or with --trust-code"
            )
        self._trusted = trusted
        self._timeout_s = timeout_s
        self._owner: str | None = None  # whose programs run, where they cannot be kept apart

    def run(self, task: Task, url: str) -> str:
        """One program to its end; what it printed last is its result."""
        token = task.door.client_token(task.queue.id, task.number, code=True)
        self._check()
        with tempfile.TemporaryDirectory(prefix="posthouse-programs-") as name:
            parent = Path(name)
            parent.chmod(0o711)  # its folders can be entered by name, but not listed
            folder = parent / secrets.token_hex(16)
            folder.mkdir(0o700)
            file = fetched(task, folder)
            program = folder / "program.py"
            shutil.copyfile(file, program)
            token_file = folder / "token"
            token_file.touch(0o600)
            token_file.write_text(token.token, encoding="ascii")
            environment = {
                **clean_environment(folder),
                **about(task, folder, file),
                **self._spark(folder),
                "POSTHOUSE_URL": url,
                "POSTHOUSE_TOKEN_FILE": str(token_file),
            }
            command = self._command(task, program, environment)
            self._give(folder)
            return run(command, task, file)

    def _command(self, task: Task, program: Path, environment: dict[str, str]) -> Command:
        words, user = (sys.executable, "-I", str(program)), self._user()
        separate = namespaces.apart(words, *user)
        if separate is not None:
            return Command(separate, environment, program.parent, self._timeout_s)
        self._owner = self._owner or task.owner
        if task.owner != self._owner:
            raise JobFailed(
                "programs of several users cannot be kept apart here, and this server has run "
                f"one of {self._owner}. Start a server for each user, or let it make process "
                "namespaces (unshare and setpriv of util-linux)"
            )
        return Command(words, environment, program.parent, self._timeout_s, *user)

    def _user(self) -> tuple[int | None, int | None]:
        if self._identity is None or self._identity.user == os.geteuid():
            return None, None
        return self._identity.user, self._identity.group

    def _spark(self, folder: Path) -> dict[str, str]:
        """Where Spark is, and where it runs: a session of the program's finds both."""
        found = {
            "JAVA_HOME": str(java_home()),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYSPARK_SUBMIT_ARGS": shlex.join(self._submitted()),
            "POSTHOUSE_MASTER": self._master,
            "SPARK_LOCAL_DIRS": str(folder),
        }
        if is_local(self._master):
            found["SPARK_LOCAL_IP"] = "127.0.0.1"
        elif "SPARK_LOCAL_IP" in os.environ:
            found["SPARK_LOCAL_IP"] = os.environ["SPARK_LOCAL_IP"]
        home = os.environ.get("SPARK_HOME") or (spark_home() if is_local(self._master) else None)
        if home is not None and self._may_read(Path(home)):
            found["SPARK_HOME"] = str(home)
        return found

    def _submitted(self) -> list[str]:
        """The arguments for sessions of a program that sets none of its own."""
        words = ["--master", self._master]
        for name, value in self._conf.items():
            words += ["--conf", f"{name}={value}"]
        return [*words, "pyspark-shell"]

    def _give(self, folder: Path) -> None:
        """The folder and all in it are the program's."""
        user, group = self._user()
        if user is None or group is None:
            return
        for path in (folder, *folder.iterdir()):
            os.chown(path, user, group)

    def _check(self) -> None:
        """Refuses to run code that could read what it must not, unless it is trusted."""
        if self._trusted:
            return
        for path in self._private:
            if self._may_read(path):
                raise JobFailed(f"programs could read {path}. {self._remedy}")

    def _may_read(self, path: Path) -> bool:
        """Return whether a program could: each folder on the way must let it through."""
        user, group = self._user()
        if user is None or group is None:
            return path.exists()
        try:
            found = path.stat()
            ways = path.resolve().parents
        except OSError:
            return False
        need = stat.S_IROTH | stat.S_IXOTH if stat.S_ISDIR(found.st_mode) else stat.S_IROTH
        return _allows(found, user, group, need) and self._may_pass(ways)

    def _may_pass(self, folders: Sequence[Path]) -> bool:
        """Return whether all of these folders let programs through."""
        user, group = self._user()
        if user is None or group is None:
            return True
        try:
            return all(_allows(way.stat(), user, group, stat.S_IXOTH) for way in folders)
        except OSError:
            return False


def _allows(found: os.stat_result, user: int, group: int, need: int) -> bool:
    """Whether somebody has all of these rights, given as those of others."""
    if user == 0:
        return True
    shift = 6 if found.st_uid == user else 3 if found.st_gid == group else 0
    return found.st_mode & (need << shift) == need << shift


def _identity(user: str | None) -> Identity | None:
    """The user that programs run as; None: this process's own."""
    if user is None and os.geteuid() != 0:
        return None
    try:
        found = pwd.getpwnam(user or NOBODY)
    except KeyError:
        if user is None:
            return None
        raise ValueError(f"there is no user {user} on this system") from None
    if os.geteuid() not in (0, found.pw_uid):
        raise ValueError(f"only root may run programs as {user}")
    return Identity(found.pw_uid, found.pw_gid)
