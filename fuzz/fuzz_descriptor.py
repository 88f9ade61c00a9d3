"""Fuzz target: any bytes are a security descriptor, kept without loss, or refused."""

from posthouse.model.errors import IllegalSecurityDescriptor
from posthouse.security.access import Caller, complete_descriptor, effective_mask
from posthouse.security.acls import ALLOWED, AUDIT, DENIED, DENIED_OBJECT, Ace, Acl
from posthouse.security.descriptors import SecurityDescriptor, entries, unpack_descriptor
from posthouse.security.rights import QUEUE_GENERIC_ALL, RECEIVE_MESSAGE, WRITE_MESSAGE
from posthouse.security.sids import ADMINISTRATORS, ANONYMOUS, EVERYONE, OWNER_RIGHTS, make_sid

USER = make_sid(5, 21, 1, 2, 3, 1000)
CALLERS = (
    Caller.anonymous(),
    Caller.user(USER, "user"),
    Caller.unverified(USER),
    Caller.administrator(),
)
FULL = SecurityDescriptor(USER, ADMINISTRATORS).with_dacl(
    Acl(
        (
            Ace.of(DENIED, ANONYMOUS, RECEIVE_MESSAGE),
            Ace(DENIED_OBJECT, 0x10, bytes(4) + b"\1\0\0\0" + bytes(16) + EVERYONE),
            Ace.of(ALLOWED, OWNER_RIGHTS, QUEUE_GENERIC_ALL),
            Ace.of(ALLOWED, EVERYONE, WRITE_MESSAGE),
            Ace(0x63, 0, b"unknown"),
        )
    )
)
SEEDS = [
    SecurityDescriptor(USER).pack(),
    SecurityDescriptor(USER).with_dacl(None).pack(),
    FULL.pack(),
    FULL.with_sacl(Acl((Ace.of(AUDIT, EVERYONE, WRITE_MESSAGE),))).pack(),
    complete_descriptor(None, USER),
]


def fuzz_one(data: bytes) -> bool:
    """Reads a descriptor, asks it and edits it."""
    try:
        descriptor = unpack_descriptor(data)
    except IllegalSecurityDescriptor:
        return False
    assert descriptor.pack() == data
    entries(descriptor)
    for caller in CALLERS:
        assert effective_mask(descriptor, caller) >= 0
    denied = descriptor.deny(USER, WRITE_MESSAGE)
    assert not effective_mask(denied, CALLERS[1]) & WRITE_MESSAGE
    for edited in (denied, descriptor.grant(USER, RECEIVE_MESSAGE), descriptor.revoke(USER)):
        packed = edited.pack()
        assert unpack_descriptor(packed).pack() == packed
    return True
