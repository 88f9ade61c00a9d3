"""The real programs that some tests run against, and how to get them.

`python3 -m tools.peers install` (root, Debian) installs them; `python3 -m tools.peers` lists them.
Standard library only: it runs before anything is set up.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple


class Peer(NamedTuple):
    """One program: its Debian packages and a harmless call that shows it works here."""

    package: str  # or several, with spaces between them
    probe: tuple[str, ...]
    why: str
    folder: str = ""  # a pattern of folders off the PATH; the last one that fits counts
    npm: str = ""  # package and version of npm's registry, installed for all users

    @property
    def program(self) -> str | None:
        """Where it is; None: it is not installed."""
        found = shutil.which(self.probe[0])
        if found is None and self.folder:
            folders = sorted(map(str, Path("/").glob(self.folder.lstrip("/"))))
            found = shutil.which(self.probe[0], path=os.pathsep.join(reversed(folders)))
        return found


KERBEROS = "krb5kdc kdb5_util kadmin.local kinit"
DOMAIN = "samba samba-tool winbindd wbinfo nsenter"
HAS_SCHEMA = 'ls /usr/share/samba/setup/ad-schema/AD_DS_* && test "$(id -u)" = 0'
FIND_PROGRAM = 'PATH="$PATH:/usr/sbin" command -v "$each"'  # not on everybody's PATH
LOADS_OPENPGM = "import ctypes; ctypes.CDLL('libpgm-5.3.so.0'); import zmq; assert zmq.has('pgm')"
BUILDS_GSSAPI = """
import shutil, subprocess, sysconfig
from pathlib import Path
subprocess.run(["krb5-config", "--libs", "gssapi"], check=True)
assert shutil.which("cc") and Path(sysconfig.get_path("include"), "Python.h").exists()
"""

PEERS = {
    "curl": Peer(
        package="curl",
        probe=("curl", "--json", "{}", "--version"),
        why="runs the examples of the pages as they are printed, and posts messages",
    ),
    "strace": Peer(
        package="strace",
        probe=("strace", "-o", os.devnull, "true"),
        why="shows on a real process that no answer leaves before its sync",
    ),
    "namespaces": Peer(
        package="iproute2",
        probe=(
            *("unshare", "--net", "--map-root-user"),
            *("ip", "link", "add", "one", "type", "veth", "peer", "name", "two"),
        ),
        why="lets two queue managers have a network of their own, with a cable that is cut",
    ),
    "nftables": Peer(
        package="nftables iproute2",
        probe=("unshare", "--net", "--map-root-user", "nft", "add", "table", "ip", "nat"),
        why="translates addresses between two queue managers, as a gateway and a container do",
    ),
    "tmpfs": Peer(
        package="mount",
        probe=("unshare", "--mount", "mount", "-t", "tmpfs", "posthouse", "/mnt"),
        why="is a small disk that fills up (it takes root to mount one)",
    ),
    "systemd": Peer(
        package="systemd",
        probe=("systemd-analyze", "--version"),
        why="checks the unit and the account of the service in deploy/",
    ),
    "groff": Peer(
        package="groff",
        probe=("groff", "-v"),
        why="typesets the page of `man posthouse`",
    ),
    "promtool": Peer(
        package="prometheus",
        probe=("promtool", "--version"),
        why="checks the alerts and the dashboard in deploy/, and the metrics",
    ),
    "mono": Peer(
        package="mono-mcs mono-runtime libmono-system-runtime-serialization4.0-cil "
        "libmono-system-servicemodel4.0a-cil",
        probe=("sh", "-c", "mcs --version && mono --version"),
        why="reads with .NET's own classes what the formatters write, and writes what they read",
    ),
    "chromium": Peer(
        package="chromium chromium-driver fonts-dejavu-core",
        probe=("sh", "-c", "chromium --version && chromedriver --version"),
        why="is the browser in which the pages of the console are tested",
    ),
    "axe-core": Peer(
        package="nodejs npm",
        probe=("sh", "-c", 'test -f "$(npm root -g)/axe-core/axe.min.js"'),
        why="finds faults of the console's pages that keep people out",
        npm="axe-core@4.14.0",
    ),
    "typescript": Peer(
        package="nodejs npm",
        probe=("tsc", "--version"),
        why="checks the types of the console's scripts",
        npm="typescript@7.0.2",
    ),
    "nginx": Peer(
        package="nginx",
        probe=("nginx", "-v"),
        why="stands before a queue manager as a web server, and ends its TLS",
        folder="/usr/sbin",
    ),
    "redis": Peer(
        package="redis-server",
        probe=("redis-server", "--version"),
        why="is the foreign system of a connector",
    ),
    "postgres": Peer(
        package="postgresql",
        probe=("postgres", "--version"),
        why="commits and rolls back together with queues, even if a process dies on the way",
        folder="/usr/lib/postgresql/*/bin",
    ),
    "rabbitmq": Peer(
        package="rabbitmq-server",
        probe=("sh", "-c", "command -v epmd && ls /usr/lib/rabbitmq/lib/*/sbin/rabbitmq-server"),
        why="is measured beside Posthouse by `make bench-peers`",
    ),
    "nats": Peer(
        package="nats-server",
        probe=("nats-server", "--version"),
        why="is measured beside Posthouse by `make bench-peers`",
    ),
    "samba": Peer(
        package="python3-samba",
        probe=("/usr/bin/python3", "-c", "from samba.dcerpc import base, epmapper"),
        why="a DCE/RPC client in C: logs in, signs, seals, alters contexts, speaks NDR64",
    ),
    "rpcclient": Peer(
        package="smbclient",
        probe=("rpcclient", "--version"),
        why="asks the endpoint mapper as an administrator does",
    ),
    "smbtorture": Peer(
        package="samba-testsuite",
        probe=("smbtorture", "--version"),
        why="samba's own tests of an endpoint mapper",
    ),
    "tshark": Peer(
        package="tshark",
        probe=("tshark", "--version"),
        why="dissects a recorded conversation, and finds nothing malformed in it",
    ),
    "nmap": Peer(
        package="nmap",
        probe=("nmap", "--version"),
        why="recognises a DCE/RPC server by how it refuses strangers",
    ),
    "openpgm": Peer(
        package="python3-zmq",
        probe=("/usr/bin/python3", "-c", LOADS_OPENPGM),
        why="another implementation of PGM: sends us multicast messages, and receives ours",
    ),
    "openldap": Peer(
        package="slapd libsasl2-modules libsasl2-modules-gssapi-mit",
        probe=("sh", "-c", f"for each in slapd; do {FIND_PROGRAM} || exit; done"),
        why="a directory server with the schema of message queues (started by the tests only)",
    ),
    "activedirectory": Peer(
        package="samba-ad-dc winbind samba-ad-provision samba-dsdb-modules python3-samba iproute2",
        probe=("sh", "-c", f"for each in {DOMAIN}; do {FIND_PROGRAM} || exit; done; {HAS_SCHEMA}"),
        why="a domain controller with the schema of Active Directory (root, in the tests only)",
    ),
    "kerberos": Peer(
        package="krb5-kdc krb5-admin-server krb5-user",
        probe=("sh", "-c", f"for each in {KERBEROS}; do {FIND_PROGRAM} || exit; done"),
        why="a key distribution center that vouches for users and for this server",
    ),
    "gssapi": Peer(
        package="libkrb5-dev gcc libc6-dev python3-dev",
        probe=(sys.executable, "-c", BUILDS_GSSAPI),
        why="what the extra posthouse[kerberos] is built with (make kerberos)",
    ),
}


@cache
def missing(name: str) -> str | None:
    """Why the peer cannot be used here, or None where it can."""
    peer = PEERS[name]
    program = peer.program
    if program is None:
        return f"{name} is not installed (make peers)"
    try:
        subprocess.run((program, *peer.probe[1:]), check=True, capture_output=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        return f"{name} does not work here: {error}"
    return None


def install() -> str | None:
    """Install what is missing; returns why that failed, or None."""
    absent = [PEERS[name] for name in PEERS if missing(name)]
    needs_npm = any(peer.npm for peer in absent) and shutil.which("npm") is None
    wanted = " ".join(peer.package for peer in absent if needs_npm or not peer.npm).split()
    if not absent:
        print("peers: all present")
        return None
    if os.geteuid() != 0:
        return f"make peers needs root to install {' '.join(wanted)}"
    if shutil.which("apt-get") is None:
        return f"make peers uses apt-get only; install {' '.join(wanted)} by other means"
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    commands = (["update", "-q"], ["install", "-q", "-y", "--no-install-recommends", *wanted])
    for command in commands if wanted else ():
        if subprocess.run(["apt-get", *command], env=environment).returncode:
            return f"apt-get {command[0]} failed"
    packages = [peer.npm for peer in absent if peer.npm]
    if packages and subprocess.run(["npm", "install", "--global", *packages]).returncode:
        return "npm install failed"
    missing.cache_clear()
    left = [reason for name in PEERS if (reason := missing(name))]
    return "; ".join(left) or None


def main(arguments: list[str]) -> int:
    """List the peers, or install them."""
    if arguments == ["install"]:
        reason = install()
        if reason:
            print(f"peers: {reason}", file=sys.stderr)
        return 1 if reason else 0
    for name, peer in PEERS.items():
        print(f"{name}: {missing(name) or 'present'} ({peer.why})")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
