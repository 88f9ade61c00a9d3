"""A samba domain: its users read queues by Kerberos, with rights given to them and their groups."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import posthouse
from posthouse.model.errors import QueueError
from tests.process.active_directory import FOLDERS
from tests.process.active_directory import PASSWORD as ADMIN_PASSWORD
from tests.process.offices import wait_until
from tests.process.warm import WarmServer
from tests.rpc.kdc import CLIENT, need_gssapi

REALM, HOST = "POSTHOUSE.TEST", "localhost"
PASSWORDS = {"alice": "Alice-1-Secret", "bob": "Bob-1-Secret", "carol": "Carol-1-Secret"}
QUEUE = r"private$\orders"
SETTINGS = """
[queue_manager]
name = "ALPHA"
[admin]
enabled = false
[rpc]
keytab = "{keytab}"
domain_users = {domain_users}
[epm]
enabled = false
"""

pytestmark = pytest.mark.peer("activedirectory", "kerberos")


class Domain:
    """A domain controller that only gives tickets: alice is one of the clerks, bob is not."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.keytab = folder / "keytab"
        self._settings = folder / "dc" / "etc" / "smb.conf"
        self._process: subprocess.Popen[bytes] | None = None
        self._run(
            *("domain", "provision", f"--targetdir={folder / 'dc'}", f"--realm={REALM}"),
            *("--domain=POSTHOUSE", "--server-role=dc", "--dns-backend=NONE"),
            *(f"--adminpass={ADMIN_PASSWORD}", "--host-name=dc1", "--host-ip=127.0.0.1"),
            *("--option=interfaces=lo", "--option=bind interfaces only=yes"),
            "--option=server services=kdc",
        )
        there = "-s", str(self._settings)
        for user, password in PASSWORDS.items():
            self._run("user", "create", user, password, *there)
        self._run("group", "add", "clerks", *there)
        self._run("group", "addmembers", "clerks", "alice,carol", *there)
        self._run("user", "create", "alpha-service", "Service-1-Secret", *there)
        self._run("spn", "add", f"host/{HOST}", "alpha-service", *there)
        self._run("domain", "exportkeytab", str(self.keytab), f"--principal=host/{HOST}", *there)
        self.clerks = self._sid_of("clerks", *there)

    def _run(self, *words: str) -> str:
        environment = {**os.environ, "PATH": FOLDERS}
        done = subprocess.run(
            ["samba-tool", *words], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _sid_of(self, group: str, *there: str) -> str:
        shown = self._run("group", "show", group, "--attributes=objectSid", *there)
        return str(re.search(r"S-1-5-21-[0-9-]+", shown)[0])  # type: ignore[index]

    def start(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = int(free.getsockname()[1])
        values = {"realm": REALM, "elsewhere": "ELSEWHERE.TEST", "host": HOST, "port": port}
        (self.folder / "krb5.conf").write_text(CLIENT.format(**values))
        program = shutil.which("samba", path=FOLDERS)
        assert program is not None
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(program, "--foreground", "--model=single", "--no-process-group"),
                    *("--debug-stdout", f"--configfile={self._settings}"),
                    f"--option=pid directory={self.folder}",
                    f"--option=ncalrpc dir={self.folder / 'ncalrpc'}",
                    f"--option=log file={self.folder / 'samba.log'}",
                    f"--option=krb5 port={port}",
                    "--option=kpasswd port=0",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        wait_until(lambda: _listens(port), (self.folder / "log").read_text)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "KRB5_CONFIG": str(self.folder / "krb5.conf"),
            "KRB5CCNAME": f"FILE:{self.folder / 'tickets'}",
            "KRB5RCACHENAME": f"dfl:{self.folder}",
            "KRB5RCACHEDIR": str(self.folder),
        }

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    need_gssapi()
    made = Domain(tmp_path_factory.mktemp("domain"))
    try:
        made.start()
        with pytest.MonkeyPatch.context() as patch:
            for name, value in made.environment.items():
                patch.setenv(name, value)
            yield made
    finally:
        made.stop()


class Machine:
    """A queue manager with a key of the domain, and a queue with messages that clerks may read."""

    def __init__(self, folder: Path, domain: Domain, *, domain_users: bool) -> None:
        self.server = WarmServer(folder)
        self.server.home.mkdir(mode=0o700)
        words = str(domain_users).lower()
        settings = SETTINGS.format(keytab=domain.keytab, domain_users=words)
        (self.server.home / "posthouse.toml").write_text(settings)
        self._ready_file = folder / "ready.json"
        self.domain = domain

    def start(self) -> None:
        self.server.start()
        endpoint = json.loads(self._ready_file.read_text())["endpoints"]["rpc"]
        self.port = int(endpoint.rpartition(":")[2])
        with posthouse.connect(self.server.home) as qm:
            qm.create_queue(f".\\{QUEUE}")
            qm.queue(f".\\{QUEUE}").send(b"for the clerks")
            who = {"who": self.domain.clerks, "rights": ["peek", "receive"]}
            qm.call("POST", "/queues/.%5Cprivate%24%5Corders/access/grant", who)

    def peek(self, user: str) -> bytes:
        with posthouse.msmq(
            HOST,
            rpc_port=self.port,
            user=f"{user}@{REALM}",
            password=PASSWORDS[user],
            mechanism="kerberos",
        ) as remote:
            return remote.queue(QUEUE).peek(timeout=5).body


@pytest.fixture(scope="module")
def machine(domain: Domain, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    made = Machine(tmp_path_factory.mktemp("machine"), domain, domain_users=True)
    with made.server:
        made.start()
        yield made


def test_a_user_reads_with_a_right_that_the_group_has(machine: Machine) -> None:
    assert machine.peek("alice") == b"for the clerks"


def test_a_user_outside_the_group_does_not(machine: Machine) -> None:
    with pytest.raises(QueueError) as refusal:
        machine.peek("bob")
    assert refusal.value.name == "MQ_ERROR_ACCESS_DENIED"


def test_an_account_that_was_closed_is_not_a_way_around(machine: Machine) -> None:
    """An account of the same name decides: it has no right to use this door."""
    with posthouse.connect(machine.server.home) as qm:
        qm.call("POST", "/users", {"name": "carol", "doors": []})
    with pytest.raises(QueueError):
        machine.peek("carol")


def test_without_the_setting_an_account_is_needed_and_has_the_groups_too(
    domain: Domain, tmp_path: Path
) -> None:
    machine = Machine(tmp_path, domain, domain_users=False)
    with machine.server:
        machine.start()
        with pytest.raises(QueueError):
            machine.peek("alice")
        with posthouse.connect(machine.server.home) as qm:
            qm.call("POST", "/users", {"name": "alice", "doors": ["rpc"]})
            qm.call("POST", "/users", {"name": "bob", "doors": ["rpc"]})
        assert machine.peek("alice") == b"for the clerks"
        with pytest.raises(QueueError):
            machine.peek("bob")
