"""samba's DCE/RPC client, written in C by others: logins, protection, alter_context, NDR64."""

from __future__ import annotations

from typing import Any

import pytest

from posthouse.model.names import parse_format_name
from posthouse.protocols.management.stubs import MANAGEMENT
from posthouse.protocols.queue_format import queue_format_of
from posthouse.protocols.remote_read import stubs
from posthouse.rpc.ept import EPT
from posthouse.rpc.syntax import SyntaxId
from posthouse.wire.packet.bodies import body_of
from posthouse.wire.packet.remote_read import read_packet
from tests.process.rpc_house import House, add_user
from tests.support.process.samba_reader import samba

NDR, NDR64 = "8a885d04-1ceb-11c9-9fe8-08002b104860", "71710533-beba-4937-8319-b5dbef9ccc36"
ALL = 0xFFFFFFFF
LOGON_FAILURE, ACCESS_DENIED, PROCEDURE_OUT_OF_RANGE = 0xC000006D, 0xC0000022, 0xC002002E
HANDLE = bytes(stubs.NO_TRANSACTION) + bytes(4)  # stands where the handle of an answer goes

pytestmark = pytest.mark.peer("samba")


class Stubs:
    """Requests and answers under one transfer syntax."""

    def __init__(self, ndr64: bool) -> None:
        self.ndr64 = ndr64

    def ask(self, opnum: int, request: Any, handle_of: int | None = None) -> tuple[int, str]:
        stub = stubs.encode_request(opnum, request, self.ndr64).hex()
        if handle_of is not None:
            stub = f"<{handle_of}>{stub[40:]}"
        return opnum, stub

    def read(self, opnum: int, answer: str) -> Any:
        return stubs.decode_response(opnum, bytes.fromhex(answer), self.ndr64)


def name_of(interface: SyntaxId) -> str:
    return (interface.uuid + interface.major.to_bytes(2, "little")).hex()


@pytest.mark.spec("RPC/12", "RPC/13", "RPC/14", "MS-MQRR 2.1/3", "MS-MQRR 2.1/4")
@pytest.mark.parametrize(
    "options",
    [
        "",
        "connect,ntlm",
        "packet,ntlm",
        "sign,ntlm",
        "seal,ntlm",
        "connect,spnego",
        "sign,spnego",
        "seal,spnego",
        "ndr64",
        "sign,ntlm,ndr64",
        "seal,spnego,ndr64",
    ],
)
def test_samba_receives_a_message(house: House, options: str) -> None:
    queue, encoded = f"for-{options.replace(',', '-')}", Stubs("ndr64" in options)
    house.qm.create_queue(f".\\private$\\{queue}")
    long = b"a body of many fragments " * 500
    house.qm.queue(f".\\private$\\{queue}").send(long)
    name = queue_format_of(parse_format_name(f"DIRECT=OS:ALPHA\\private$\\{queue}"))
    said = samba(
        house.rpc_port,
        options,
        [
            encoded.ask(0, stubs.GetServerPort()),
            encoded.ask(2, stubs.OpenQueueRequest(name, 1, 0, bytes(16), 1, 6, 1, 7601, 1)),
            encoded.ask(7, stubs.StartReceive(HANDLE, 0, 0, 0, 0, 1, ALL, ALL), handle_of=1),
            encoded.ask(9, stubs.EndReceive(HANDLE, 2, 1), handle_of=1),
            encoded.ask(3, stubs.CloseQueue(HANDLE), handle_of=1),
            (1, ""),
        ],
    )
    port, _, received, ended, closed, refused = said["answers"]
    assert encoded.read(0, port).port == house.rpc_port
    (section,) = encoded.read(7, received).sections
    message = read_packet(section.buffer).message
    assert message[body_of(message)] == long
    assert (encoded.read(9, ended).result, encoded.read(3, closed).result) == (0, 0)
    assert refused["status"] == PROCEDURE_OUT_OF_RANGE
    assert said["transfer"] == (NDR64 if encoded.ndr64 else NDR)
    assert list(house.qm.queue(f".\\private$\\{queue}").browse()) == []
    if not encoded.ndr64:
        listed = dict(said["listed"])
        assert listed == {
            name_of(stubs.REMOTE_READ): [house.rpc_port],
            name_of(MANAGEMENT): [house.rpc_port],
            name_of(EPT): [house.epm_port],
        }


@pytest.mark.spec("RPC/22", "RPC/23")
@pytest.mark.parametrize(
    ("options", "status"),
    [
        ("connect,ntlm", ACCESS_DENIED),
        ("seal,ntlm", ACCESS_DENIED),
        ("seal,spnego", LOGON_FAILURE),
    ],
)
def test_a_wrong_password_is_refused(house: House, options: str, status: int) -> None:
    user = f"forgetful-{options.replace(',', '-')}"  # who fails too often has to wait
    add_user(house.qm, user)
    said = samba(house.rpc_port, options, [(0, "")], user, "something else")
    assert said == {"refused": status}
    assert samba(house.rpc_port, options, [(0, "")], user)["answers"] != []


@pytest.mark.spec("RPC/28")
def test_without_a_word_of_the_operator_only_privacy_will_do(strict_house: House) -> None:
    port = strict_house.rpc_port
    for options in ("", "connect,ntlm", "sign,ntlm", "sign,spnego"):
        (answer,) = samba(port, options, [(0, "")])["answers"]
        assert answer["status"] == ACCESS_DENIED
    for options in ("seal,ntlm", "seal,spnego"):
        (answer,) = samba(port, options, [(0, "")])["answers"]
        assert answer == port.to_bytes(4, "little").hex()
