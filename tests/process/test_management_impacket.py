"""impacket manages a real server by a description of qmmgmt written for this ([MS-MQMR])."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from impacket.dcerpc.v5 import epm, transport
from impacket.dcerpc.v5.rpcrt import DCERPCException
from impacket.uuid import bin_to_uuidtup, uuidtup_to_bin

from tests.process.rpc_house import PASSWORD, USER, House
from tests.protocols.management import impacket_stubs as stubs

NONE, CONNECT, INTEGRITY, PRIVACY = 1, 2, 5, 6
OK, ACCESS_DENIED, UNSUPPORTED = 0, 0xC00E0025, 0xC00E006A
BOSS, SECRET = "boss", "the boss's word 3"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with ExitStack() as running:
        made = House(tmp_path_factory.mktemp("managed"), "MANAGED", running)
        body = {"name": BOSS, "doors": ["rpc"], "password": SECRET, "administrator": True}
        made.qm.call("POST", "/users", body)
        yield made


class Manager:
    """A connection of impacket's, and the methods on it."""

    def __init__(
        self,
        port: int,
        user: str = BOSS,
        password: str = SECRET,
        *,
        level: int = PRIVACY,
        ndr64: bool = False,
        interface: bytes = stubs.MSRPC_UUID_QMMGMT,
    ) -> None:
        self.ndr64 = ndr64
        carrier = transport.DCERPCTransportFactory(f"ncacn_ip_tcp:127.0.0.1[{port}]")
        carrier.set_credentials(user, password)
        self.dce = carrier.get_dce_rpc()
        self.dce.set_auth_level(level)
        self.dce.connect()
        syntax = self.dce.NDR64Syntax if ndr64 else self.dce.NDRSyntax
        self.dce.bind(interface, transfer_syntax=bin_to_uuidtup(syntax))

    def ask(self, request: Any) -> Any:
        self.dce.call(request.opnum, request)
        answer = getattr(stubs, f"{type(request).__name__}Response")
        return answer(self.dce.recv(), isNDR64=self.ndr64)

    def machine(self, *propids: int) -> list[Any]:
        return self._values(stubs.set_machine(stubs.asked([*propids])))

    def queue(self, name: str, *propids: int) -> list[Any]:
        asked = stubs.asked([*propids], ndr64=self.ndr64)
        return self._values(stubs.set_queue(asked, name, ndr64=self.ndr64))

    def _values(self, request: Any) -> list[Any]:
        answer = self.ask(request)
        assert answer["ErrorCode"] == OK, hex(answer["ErrorCode"])
        return [stubs.value_of(one) for one in answer["apVar"]]

    def act(self, action: str, queue: str | None = None) -> int:
        request = stubs.R_QMMgmtAction(isNDR64=self.ndr64)
        if queue is None:
            stubs.set_machine(request)
        else:
            stubs.set_queue(request, queue, ndr64=self.ndr64)
        request["lpwszAction"] = f"{action}\0"
        return int(self.ask(request)["ErrorCode"])


def mapped(house: House) -> int:
    carrier = transport.DCERPCTransportFactory(f"ncacn_ip_tcp:127.0.0.1[{house.epm_port}]")
    dce = carrier.get_dce_rpc()
    dce.connect()
    found = epm.hept_map("127.0.0.1", stubs.MSRPC_UUID_QMMGMT, protocol="ncacn_ip_tcp", dce=dce)
    return int(found.rpartition("[")[2].rstrip("]"))


@pytest.mark.spec("MS-MQMR 2.1/1", "MS-MQMR 2.1/2", "MS-MQMR 1.9/1", "MS-MQMR 2.2/1")
def test_the_interface_is_found_by_the_mapper_and_answers(house: House) -> None:
    house.qm.create_queue(r".\private$\found")
    port = mapped(house)
    assert port == house.rpc_port
    private, online, version = Manager(port).machine(2, 4, 5)
    assert r"MANAGED\private$\found" in private
    assert online == "CONNECTED"
    assert version.startswith("Posthouse ")


@pytest.mark.spec("MS-MQMR 1.9/1")
def test_another_version_is_refused_at_bind(house: House) -> None:
    other = uuidtup_to_bin(("41208EE0-E970-11D1-9B9E-00E02C064C39", "2.0"))
    with pytest.raises(DCERPCException):
        Manager(house.rpc_port, interface=other)


@pytest.mark.spec("MS-MQMR 3.1.4/3")
def test_there_are_two_methods(house: House) -> None:
    manager = Manager(house.rpc_port)
    manager.dce.call(2, b"")
    with pytest.raises(DCERPCException, match="nca_s_op_rng_error"):
        manager.dce.recv()


@pytest.mark.spec("MS-MQMR 2.2/2", "MS-MQMR 3.1.4.1/26", "MS-MQMR 3.1.4.1/28")
@pytest.mark.parametrize("ndr64", [False, True], ids=["NDR", "NDR64"])
def test_a_queue_is_counted_in_both_syntaxes(house: House, ndr64: bool) -> None:
    queue = house.qm.create_queue(rf".\private$\counted{int(ndr64)}", journal=True)
    for body in ("one", "two", "three"):
        queue.send(body)
    queue.receive(timeout=5)
    manager = Manager(house.rpc_port, ndr64=ndr64)
    name = rf"OS:MANAGED\private$\counted{int(ndr64)}"
    path, kind, count, journal, subqueues = manager.queue(name, 1, 3, 7, 9, 27)
    assert path == rf"MANAGED\private$\counted{int(ndr64)}"
    assert (kind, count, journal, subqueues) == ("PRIVATE", 2, 1, [])


@pytest.mark.spec("MS-MQMR 3/1", "MS-MQMR 3/2", "MS-MQMR 3.1.4.1/16")
def test_rights_are_those_of_who_calls(house: House) -> None:
    house.qm.create_queue(r".\private$\readable")  # every user has full access here
    reader = Manager(house.rpc_port, USER, PASSWORD)
    assert reader.queue(r"OS:MANAGED\private$\readable", 7) == [0]
    refused = reader.ask(stubs.set_machine(stubs.asked([2])))
    assert refused["ErrorCode"] == ACCESS_DENIED
    assert [one["vt"] for one in refused["apVar"]] == [stubs.NULL]
    assert reader.act("DISCONNECT") == ACCESS_DENIED
    with pytest.raises(DCERPCException):
        Manager(house.rpc_port, BOSS, "wrong").machine(2)


@pytest.mark.parametrize("level", [NONE, CONNECT, INTEGRITY])
def test_less_than_privacy_is_not_enough(house: House, level: int) -> None:
    with pytest.raises(DCERPCException, match="access_denied"):
        Manager(house.rpc_port, level=level).machine(4)


@pytest.mark.spec("MS-MQMR 4/1", "MS-MQMR 3.1.4.2/4", "MS-MQMR 3.1.4.2/5", "MS-MQMR 3.1.4.2/6")
@pytest.mark.spec("MS-MQMR 3.1.4.2/7", "MS-MQMR 3.1.4.2/8", "MS-MQMR 3.1.4.1/9")
def test_the_example_of_the_document(house: House) -> None:
    """4.1: look for queues, send, see that it does not arrive, pause."""
    far = r"DIRECT=TCP:127.0.0.1:1\private$\nowhere"
    house.qm.queue(far).send("one")
    manager = Manager(house.rpc_port)
    (active,) = manager.machine(1)
    assert far in active
    assert manager.queue(far.removeprefix("DIRECT="), 4, 7) == ["REMOTE", 1]
    assert manager.act("PAUSE", far.removeprefix("DIRECT=")) == OK
    assert manager.queue(far.removeprefix("DIRECT="), 11) == ["ONHOLD"]
    assert manager.act("RESUME", far.removeprefix("DIRECT=")) == OK
    assert manager.queue(far.removeprefix("DIRECT="), 11) != ["ONHOLD"]
    history = manager.queue(far.removeprefix("DIRECT="), 25)[0]
    assert [len(each) for each in history] == [len(history[0])] * 4
    house.qm.create_queue(r".\private$\local")
    assert manager.act("PAUSE", r"OS:MANAGED\private$\local") == UNSUPPORTED
    assert manager.act("DISCONNECT") == OK
    assert manager.machine(4) == ["DISCONNECTED"]
    assert manager.act("CONNECT") == OK
    assert manager.machine(4) == ["CONNECTED"]
    assert manager.act("TIDY") == OK
    assert manager.queue(far.removeprefix("DIRECT="), 7) == [1]


def test_management_can_be_switched_off(tmp_path: Path) -> None:
    with ExitStack() as running:
        made = House(
            tmp_path / "closed", "CLOSED", running, minimum='privacy"\nmanagement = false\n#'
        )
        with pytest.raises(DCERPCException):
            Manager(made.rpc_port, USER, PASSWORD)
