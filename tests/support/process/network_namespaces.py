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


def hold(running: ExitStack, *command: str) -> int:
    """A process that does nothing in a network of its own."""
    process = subprocess.Popen([*command, "sleep", "infinity"])
    running.callback(process.wait)
    running.callback(process.kill)
    name = Path(f"/proc/{process.pid}/comm")
    wait_until(lambda: name.read_text() == "sleep\n", name.read_text)
    return process.pid


def beside(pid: int) -> tuple[str, ...]:
    """In front of a command: with the rights of that process, in the network of this one."""
    return "nsenter", "--target", str(pid), "--user", "--preserve-credentials"


class Network:
    """Two networks and the cable between them; they are gone with the processes that hold them."""

    def __init__(self, running: ExitStack) -> None:
        self.one = hold(running, "unshare", "--net", "--map-root-user")
        self.two = hold(running, *beside(self.one), "unshare", "--net")
        link = ("link", "add", "cable", "type", "veth", "peer", "name", "cable")
        ip(self.one, *link, "netns", str(self.two))
        for pid, address in ((self.one, "10.77.0.1/24"), (self.two, "10.77.0.2/24")):
            ip(pid, "address", "add", address, "dev", "cable")
            ip(pid, "link", "set", "lo", "up")
            ip(pid, "link", "set", "cable", "up")

    def cut(self) -> None:
        ip(self.one, "link", "set", "cable", "down")

    def mend(self) -> None:
        ip(self.one, "link", "set", "cable", "up")


class NatNetwork:
    """A machine inside, a gateway that translates addresses, and a machine outside.

    Inside it is as behind a router, or as a container at a bridge. The gateway hides the inside
    and, if asked to, leads port 1801 of its own address there.
    """

    INSIDE, GATEWAY, OUTSIDE = "10.88.1.2", "10.77.0.1", "10.77.0.2"

    def __init__(self, running: ExitStack, *, bridge: bool, forwarded: bool) -> None:
        self.outside = hold(running, "unshare", "--net", "--map-root-user")
        enter = beside(self.outside)
        self.gateway = hold(running, *enter, "unshare", "--net")
        self.inside = hold(running, *enter, "unshare", "--net")
        for name, pid in (("out", self.outside), ("in", self.inside)):
            link = ("link", "add", name, "type", "veth", "peer", "name", "cable")
            ip(self.gateway, *link, "netns", str(pid))
            ip(pid, "link", "set", "lo", "up")
            ip(pid, "link", "set", "cable", "up")
            ip(self.gateway, "link", "set", name, "up")
        ip(self.outside, "address", "add", f"{self.OUTSIDE}/24", "dev", "cable")
        ip(self.inside, "address", "add", f"{self.INSIDE}/24", "dev", "cable")
        ip(self.gateway, "address", "add", f"{self.GATEWAY}/24", "dev", "out")
        device = "in"
        if bridge:
            device = "br0"
            ip(self.gateway, "link", "add", device, "type", "bridge")
            ip(self.gateway, "link", "set", "in", "master", device)
            ip(self.gateway, "link", "set", device, "up")
        ip(self.gateway, "address", "add", "10.88.1.1/24", "dev", device)
        ip(self.inside, "route", "add", "default", "via", "10.88.1.1")
        self._translate(forwarded)

    def _translate(self, forwarded: bool) -> None:
        rules = [
            "add table ip nat",
            "add chain ip nat post { type nat hook postrouting priority 100; }",
            'add rule ip nat post oifname "out" masquerade',
        ]
        if forwarded:
            rules += [
                "add chain ip nat pre { type nat hook prerouting priority -100; }",
                f"add rule ip nat pre ip daddr {self.GATEWAY} tcp dport 1801 dnat to {self.INSIDE}",
            ]
        shell = "echo 1 > /proc/sys/net/ipv4/ip_forward && exec nft -f -"
        subprocess.run(
            inside(self.gateway, "sh", "-c", shell),
            input="\n".join(rules),
            text=True,
            check=True,
            capture_output=True,
        )
