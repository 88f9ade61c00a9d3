"""Logon information of tickets: a real one, made ones, and any bytes."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import RemoteProtocolError
from posthouse.rpc.pac import DomainUser, read_logon_info
from posthouse.security.sids import format_sid, make_sid

# Of samba's domain controller: alice of POSTHOUSE, in the groups clerks (1103) and Domain Users.
SAMBA = bytes.fromhex(
    "01100800ccccccccb001000000000000000002000000000000000000ffffffffffffff7fffffffffffffff7f5e9971cc"
    "f176dd015e59dbf6ba77dd015e19cbc1f297dd010a000a00040002000000000008000200000000000c00020000000000"
    "1000020000000000140002000000000018000200000000004e04000001020000020000001c0002002000000000000000"
    "000000000000000000000000060008002000020012001400240002002800020000000000000000001000000000000000"
    "000000000000000000000000000000000000000000000000010000002c00020000000000000000000000000005000000"
    "000000000500000061006c00690063006500000000000000000000000000000000000000000000000000000000000000"
    "000000000000000000000000000000000000000000000000000000000000000002000000010200000700000"
    "04f0400000700000004000000000000000300000044004300310000000a000000000000000900000050004f0053005400"
    "48004f005500530045000000040000000104000000000005150000004c6d210f91663de0e11e2bbe0100000030000200"
    "0700000001000000010100000000001201000000"
)
DOMAIN = make_sid(5, 21, 1, 2, 3)
ENABLED, MANDATORY = 4, 3


def text(value: str) -> bytes:
    raw = value.encode("utf-16-le")
    return struct.pack("<III", len(value), 0, len(value)) + raw + bytes(-len(raw) % 4)


def sid_of(sid: bytes) -> bytes:
    return struct.pack("<I", sid[1]) + sid


def logon_info(
    groups: list[tuple[int, int]],
    extra: list[tuple[bytes, int]],
    resources: list[tuple[int, int]],
    *,
    user: int = 1000,
    primary: int = 513,
    resource_domain: bytes = DOMAIN,
) -> bytes:
    """KERB_VALIDATION_INFO as the document has it."""
    body = struct.pack("<I", 1) + bytes(48)
    body += struct.pack("<HHI", 6, 6, 2) + struct.pack("<HHI", 0, 0, 0) * 5
    body += struct.pack("<HHIIII", 1, 0, user, primary, len(groups), 3 if groups else 0)
    body += bytes(20) + struct.pack("<HHI", 2, 2, 4) + struct.pack("<HHI", 2, 2, 5)
    body += struct.pack("<I", 6) + bytes(8 + 4 + 4 + 16 + 8)
    body += struct.pack("<II", len(extra), 7 if extra else 0)
    body += struct.pack("<III", 8 if resources else 0, len(resources), 9 if resources else 0)
    body += text("bob")
    if groups:
        body += struct.pack("<I", len(groups)) + b"".join(struct.pack("<II", *g) for g in groups)
    body += text("S") + text("D") + sid_of(DOMAIN)
    if extra:
        body += struct.pack("<I", len(extra))
        body += b"".join(struct.pack("<II", 10, attributes) for _, attributes in extra)
        body += b"".join(sid_of(sid) for sid, _ in extra)
    if resources:
        body += sid_of(resource_domain) + struct.pack("<I", len(resources))
        body += b"".join(struct.pack("<II", *one) for one in resources)
    return struct.pack("<4sIII", bytes.fromhex("01100800"), 0xCCCCCCCC, len(body), 0) + body


def rids(found: DomainUser) -> list[str]:
    return [format_sid(sid) for sid in found.groups]


def test_a_ticket_of_a_real_domain_controller() -> None:
    found = read_logon_info(SAMBA)
    assert (found.name, found.domain) == ("alice", "POSTHOUSE")
    domain = "S-1-5-21-253848908-3762120337-3190496993"
    assert format_sid(found.sid) == f"{domain}-1102"
    assert rids(found) == [f"{domain}-513", f"{domain}-1103"]  # and not S-1-18-1


def test_groups_of_all_three_lists_count() -> None:
    other = make_sid(5, 21, 9, 9, 9, 77)
    found = read_logon_info(
        logon_info([(1103, ENABLED)], [(other, ENABLED)], [(500, ENABLED | MANDATORY)])
    )
    assert found.sid == make_sid(5, 21, 1, 2, 3, 1000)
    assert rids(found) == [
        "S-1-5-21-1-2-3-513",
        "S-1-5-21-1-2-3-1103",
        "S-1-5-21-9-9-9-77",
        "S-1-5-21-1-2-3-500",
    ]


def test_groups_that_are_not_enabled_do_not_count() -> None:
    found = read_logon_info(
        logon_info([(1103, 0x10)], [(make_sid(5, 21, 9, 9, 9, 7), 0)], [(500, MANDATORY)])
    )
    assert rids(found) == ["S-1-5-21-1-2-3-513"]


def test_groups_of_a_machine_are_left_out() -> None:
    """An administrator of some other machine is not one here."""
    builtin = make_sid(5, 32, 544)
    found = read_logon_info(logon_info([], [(builtin, 7), (make_sid(1, 0), 7)], []))
    assert rids(found) == ["S-1-5-21-1-2-3-513"]
    resources = logon_info([], [], [(544, 7)], resource_domain=make_sid(5, 32))
    assert rids(read_logon_info(resources)) == ["S-1-5-21-1-2-3-513"]


@pytest.mark.parametrize("size", range(0, len(SAMBA), 7))
def test_what_is_cut_is_refused(size: int) -> None:
    with pytest.raises(RemoteProtocolError):
        read_logon_info(SAMBA[:size])


@given(st.binary(max_size=400), st.integers(0, len(SAMBA)))
def test_any_bytes_are_a_user_or_refused(data: bytes, at: int) -> None:
    for mixed in (data, SAMBA[:at] + data, SAMBA[:at] + data + SAMBA[at + len(data) :]):
        with suppress(RemoteProtocolError):
            read_logon_info(mixed)
