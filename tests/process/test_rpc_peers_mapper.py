"""The endpoint mapper at its own port, as samba's tools, impacket and nmap find it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import posthouse
from tests.process.rpc_house import add_user
from tests.support.process.network_namespaces import START_S, Network, inside

REMOTE_READ = "1a9134dd-7b39-45ba-ad88-44d01ca47f28"
MAPPER = "e1af8308-5d1f-11c9-91a4-08002b14a0fa"
SETTINGS = """
[queue_manager]
name = "ALPHA"
[admin]
enabled = false
[ping]
answer = false
[epm]
enabled = true
"""
OURS = """
import posthouse, sys
with posthouse.msmq("127.0.0.1", user="reader", password="Reader of maps 1!") as remote:
    print(remote.queue(r"private$\\orders").receive(0).text)
"""
IMPACKET = f"""
from impacket.dcerpc.v5 import epm
from impacket.uuid import uuidtup_to_bin
uuid = uuidtup_to_bin(("{REMOTE_READ}", "1.0"))
print(epm.hept_map("127.0.0.1", uuid, protocol="ncacn_ip_tcp"))
for entry in epm.hept_lookup("127.0.0.1"):
    floors = entry["tower"]["Floors"]
    print(floors[0], epm.PrintStringBinding(floors), entry["annotation"].decode().rstrip(chr(0)))
"""


class Machine:
    """A server with the ports that the documents give it, in a network of its own."""

    def __init__(self, folder: Path, running: ExitStack) -> None:
        self._network = Network(running)
        self.home, ready = folder / "home", folder / "ready.json"
        home = self.home
        home.mkdir(mode=0o700)
        (home / "posthouse.toml").write_text(SETTINGS, encoding="ascii")
        serve = ["-m", "posthouse.cli.main", "serve", "--home", str(home), "--ports", "standard"]
        command = inside(self._network.one, sys.executable, *serve, "--ready-file", str(ready))
        self._process = subprocess.Popen(command)
        running.callback(self._stop)
        until = time.monotonic() + START_S
        while not ready.exists():
            assert self._process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.02)

    def _stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(START_S) == 0

    def run(self, *command: str) -> str:
        """What a program prints that is run on that machine."""
        done = subprocess.run(
            inside(self._network.one, *command),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        return done.stdout

    def rpcclient(self, command: str) -> str:
        return self.run("rpcclient", "-N", "-c", command, "ncacn_ip_tcp:127.0.0.1")


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with ExitStack() as running:
        yield Machine(tmp_path_factory.mktemp("machine"), running)


pytestmark = pytest.mark.peer("namespaces")


@pytest.mark.peer("rpcclient")
@pytest.mark.spec("RPC/29", "RPC/31", "RPC/32")
def test_rpcclient_maps_what_is_registered_and_nothing_else(machine: Machine) -> None:
    found = machine.rpcclient("epmmap epmapper ncacn_ip_tcp")
    assert "num_tower[1]" in found
    assert f"[135,abstract_syntax={MAPPER}/0x00000003]" in found
    assert "0x16C9A0D6" in machine.rpcclient("epmmap lsarpc ncacn_ip_tcp")
    assert "0x16C9A0D6" in machine.rpcclient("epmmap epmapper ncacn_np")


@pytest.mark.peer("rpcclient")
@pytest.mark.spec("RPC/33", "MS-MQRR 2.1/1", "MS-MQRR 2.1/2", "MS-MQRR 2.1/3")
def test_rpcclient_lists_remote_read_at_its_port(machine: Machine) -> None:
    *entries, last = machine.rpcclient("epmlookup").splitlines()
    assert len(entries) == 3  # and the mapper, and management
    assert f"ncacn_ip_tcp:0.0.0.0[2103,abstract_syntax={REMOTE_READ}/0x00000001]" in entries[0]
    assert last == "epm_Lookup no more entries"


@pytest.mark.peer("smbtorture")
@pytest.mark.parametrize("test", ["Map_simple", "Lookup_terminate_search"])
@pytest.mark.spec("RPC/31", "RPC/33")
def test_smbtorture_is_content(machine: Machine, test: str) -> None:
    # Its other tests insert entries, which is not for strangers, or want a lookup to end with a
    # failure: impacket takes that for one, and shows nothing of the map.
    said = machine.run(
        "smbtorture", "ncacn_ip_tcp:127.0.0.1", "-U%", f"rpc.epmapper.epmapper.{test}"
    )
    assert f"success: epmapper.{test}" in said.splitlines()


@pytest.mark.spec("RPC/29", "RPC/30", "RPC/33")
def test_impacket_finds_remote_read(machine: Machine) -> None:
    mapped, *listed = machine.run(sys.executable, "-c", IMPACKET).splitlines()
    assert mapped == "ncacn_ip_tcp:127.0.0.1[2103]"
    read = f"{REMOTE_READ.upper()} v1.0 ncacn_ip_tcp:0.0.0.0[2103]"
    assert any(line.startswith(read) for line in listed)


@pytest.mark.spec("RPC/29", "MS-MQRR 2.1/2")
def test_our_client_finds_the_port_by_itself(machine: Machine) -> None:
    with posthouse.connect(machine.home) as qm:
        add_user(qm, "reader", "Reader of maps 1!")
        qm.create_queue(r".\private$\orders")
        qm.queue(r".\private$\orders").send("found")
        qm.call(
            "POST",
            "/queues/.%5Cprivate$%5Corders/access/grant",
            {"who": "users", "rights": ["receive"]},
        )
    assert machine.run(sys.executable, "-c", OURS) == "found\n"


@pytest.mark.peer("nmap")
@pytest.mark.spec("RPC/27", "MS-MQRR 3.1.3/1")
def test_nmap_knows_what_answers_there(machine: Machine) -> None:
    said = machine.run("nmap", "-Pn", "-n", "-sT", "-sV", "-p", "135", "127.0.0.1")
    assert "135/tcp open  msrpc   Microsoft Windows RPC" in said.splitlines()
