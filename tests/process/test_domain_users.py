"""A samba domain: its users read queues by Kerberos and NTLM, with rights given to their groups."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import posthouse
from posthouse.client.msmq import RemoteQueueManager
from posthouse.model.errors import AccessDenied, QueueError
from tests.process.active_directory import FOLDERS
from tests.process.active_directory import PASSWORD as ADMIN_PASSWORD
from tests.process.offices import wait_until
from tests.process.serving import Serving
from tests.process.warm import WarmServer
from tests.rpc.kdc import CLIENT, need_gssapi

REALM, HOST = "POSTHOUSE.TEST", "localhost"
PASSWORDS = {name: f"{name.title()}-1-Secret" for name in ("alice", "bob", "carol", "dave")}
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
        self._run("group", "addmembers", "clerks", "alice,carol,dave", *there)
        self._run("user", "create", "alpha-service", "Service-1-Secret", *there)
        self._run("spn", "add", f"host/{HOST}", "alpha-service", *there)
        self._run("domain", "exportkeytab", str(self.keytab), f"--principal=host/{HOST}", *there)
        self.clerks = self._sid_of("clerks", *there)
        self.copy = shutil.copytree(folder / "dc", folder / "copy", symlinks=True)  # not yet in use

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

    def connected(self, user: str) -> RemoteQueueManager:
        return posthouse.msmq(
            HOST,
            rpc_port=self.port,
            user=f"{user}@{REALM}",
            password=PASSWORDS[user],
            mechanism="kerberos",
        )

    def peek(self, user: str) -> bytes:
        with self.connected(user) as remote:
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


def test_an_account_that_is_made_later_ends_an_open_connection(machine: Machine) -> None:
    with machine.connected("dave") as remote:
        queue = remote.queue(QUEUE)
        assert queue.peek(timeout=5).body == b"for the clerks"
        with posthouse.connect(machine.server.home) as qm:
            qm.call("POST", "/users", {"name": "dave", "doors": []})
        with pytest.raises(AccessDenied):
            queue.peek(timeout=5)


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


# -- NTLM, through winbind

# A network and a folder for sockets of its own; the ports are the usual ones.
START = 'ip link set lo up && mount -t tmpfs none /run/samba && exec "$0" "$@"'
WINBIND = """
[queue_manager]
name = "ALPHA"
[admin]
enabled = false
[rpc]
winbind = true
winbind_ms = 20000
domain_users = true
[epm]
enabled = false
"""


class WinbindMachine:
    """A machine of the domain with winbind, and a queue manager on it that asks that."""

    def __init__(self, folder: Path, domain: Domain) -> None:
        self.folder = folder
        made = shutil.copytree(domain.copy, folder / "dc", symlinks=True)
        settings = made / "etc" / "smb.conf"
        settings.write_text(settings.read_text().replace(str(domain.folder), str(folder)))
        program = shutil.which("samba", path=FOLDERS)
        assert program is not None
        with (folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child"),
                    *("sh", "-c", START, program),
                    *("--foreground", "--model=single", "--no-process-group"),
                    *("--debug-stdout", f"--configfile={settings}"),
                    f"--option=pid directory={folder}",
                    f"--option=log file={folder / 'samba.log'}",
                    "--option=server services=rpc ldap cldap kdc winbindd",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.before = ("nsenter", f"--target={self._process.pid}", "--mount", f"--wd={folder}")
        self.domain = domain

    def winbind_answers(self) -> bool:
        words = [*self.before, "wbinfo", "--ping-dc"]
        return subprocess.run(words, capture_output=True, check=False).returncode == 0

    def start(self) -> None:
        home = self.folder / "home"
        home.mkdir(mode=0o700)
        (home / "posthouse.toml").write_text(WINBIND)
        self.server = Serving(self.folder, before=self.before)
        endpoint = self.server.ready()["endpoints"]["rpc"]
        self.port = int(endpoint.rpartition(":")[2])
        with posthouse.connect(home) as qm:
            qm.create_queue(f".\\{QUEUE}")
            qm.queue(f".\\{QUEUE}").send(b"for the clerks")
            who = {"who": self.domain.clerks, "rights": ["peek", "receive"]}
            qm.call("POST", "/queues/.%5Cprivate%24%5Corders/access/grant", who)
            body = {"name": "erin", "doors": ["rpc"], "password": "Erin-1-Secret"}
            qm.call("POST", "/users", body)

    def peek(self, user: str, password: str = "", mechanism: str = "ntlm") -> bytes:
        name = user.rpartition("\\")[2].partition("@")[0]
        with posthouse.msmq(
            HOST,
            rpc_port=self.port,
            user=user,
            password=password or PASSWORDS[name],
            mechanism=mechanism,
        ) as remote:
            return remote.queue(QUEUE).peek(timeout=5).body

    def stop_winbind(self) -> None:
        """All programs of that namespace end with the first of them. May be called again.

        It is killed together with `unshare`, and is gone a moment later.
        """
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        first = children.read_text().split() if self._process.poll() is None else []
        ends = [os.pidfd_open(int(number)) for number in first]
        self._process.kill()
        self._process.wait()
        for end in ends:
            gone, _, _ = select.select([end], [], [], 30)
            os.close(end)
            assert gone, "the programs of the domain do not end"


@pytest.fixture(scope="module")
def member(domain: Domain, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WinbindMachine]:
    made = WinbindMachine(tmp_path_factory.mktemp("member"), domain)
    try:
        wait_until(made.winbind_answers, (made.folder / "log").read_text)
        made.start()
        with made.server:
            yield made
    finally:
        made.stop_winbind()


@pytest.mark.parametrize("mechanism", ["ntlm", "negotiate"])
@pytest.mark.parametrize("name", [r"POSTHOUSE\{}", "{}@posthouse.test", "{}"])
def test_by_ntlm_a_user_reads_with_a_right_that_the_group_has(
    member: WinbindMachine, mechanism: str, name: str
) -> None:
    assert member.peek(name.format("alice"), mechanism=mechanism) == b"for the clerks"


def test_by_ntlm_a_user_outside_the_group_does_not(member: WinbindMachine) -> None:
    with pytest.raises(AccessDenied):
        member.peek(r"POSTHOUSE\bob")


def test_a_password_that_the_domain_refuses_is_told_in_the_log(member: WinbindMachine) -> None:
    with pytest.raises(QueueError):
        member.peek(r"POSTHOUSE\carol", "wrong")
    wait_until(lambda: "NT_STATUS_WRONG_PASSWORD" in member.server.log(), member.server.log)
    with pytest.raises(QueueError):
        member.peek(r"POSTHOUSE\mallory", "wrong")
    wait_until(lambda: "NT_STATUS_NO_SUCH_USER" in member.server.log(), member.server.log)


def test_accounts_here_log_in_as_before_and_closed_ones_are_not_passed_by(
    member: WinbindMachine,
) -> None:
    with pytest.raises(AccessDenied):  # logged in, without a right to this queue
        member.peek("erin", "Erin-1-Secret")
    with posthouse.connect(member.server.home) as qm:
        qm.call("POST", "/users", {"name": "dave", "doors": []})
    with pytest.raises(QueueError):
        member.peek(r"POSTHOUSE\dave")


def test_without_winbind_logins_are_refused_with_the_reason(member: WinbindMachine) -> None:
    """The last test of this machine: its winbind is gone for good."""
    member.stop_winbind()
    with pytest.raises(QueueError):
        member.peek(r"POSTHOUSE\alice")
    wait_until(lambda: "winbind does not run" in member.server.log(), member.server.log)
    with posthouse.connect(member.server.home) as qm:
        status = qm.call("GET", "/status")
        assert "winbind does not run" in status["domain_trouble"]
        assert any("winbindd_priv" in line for line in status["problems"])
    with pytest.raises(AccessDenied):
        member.peek("erin", "Erin-1-Secret")
