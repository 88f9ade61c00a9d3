"""The PAC of a Kerberos ticket: user and groups in the domain ([MS-PAC] 2.5).

KERB_VALIDATION_INFO has the user's own SID and those of the groups. It is serialised as NDR with a
header of its own ([MS-RPCE] 2.2.6). Only what was verified gets here: the Kerberos library checks
the server's signature over the PAC with the key of the key table.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from posthouse.model.errors import MalformedPacket, Truncated
from posthouse.security.sids import is_sid, make_sid, sub_authorities_of

ATTRIBUTE: Final = b"urn:mspac:logon-info"
GROUPS_MAX: Final = 4_096  # Windows itself allows 1,015
_HEADER: Final = bytes.fromhex("01100800")
_HEADERS_SIZE: Final = 16
_ENABLED: Final = 0x04  # SE_GROUP_ENABLED
_STRINGS_BEFORE: Final = 6
_DOMAIN: Final = 21  # the first subauthority of SIDs that a domain gives


class DomainUser(NamedTuple):
    """A user of a domain, with groups; all SIDs are of domains."""

    name: str
    domain: str
    sid: bytes
    groups: tuple[bytes, ...]


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        if size > len(self._data) - self._at:
            raise Truncated("the logon information of a ticket")
        taken = self._data[self._at : self._at + size]
        self._at += size
        return taken

    def numbers(self, layout: str) -> tuple[int, ...]:
        fields = struct.Struct(f"<{layout}")
        return fields.unpack(self.take(fields.size))

    def number(self) -> int:
        return self.numbers("I")[0]

    def string(self, pointer: int) -> str:
        """The text that a pointer of an RPC_UNICODE_STRING leads to."""
        if not pointer:
            return ""
        _, offset, count = self.numbers("III")
        if offset:
            raise MalformedPacket("a text of a ticket that does not begin at its beginning")
        text = self.take(2 * count).decode("utf-16-le", "replace")
        self.take(-2 * count % 4)
        return text

    def sid(self) -> bytes:
        count = self.number()
        sid = self.take(8 + 4 * min(count, 16))
        if not is_sid(sid):
            raise MalformedPacket("an invalid SID in a ticket")
        return sid

    def count(self, wanted: int) -> int:
        """How many elements an array has, twice."""
        if self.number() != wanted or wanted > GROUPS_MAX:
            raise MalformedPacket(f"{wanted} groups in a ticket")
        return wanted

    def rids(self, pointer: int, wanted: int) -> list[int]:
        """GROUP_MEMBERSHIPs: the relative identifiers of groups that count."""
        if not pointer:
            return []
        pairs = [self.numbers("II") for _ in range(self.count(wanted))]
        return [rid for rid, attributes in pairs if attributes & _ENABLED]


def read_logon_info(data: bytes) -> DomainUser:
    """The user of KERB_VALIDATION_INFO; `RemoteProtocolError` where it breaks its document.

    SIDs that no domain gives are left out: those of BUILTIN mean groups of another machine.
    """
    if data[:4] != _HEADER:
        raise MalformedPacket("logon information of another form")
    reader = _Reader(data[_HEADERS_SIZE:])
    if not reader.number():
        raise MalformedPacket("no logon information")
    reader.take(6 * 8)  # times
    strings = [reader.numbers("HHI")[2] for _ in range(_STRINGS_BEFORE)]
    _, _, user, primary, group_count, groups_at = reader.numbers("HHIIII")
    reader.take(4 + 16)  # flags and a session key
    server_at, domain_at = (reader.numbers("HHI")[2] for _ in range(2))
    domain_sid_at = reader.number()
    reader.take(8 + 4 + 4 + 8 + 8 + 4 + 4)
    extra_count, extra_at, resource_sid_at, resource_count, resources_at = reader.numbers("IIIII")
    texts = [reader.string(at) for at in strings]
    rids = reader.rids(groups_at, group_count)
    reader.string(server_at)
    domain = reader.string(domain_at)
    if not domain_sid_at:
        raise MalformedPacket("a user without a domain")
    own = reader.sid()
    found = [_member(own, rid) for rid in (primary, *rids)]
    found += _extra(reader, extra_at, extra_count)
    if resource_sid_at:
        resource = reader.sid()
        found += [_member(resource, rid) for rid in reader.rids(resources_at, resource_count)]
    groups = tuple(dict.fromkeys(filter(is_of_domain, found)))
    return DomainUser(texts[0], domain, _member(own, user), groups)


def _extra(reader: _Reader, pointer: int, wanted: int) -> list[bytes]:
    if not pointer:
        return []
    heads = [reader.numbers("II") for _ in range(reader.count(wanted))]
    found = [(reader.sid(), attributes) for at, attributes in heads if at]
    return [sid for sid, attributes in found if attributes & _ENABLED]


def _member(domain: bytes, rid: int) -> bytes:
    parts = sub_authorities_of(domain)
    if len(parts) >= 15:
        raise MalformedPacket("an SID of a domain that is too long")
    return make_sid(int.from_bytes(domain[2:8], "big"), *parts, rid)


def is_of_domain(sid: bytes) -> bool:
    """Whether a domain gives such an SID; others are of one machine."""
    return int.from_bytes(sid[2:8], "big") == 5 and sub_authorities_of(sid)[:1] == (_DOMAIN,)
