"""Two network namespaces with a cable between them."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from pathlib import Path

from tests.process.offices import wait_until

START_S = 60.0


def inside(pid: int, *command: str) -> list[str]:
    """A command in the network of a process."""
    enter = ["nsenter", "--target", str(pid), "--user", "--net", "--preserve-credentials"]
    return [*enter, *command]


def ip(pid: int, *words: str) -> None:
    subprocess.run(inside(pid, "ip", *words), check=True, capture_output=True)


class Network:
    """Two networks and the cable between them; they are gone with the processes that hold them."""

    def __init__(self, running: ExitStack) -> None:
        self._running = running
        self.one = self._hold("unshare", "--net", "--map-root-user")
        here = ("nsenter", "--target", str(self.one), "--user", "--preserve-credentials")
        self.two = self._hold(*here, "unshare", "--net")
        link = ("link", "add", "cable", "type", "veth", "peer", "name", "cable")
        ip(self.one, *link, "netns", str(self.two))
        for pid, address in ((self.one, "10.77.0.1/24"), (self.two, "10.77.0.2/24")):
            ip(pid, "address", "add", address, "dev", "cable")
            ip(pid, "link", "set", "lo", "up")
            ip(pid, "link", "set", "cable", "up")

    def _hold(self, *command: str) -> int:
        """A process that does nothing in a network of its own."""
        process = subprocess.Popen([*command, "sleep", "infinity"])
        self._running.callback(process.wait)
        self._running.callback(process.kill)
        name = Path(f"/proc/{process.pid}/comm")
        wait_until(lambda: name.read_text() == "sleep\n", name.read_text)
        return process.pid

    def cut(self) -> None:
        ip(self.one, "link", "set", "cable", "down")

    def mend(self) -> None:
        ip(self.one, "link", "set", "cable", "up")
