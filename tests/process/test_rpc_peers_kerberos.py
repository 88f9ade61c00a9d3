"""A real server in a real Kerberos realm: samba's client, impacket's and ours log in there."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from impacket.dcerpc.v5 import epm, transport
from impacket.dcerpc.v5.rpcrt import (
    RPC_C_AUTHN_GSS_NEGOTIATE,
    RPC_C_AUTHN_LEVEL_PKT_INTEGRITY,
    RPC_C_AUTHN_LEVEL_PKT_PRIVACY,
)
from impacket.krb5.ccache import CCache

import posthouse
from posthouse.model.errors import QueueError
from tests.process.warm import WarmServer
from tests.rpc.kdc import HOST, PASSWORDS, REALM, Kdc, need_gssapi
from tools.peers import PEERS

QUEUE = r"private$\orders"
SETTINGS = """
[queue_manager]
name = "ALPHA"
default_access = {{users = "full"}}
[admin]
enabled = false
[rpc]
keytab = "{keytab}"
[epm]
enabled = false
"""
# Looks everything up in the endpoint mapper, which is on the same port; prints how much there is.
SAMBA = """
import sys
from samba import NTSTATUSError, param
from samba.credentials import MUST_USE_KERBEROS, Credentials
from samba.dcerpc import epmapper, misc
settings = param.LoadParm()
settings.load_default()
who = Credentials()
who.guess(settings)
who.set_kerberos_state(MUST_USE_KERBEROS)
try:
    mapper = epmapper.epmapper(sys.argv[1], settings, who)
    print(len(mapper.epm_Lookup(0, None, None, 1, misc.policy_handle(), 100)[1]))
except NTSTATUSError as error:
    print(error.args[1])
"""

pytestmark = pytest.mark.peer("kerberos")


class House:
    """The realm, and a server in it where alice has an account without a password."""

    def __init__(self, folder: Path, kdc: Kdc) -> None:
        self.kdc = kdc
        self.server = WarmServer(folder)
        self.server.home.mkdir(mode=0o700)
        settings = SETTINGS.format(keytab=kdc.keytab)
        (self.server.home / "posthouse.toml").write_text(settings)
        self._ready_file = folder / "ready.json"

    def start(self) -> None:
        self.server.start()
        endpoint = json.loads(self._ready_file.read_text())["endpoints"]["rpc"]
        self.port = int(endpoint.rpartition(":")[2])
        with posthouse.connect(self.server.home) as qm:
            qm.call("POST", "/users", {"name": "alice", "doors": ["rpc"]})
            qm.create_queue(f".\\{QUEUE}")

    def send(self, body: bytes) -> None:
        with posthouse.connect(self.server.home) as qm:
            qm.queue(f".\\{QUEUE}").send(body)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    need_gssapi()
    kdc = Kdc(tmp_path_factory.mktemp("kdc"))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in kdc.environment.items():
            patch.setenv(name, value)
        made = House(tmp_path_factory.mktemp("house"), kdc)
        with made.server:
            made.start()
            yield made
    kdc.stop()


@pytest.mark.parametrize("user", ["alice@" + REALM, REALM.lower() + r"\alice"])
def test_our_client_receives_with_a_password(house: House, user: str) -> None:
    house.send(b"for alice")
    with posthouse.msmq(
        HOST, user=user, password=PASSWORDS["alice"], mechanism="kerberos", rpc_port=house.port
    ) as remote:
        assert remote.queue(QUEUE).receive(timeout=10).body == b"for alice"


@pytest.mark.parametrize("mechanism", ["kerberos", "negotiate"])
def test_our_client_receives_with_tickets(house: House, mechanism: str) -> None:
    house.kdc.log_in("alice")
    house.send(b"for alice")
    with posthouse.msmq(
        HOST, user="alice", password="", mechanism=mechanism, rpc_port=house.port
    ) as remote:
        assert remote.queue(QUEUE).receive(timeout=10).body == b"for alice"


def test_who_has_no_account_may_not_come_in(house: House) -> None:
    def read() -> None:
        with posthouse.msmq(
            HOST,
            user="bob@" + REALM,
            password=PASSWORDS["bob"],
            mechanism="kerberos",
            rpc_port=house.port,
        ) as remote:
            remote.queue(QUEUE).peek(timeout=0)

    with pytest.raises(QueueError, match=r"(?i)access|refuse|denied|log"):
        read()


@pytest.mark.peer("samba")
@pytest.mark.parametrize(
    "options",
    [
        f"{kind},{level}"
        for kind in ("krb5", "spnego")
        for level in ("connect", "packet", "sign", "seal")
    ],
)
def test_samba_looks_up_our_ports(house: House, options: str) -> None:
    house.kdc.log_in("alice")
    assert samba(house, options) == "2"


@pytest.mark.peer("samba")
@pytest.mark.parametrize("options", ["krb5,connect", "krb5,seal", "spnego,seal"])
def test_samba_without_an_account_is_refused(house: House, options: str) -> None:
    house.kdc.log_in("bob")
    assert not samba(house, options).isdecimal()


def samba(house: House, options: str) -> str:
    binding = f"ncacn_ip_tcp:127.0.0.1[{house.port},{options},target_hostname={HOST}]"
    done = subprocess.run(
        [PEERS["samba"].probe[0], "-c", SAMBA, binding],
        env={**os.environ, **house.kdc.environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.strip()


@pytest.mark.parametrize("level", [RPC_C_AUTHN_LEVEL_PKT_INTEGRITY, RPC_C_AUTHN_LEVEL_PKT_PRIVACY])
def test_impacket_looks_up_our_ports(house: House, level: int) -> None:
    house.kdc.log_in("alice")
    ticket = house.kdc.ticket_for_server()
    cache = CCache.loadFile(str(ticket))
    service = cache.getCredential(f"host/{HOST}@{REALM}").toTGS()
    wire = transport.DCERPCTransportFactory(f"ncacn_ip_tcp:127.0.0.1[{house.port}]")
    wire.setRemoteName(HOST)
    wire.set_credentials("alice", "", REALM, "", "", "", None, service)
    wire.set_kerberos(True)
    client = wire.get_dce_rpc()
    client.set_auth_type(RPC_C_AUTHN_GSS_NEGOTIATE)
    client.set_auth_level(level)
    client.connect()
    assert len(epm.hept_lookup(None, dce=client)) == 2
    client.disconnect()
