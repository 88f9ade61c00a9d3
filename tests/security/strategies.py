"""Strategies for SIDs, access lists and descriptors, odd but valid ones included."""

import struct

from hypothesis import strategies as st

from posthouse.security.acls import Ace, Acl
from posthouse.security.sids import (
    ADMINISTRATORS,
    ANONYMOUS,
    AUTHENTICATED_USERS,
    EVERYONE,
    make_sid,
)

u8 = st.integers(0, 0xFF)
u16 = st.integers(0, 0xFFFF)
u32 = st.integers(0, 0xFFFFFFFF)

sids = st.one_of(
    st.sampled_from([EVERYONE, ANONYMOUS, AUTHENTICATED_USERS, ADMINISTRATORS]),
    st.builds(
        lambda authority, subs: make_sid(authority, *subs),
        st.integers(0, (1 << 48) - 1),
        st.lists(u32, max_size=15),
    ),
)

PLAIN_KINDS = [0, 1, 2, 9, 10, 13]
OBJECT_KINDS = [5, 6, 7, 11, 12, 15]
UNKNOWN_KINDS = [3, 4, 8, 14, 16, 17, 18, 200, 255]


def _object_body(mask: int, present: int, guids: bytes, sid: bytes, tail: bytes) -> bytes:
    size = 16 * ((present & 1) + (present >> 1 & 1))
    return struct.pack("<II", mask, present) + guids[:size] + sid + tail


tails = st.binary(max_size=9)
plain_aces = st.builds(
    lambda kind, flags, mask, sid, tail: Ace(kind, flags, struct.pack("<I", mask) + sid + tail),
    st.sampled_from(PLAIN_KINDS),
    u8,
    u32,
    sids,
    tails,
)
object_aces = st.builds(
    lambda kind, flags, body: Ace(kind, flags, body),
    st.sampled_from(OBJECT_KINDS),
    u8,
    st.builds(_object_body, u32, u32, st.binary(min_size=32, max_size=32), sids, tails),
)
unknown_aces = st.builds(Ace, st.sampled_from(UNKNOWN_KINDS), u8, st.binary(max_size=20))
aces = st.one_of(plain_aces, object_aces, unknown_aces)
acls = st.builds(
    Acl,
    st.lists(aces, max_size=6).map(tuple),
    st.sampled_from([2, 3, 4]),
    u8,
    u16,
    st.binary(max_size=7),
)


@st.composite
def raw_descriptors(draw: st.DrawFn) -> bytes:
    """A self-relative descriptor with its parts in any order and any bytes between them."""
    parts = {
        "owner": draw(st.one_of(st.none(), sids)),
        "group": draw(st.one_of(st.none(), sids)),
        "sacl": draw(st.one_of(st.none(), acls.map(Acl.pack))),
        "dacl": draw(st.one_of(st.none(), acls.map(Acl.pack))),
    }
    offsets = dict.fromkeys(parts, 0)
    body = bytearray(20)
    for slot in draw(st.permutations(list(parts))):
        part = parts[slot]
        if part is not None:
            body += draw(st.binary(max_size=5))
            offsets[slot] = len(body)
            body += part
    if parts["owner"] is not None and parts["group"] is not None and draw(st.booleans()):
        offsets["group"] = offsets["owner"]
    body += draw(st.binary(max_size=5))
    control = draw(u16) | 0x8000
    control = control | 0x10 if offsets["sacl"] else control
    control = control | 0x04 if offsets["dacl"] else control
    struct.pack_into("<BBHIIII", body, 0, 1, draw(u8), control, *offsets.values())
    return bytes(body)
