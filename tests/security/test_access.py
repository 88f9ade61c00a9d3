"""The one access check and the descriptors that new queues start with."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import (
    AccessDenied,
    IllegalSecurityDescriptor,
    IllegalUser,
    InvalidOwner,
)
from posthouse.security.access import (
    DEFAULT_ACCESS,
    Caller,
    Guard,
    check_owner,
    complete_descriptor,
    default_access,
    default_queue_descriptor,
    effective_mask,
    granted,
    system_queue_descriptor,
)
from posthouse.security.acls import ALLOWED, DENIED, INHERIT_ONLY, Ace, Acl
from posthouse.security.descriptors import SecurityDescriptor, unpack_descriptor
from posthouse.security.rights import (
    ACCESS_SYSTEM_SECURITY,
    DELETE_MESSAGE,
    GENERIC_ALL,
    GENERIC_READ,
    GENERIC_WRITE,
    GET_QUEUE_PERMISSIONS,
    GET_QUEUE_PROPERTIES,
    MACHINE,
    MAXIMUM_ALLOWED,
    PEEK_MESSAGE,
    QUEUE,
    QUEUE_GENERIC_ALL,
    READ_CONTROL,
    RECEIVE_MESSAGE,
    SET_QUEUE_PROPERTIES,
    WRITE_DACL,
    WRITE_MESSAGE,
)
from posthouse.security.sids import (
    ADMINISTRATORS,
    ANONYMOUS,
    AUTHENTICATED_USERS,
    EVERYONE,
    OWNER_RIGHTS,
    local_sid,
    make_sid,
)

from .strategies import aces, raw_descriptors, sids

GUID = bytes(range(16))
ALICE = local_sid(GUID, 1000)
BOB = local_sid(GUID, 1001)
SALES = make_sid(5, 21, 9, 9, 9, 77)
GUEST = local_sid(GUID, 501)

alice = Caller.user(ALICE, "alice")
bob = Caller.user(BOB, "bob", [SALES])
stranger = Caller.anonymous()
claimed_alice = Caller.unverified(ALICE)
root = Caller.administrator()
EVERY_CALLER = [alice, bob, stranger, claimed_alice, root]


def descriptor(*entries: Ace, owner: bytes = ALICE) -> SecurityDescriptor:
    return SecurityDescriptor(owner).with_dacl(Acl(entries))


def allow(sid: bytes, mask: int) -> Ace:
    return Ace.of(ALLOWED, sid, mask)


def deny(sid: bytes, mask: int) -> Ace:
    return Ace.of(DENIED, sid, mask)


def default_of(owner: bytes) -> SecurityDescriptor:
    return unpack_descriptor(default_queue_descriptor(owner))


def test_the_first_entry_that_names_a_right_decides_it() -> None:
    assert not granted(descriptor(deny(BOB, 4), allow(EVERYONE, 4)), bob, 4)
    assert granted(descriptor(allow(EVERYONE, 4), deny(BOB, 4)), bob, 4)


def test_a_denial_of_other_rights_does_not_matter() -> None:
    assert granted(descriptor(deny(BOB, 1), allow(BOB, 6)), bob, 6)


def test_rights_may_come_from_several_entries() -> None:
    assert granted(descriptor(allow(SALES, 2), allow(BOB, 1)), bob, RECEIVE_MESSAGE)
    assert not granted(descriptor(allow(SALES, 2)), bob, RECEIVE_MESSAGE)


def test_an_empty_list_gives_nobody_anything_and_the_null_list_everything() -> None:
    assert effective_mask(descriptor(), bob) == 0
    assert effective_mask(SecurityDescriptor(ALICE).with_dacl(None), stranger) == QUEUE_GENERIC_ALL
    assert effective_mask(SecurityDescriptor(ALICE), stranger) == QUEUE_GENERIC_ALL


def test_inherit_only_entries_are_skipped() -> None:
    entry = allow(BOB, 4)._replace(flags=INHERIT_ONLY)
    assert not granted(descriptor(entry), bob, 4)


def test_generic_rights_count_on_both_sides() -> None:
    assert granted(descriptor(allow(BOB, GENERIC_READ)), bob, RECEIVE_MESSAGE)
    assert granted(descriptor(allow(BOB, 0x20024)), bob, GENERIC_WRITE)
    assert not granted(descriptor(allow(BOB, GENERIC_READ)), bob, GENERIC_ALL)
    assert granted(descriptor(allow(BOB, 4)), bob, 4 | MAXIMUM_ALLOWED)


def test_generic_rights_follow_the_object_kind() -> None:
    machine = descriptor(allow(BOB, GENERIC_ALL))
    assert effective_mask(machine, bob, masks=MACHINE) == MACHINE.all


def test_the_owner_can_always_read_and_repair_the_list() -> None:
    mask = effective_mask(descriptor(deny(EVERYONE, QUEUE_GENERIC_ALL)), alice)
    assert mask == READ_CONTROL | WRITE_DACL


def test_entries_for_owner_rights_replace_the_implicit_ones() -> None:
    limited = descriptor(allow(OWNER_RIGHTS, READ_CONTROL))
    assert effective_mask(limited, alice) == READ_CONTROL
    assert effective_mask(limited, bob) == 0
    below = allow(OWNER_RIGHTS, READ_CONTROL)._replace(flags=INHERIT_ONLY)
    assert effective_mask(descriptor(below), alice) == READ_CONTROL | WRITE_DACL


def test_a_claim_or_an_anonymous_owner_gives_no_owner_rights() -> None:
    assert effective_mask(descriptor(), claimed_alice) == 0
    assert effective_mask(descriptor(owner=ANONYMOUS), stranger) == 0
    assert effective_mask(descriptor(owner=EVERYONE), claimed_alice) == 0


def test_everyone_includes_anonymous_senders() -> None:
    queue = descriptor(allow(EVERYONE, WRITE_MESSAGE))
    assert all(granted(queue, caller, WRITE_MESSAGE) for caller in EVERY_CALLER)


def test_users_are_the_authenticated_accounts() -> None:
    queue = descriptor(allow(AUTHENTICATED_USERS, PEEK_MESSAGE))
    assert granted(queue, bob, PEEK_MESSAGE)
    assert not granted(queue, stranger, PEEK_MESSAGE)
    assert not granted(queue, claimed_alice, PEEK_MESSAGE)


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/45")
def test_an_unsigned_sid_counts_as_everyone_and_never_more() -> None:
    for sid in (ALICE, AUTHENTICATED_USERS, ADMINISTRATORS, ANONYMOUS):
        queue = descriptor(allow(sid, WRITE_MESSAGE))
        assert not granted(queue, Caller.unverified(sid), WRITE_MESSAGE)
    assert granted(descriptor(allow(EVERYONE, WRITE_MESSAGE)), claimed_alice, WRITE_MESSAGE)


@pytest.mark.parametrize("claim", [b"", b"junk", bytes(16), ALICE + b"\0", ALICE[:-1]])
def test_a_claim_that_is_no_sid_is_none(claim: bytes) -> None:
    caller = Caller.unverified(claim)
    assert (caller.sid, caller.groups) == (stranger.sid, stranger.groups)
    assert not caller.authenticated


def test_an_unsigned_sid_is_no_way_around_a_denial() -> None:
    for denied in (ANONYMOUS, ALICE):
        queue = descriptor(deny(denied, WRITE_MESSAGE), allow(EVERYONE, WRITE_MESSAGE))
        assert not granted(queue, claimed_alice, WRITE_MESSAGE)


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/44", "MS-MQDMPR 3.1.7.1.3.1/5")
def test_anonymous_senders_may_send_until_they_are_denied() -> None:
    queue = default_of(ALICE)
    assert granted(queue, stranger, WRITE_MESSAGE)
    queue = queue.deny(ANONYMOUS, WRITE_MESSAGE)
    assert not granted(queue, stranger, WRITE_MESSAGE)
    assert granted(queue, bob, WRITE_MESSAGE)


def test_a_queue_with_authentication_ignores_everyone() -> None:
    queue = descriptor(allow(EVERYONE, WRITE_MESSAGE), allow(BOB, WRITE_MESSAGE))
    assert not granted(queue, stranger, WRITE_MESSAGE, ignore_everyone=True)
    assert granted(queue, bob, WRITE_MESSAGE, ignore_everyone=True)
    null = SecurityDescriptor(ALICE).with_dacl(None)
    assert effective_mask(null, claimed_alice, ignore_everyone=True) == 0
    assert granted(null, bob, WRITE_MESSAGE, ignore_everyone=True)


def test_what_everyone_is_denied_counts_on_any_queue() -> None:
    queue = descriptor(deny(EVERYONE, WRITE_MESSAGE), allow(BOB, WRITE_MESSAGE))
    assert not granted(queue, bob, WRITE_MESSAGE, ignore_everyone=True)


def test_administrators_have_every_right() -> None:
    queue = descriptor(deny(EVERYONE, QUEUE_GENERIC_ALL))
    assert granted(queue, root, QUEUE_GENERIC_ALL | ACCESS_SYSTEM_SECURITY)
    member = Caller.user(BOB, "bob", [ADMINISTRATORS])
    assert member.is_administrator
    assert granted(queue, member, QUEUE_GENERIC_ALL)
    assert not granted(descriptor(allow(BOB, QUEUE_GENERIC_ALL)), bob, ACCESS_SYSTEM_SECURITY)


def test_a_token_narrows_every_caller_to_its_queues() -> None:
    queue = descriptor(allow(BOB, 6))
    narrow = bob.narrowed(((r"private$\orders*", WRITE_MESSAGE),))
    assert effective_mask(queue, narrow, path=r".\private$\Orders2") == WRITE_MESSAGE
    assert effective_mask(queue, narrow, path=r".\private$\invoices") == 0
    assert not granted(queue, root.narrowed(()), WRITE_MESSAGE, path=r".\private$\orders")
    assert effective_mask(queue, bob.narrowed(None), path=r".\private$\x") == 6
    both = bob.narrowed((("*", 2), (r"private$\o*", 4)))
    assert effective_mask(queue, both, path=r".\private$\orders") == 6


def test_no_token_widens_another() -> None:
    narrow = bob.narrowed(())
    with pytest.raises(AssertionError):
        narrow.narrowed(None)


def test_a_scope_of_queues_does_not_touch_other_objects() -> None:
    machine = descriptor(allow(BOB, GENERIC_READ))
    assert granted(machine, bob.narrowed(()), GENERIC_READ, masks=MACHINE)


@given(st.lists(aces, max_size=8), st.sampled_from(EVERY_CALLER), st.integers(0, QUEUE.all))
def test_the_mask_agrees_with_the_documented_walk(
    entries: list[Ace], caller: Caller, desired: int
) -> None:
    desired &= QUEUE.all
    queue = descriptor(*entries)
    assert granted(queue, caller, desired) == walk(queue, caller, desired)


def walk(queue: SecurityDescriptor, caller: Caller, desired: int) -> bool:
    """[MS-DTYP] 2.5.3.2 step by step, with what is still missing."""
    if caller.is_administrator:
        return True
    remaining = desired
    assert queue.dacl is not None
    owned = caller.authenticated and queue.owner in caller.groups
    present = [ace for ace in queue.dacl.aces if not ace.flags & INHERIT_ONLY]
    if owned and not any(ace.sid == OWNER_RIGHTS for ace in present):
        remaining &= ~(READ_CONTROL | WRITE_DACL)
    for ace in queue.dacl.aces:
        mask = QUEUE.mapped(ace.mask)
        if ace.denies and ace.sid in caller.groups | caller.deny_only and mask & remaining:
            return False
        if ace.allows and ace.sid in caller.groups:
            remaining &= ~mask
    return not remaining


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.3.1/1")
def test_by_default_the_owner_has_full_control_and_everyone_sends_only() -> None:
    queue = default_of(ALICE)
    assert effective_mask(queue, alice) == QUEUE_GENERIC_ALL
    assert effective_mask(queue, bob) == WRITE_MESSAGE
    assert effective_mask(queue, stranger) == WRITE_MESSAGE
    assert effective_mask(queue, claimed_alice) == WRITE_MESSAGE


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.3.1/2")
@pytest.mark.parametrize("owner", [ALICE, GUEST, ANONYMOUS, ADMINISTRATORS])
def test_full_control_for_everyone_is_never_the_default(owner: bytes) -> None:
    assert effective_mask(default_of(owner), bob) == WRITE_MESSAGE


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.3.1/6")
def test_a_machine_account_may_read_properties_and_permissions() -> None:
    machine = local_sid(GUID, 2000)
    raw = default_queue_descriptor(ALICE, (), machine)
    mask = effective_mask(unpack_descriptor(raw), Caller.user(machine, "HOST$"))
    assert mask == GET_QUEUE_PROPERTIES | GET_QUEUE_PERMISSIONS


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.3.1/3")
@given(raw_descriptors())
def test_a_supplied_descriptor_keeps_its_parts(raw: bytes) -> None:
    supplied = unpack_descriptor(raw)
    try:
        supplied.check_masks(QUEUE)
    except IllegalSecurityDescriptor:
        with pytest.raises(IllegalSecurityDescriptor):
            complete_descriptor(raw, ALICE)
        return
    final = unpack_descriptor(complete_descriptor(raw, ALICE))
    mapped = supplied.with_generic_mapped(QUEUE)
    assert final.owner == (supplied.owner or ALICE)
    assert final.sacl == mapped.sacl
    assert final.has_dacl
    if supplied.has_dacl:
        assert final.dacl == mapped.dacl
    else:
        assert final.dacl == default_of(final.owner).dacl


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.3.1/4")
def test_without_an_owner_the_caller_becomes_the_owner() -> None:
    supplied = SecurityDescriptor().with_dacl(Acl((allow(BOB, 4),))).pack()
    final = unpack_descriptor(complete_descriptor(supplied, GUEST))
    assert final.owner == GUEST
    assert unpack_descriptor(complete_descriptor(None, GUEST)).owner == GUEST


def test_the_owner_of_a_supplied_descriptor_gets_the_default_list() -> None:
    final = unpack_descriptor(complete_descriptor(SecurityDescriptor(BOB).pack(), ALICE))
    assert effective_mask(final, bob) == QUEUE_GENERIC_ALL
    assert effective_mask(final, alice) == WRITE_MESSAGE


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.3.1/7")
@given(sids)
def test_descriptors_of_new_queues_are_self_relative(owner: bytes) -> None:
    for raw in (default_queue_descriptor(owner), complete_descriptor(b"", owner)):
        assert unpack_descriptor(raw).pack() == raw
        assert unpack_descriptor(raw).owner == owner


def test_a_complete_supplied_descriptor_is_stored_byte_for_byte() -> None:
    raw = descriptor(Ace(0x11, 3, b"label"), allow(BOB, 4)).pack() + b"tail"
    assert complete_descriptor(raw, BOB) == raw


@pytest.mark.spec("MS-MQDMPR 3.1.3/17")
def test_system_queues_are_for_administrators_only() -> None:
    queue = unpack_descriptor(system_queue_descriptor())
    for caller in (alice, bob, stranger, claimed_alice, Caller.unverified(ADMINISTRATORS)):
        assert effective_mask(queue, caller) == 0
    assert granted(queue, root, QUEUE_GENERIC_ALL)


def test_the_default_access_is_a_setting() -> None:
    assert default_access({"everyone": "send"}) == DEFAULT_ACCESS
    closed = default_queue_descriptor(ALICE, default_access({"users": "send,peek"}))
    assert effective_mask(unpack_descriptor(closed), bob) == 6
    assert effective_mask(unpack_descriptor(closed), stranger) == 0


def test_the_default_access_names_no_single_users() -> None:
    with pytest.raises(IllegalUser):
        default_access({"bob": "send"})


def test_an_owner_must_be_oneself_or_a_group_of_ones_own() -> None:
    check_owner(BOB, bob)
    check_owner(SALES, bob)
    check_owner(ALICE, root)
    for owner, caller in [
        (ALICE, bob),
        (ALICE, claimed_alice),
        (ANONYMOUS, stranger),
        (EVERYONE, root),
        (b"\x01", root),
    ]:
        with pytest.raises(InvalidOwner):
            check_owner(owner, caller)


def test_a_guard_answers_for_one_queue() -> None:
    guard = Guard(default_queue_descriptor(ALICE), r".\private$\orders")
    assert guard.allows(bob, WRITE_MESSAGE)
    assert guard.allows(bob, WRITE_MESSAGE)
    guard.require(alice, RECEIVE_MESSAGE)
    with pytest.raises(AccessDenied, match=r"bob lacks the right receive on .*orders"):
        guard.require(bob, RECEIVE_MESSAGE | WRITE_MESSAGE)


@pytest.mark.parametrize(
    ("granted", "desired", "named"),
    [
        (PEEK_MESSAGE, RECEIVE_MESSAGE, "receive"),
        (DELETE_MESSAGE, RECEIVE_MESSAGE, "receive"),
        (0, RECEIVE_MESSAGE, "receive"),
        (PEEK_MESSAGE, DELETE_MESSAGE, "purge"),
        (PEEK_MESSAGE, WRITE_MESSAGE | PEEK_MESSAGE, "send"),
        (GET_QUEUE_PROPERTIES, GET_QUEUE_PROPERTIES | SET_QUEUE_PROPERTIES, "properties"),
        (PEEK_MESSAGE, QUEUE_GENERIC_ALL, "full"),
    ],
)
def test_a_denied_right_is_named_as_it_is_granted(granted: int, desired: int, named: str) -> None:
    """Who has peek and wants to receive lacks receive, not the half of it that is called purge."""
    guard = Guard(default_queue_descriptor(ALICE, ((BOB, granted),)), r".\private$\orders")
    with pytest.raises(AccessDenied, match=rf"bob lacks the right {named} on "):
        guard.require(bob, desired)


def test_a_guard_of_an_authenticated_queue_ignores_everyone() -> None:
    guard = Guard(default_queue_descriptor(ALICE), r".\private$\q", authentication=True)
    assert not guard.allows(stranger, WRITE_MESSAGE)
    assert guard.allows(alice, WRITE_MESSAGE)


def test_a_guard_forgets_callers_before_there_are_too_many() -> None:
    guard = Guard(default_queue_descriptor(ALICE), r".\private$\q")
    callers = [Caller.user(local_sid(GUID, 5000 + rid), "u") for rid in range(1100)]
    assert all(guard.mask(caller) == WRITE_MESSAGE for caller in callers)
    assert guard.mask(alice) & DELETE_MESSAGE
    assert 1 < len(guard._masks) <= Guard.CALLERS_MAX


def test_a_caller_shows_name_and_sid() -> None:
    assert repr(stranger) == "<Caller anonymous S-1-5-7>"


def test_a_caller_made_of_another_keeps_all_but_what_is_changed() -> None:
    """Also after the other was asked for the caller that hides content: that one is its own."""
    reader = bob.narrowed((("*", PEEK_MESSAGE),), GET_QUEUE_PROPERTIES, PEEK_MESSAGE)
    assert reader.hiding_content().limit == GET_QUEUE_PROPERTIES | PEEK_MESSAGE
    member = reader.with_groups([GUEST])
    assert member.hiding_content().groups == bob.groups | {GUEST}
    masked = member.seeing_masked(("orders",))
    assert (masked.masked, masked.hiding_content().masked) == (("orders",), ())
    assert (masked.sid, masked.origin, masked.scopes) == (BOB, bob.origin, reader.scopes)
    assert (masked.limit, masked.hidden) == (GET_QUEUE_PROPERTIES, PEEK_MESSAGE)
    assert (reader.masked, reader.groups, bob.scopes) == ((), bob.groups, None)
