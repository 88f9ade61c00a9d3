"""A standalone Spark cluster from the package of PyPI: a master and two workers, one core each.

The workers say that they are on two hosts, both of them loopback: Spark runs a second attempt of a
slow task on another host only.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from posthouse.spark.java import java_home
from posthouse.spark.worker_home import spark_home
from tests.process.offices import free_port, wait_until

ROOT = Path(__file__).parents[2]
HOSTS = ("127.0.0.1", "127.0.0.2")
WORKER_MEMORY = "1g"
PATIENCE_S = 300.0  # a JVM takes its time where others are at work
EXECUTOR = b"CoarseGrainedExecutorBackend"
REGISTERED = "Registering worker"
DEPLOY = "org.apache.spark.deploy"


class Cluster:
    """Processes of our own session each; gone at the end of a `with`.

    Workers see an empty folder in the place of a `hidden` one, as other machines would.
    """

    def __init__(self, folder: Path, hidden: Path | None = None) -> None:
        self.folder = folder
        self._hidden = hidden
        self.master = f"spark://{HOSTS[0]}:{free_port()}"
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Returns when both workers are registered."""
        host, _, port = self.master.removeprefix("spark://").partition(":")
        ports = ("--host", host, "--port", port, "--webui-port", "0")
        self._launch("master", f"{DEPLOY}.master.Master", *ports)
        self._wait(lambda: "I have been elected leader" in self.said("master"))
        for number, worker in enumerate(HOSTS):
            words = ("--host", worker, "-c", "1", "-m", WORKER_MEMORY, "--webui-port", "0")
            work = ("-d", str(self.folder / f"work-{number}"))
            self._launch(
                f"worker-{number}", f"{DEPLOY}.worker.Worker", *words, *work, self.master,
                hidden=self._hidden,
            )  # fmt: skip
        self._wait(lambda: self.said("master").count(REGISTERED) == len(HOSTS))

    def _wait(self, true: Callable[[], bool]) -> None:
        wait_until(true, self.logs, PATIENCE_S)

    def _launch(self, name: str, *words: str, hidden: Path | None = None) -> None:
        home = str(spark_home())
        environment = {
            "SPARK_HOME": home,
            "JAVA_HOME": str(java_home()),
            "SPARK_LOCAL_IP": HOSTS[0],
            # Executors know what the tests define.
            "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        }
        with (self.folder / f"{name}.txt").open("wb") as log:
            process = subprocess.Popen(
                masked([f"{home}/bin/spark-class", *words], hidden),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **environment},
                start_new_session=True,
            )
        self._processes.append(process)

    def said(self, name: str) -> str:
        return (self.folder / f"{name}.txt").read_text(errors="replace")

    def logs(self) -> str:
        return "\n".join(path.read_text(errors="replace") for path in self.folder.glob("*.txt"))

    def executors(self) -> list[int]:
        """Process ids of the executors that run at this moment."""
        workers = {process.pid for process in self._processes[1:]}
        return sorted(
            pid for pid, parent, command in running() if parent in workers and EXECUTOR in command
        )

    def stop(self) -> None:
        for pid in self.executors():
            os.kill(pid, signal.SIGKILL)
        for process in reversed(self._processes):
            process.kill()
            process.wait()
        self._processes.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def masked(command: Sequence[str], hidden: Path | None) -> list[str]:
    """A command that sees an empty folder in the place of this one, in a mount namespace."""
    if hidden is None:
        return list(command)
    own = [] if os.geteuid() == 0 else ["--map-root-user"]
    script = 'mount -t tmpfs none "$0" && exec "$@"'
    return ["unshare", "--mount", *own, "sh", "-c", script, str(hidden), *command]


def running() -> Iterator[tuple[int, int, bytes]]:
    """Process id, parent and command line of everything that runs here."""
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            stat = Path(entry.path, "stat").read_bytes()
            command = Path(entry.path, "cmdline").read_bytes()
        except OSError:  # gone meanwhile
            continue
        yield int(entry.name), int(stat.rpartition(b")")[2].split()[1]), command


def descendants(root: int) -> list[int]:
    """All that a process started, and what these started."""
    children: dict[int, list[int]] = {}
    for pid, parent, _ in running():
        children.setdefault(parent, []).append(pid)
    found, left = list[int](), [root]
    while left:
        new = children.get(left.pop(), [])
        found += new
        left += new
    return found
