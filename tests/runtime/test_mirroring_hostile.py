"""A shared directory that lies, and changes of several callers that cross each other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from posthouse.directory import objects
from posthouse.directory.authority import Changes
from posthouse.directory.base import equals
from posthouse.directory.certificates import with_certificate, without_certificate
from posthouse.directory.mirror import Action, Order
from posthouse.engine.directory.authority_calls import AuthorityNeeded
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import Queue
from posthouse.model.errors import NoDs, UnsupportedFormatNameOperation
from posthouse.model.guids import NULL_GUID
from posthouse.model.message_classes import NORMAL
from posthouse.model.message_values import AES_PROVIDER
from posthouse.model.names import PublicName, parse_format_name
from posthouse.model.properties import QueueProperties
from posthouse.runtime.driver import made_again
from posthouse.security.keys import (
    certificate_digest,
    pack_provider_keys,
    unpack_user_certificates,
)
from posthouse.security.sids import make_sid
from tests.engine.cost import steps
from tests.engine.rig import SEND
from tests.runtime.sharing import SharingRig, file_of
from tests.security.key_ring import certificate, provider_key

SITE = objects.Site(identifier=b"s" * 16, name="North")


@pytest.fixture
def rig(tmp_path: Path) -> SharingRig:
    made = SharingRig(file_of(tmp_path / "directory.toml"))
    assert made.refresh()
    return made


def orders(rig: SharingRig, **attributes: Any) -> objects.Queue:
    owner = rig.manager.machine.identifier
    return objects.Queue(
        **{"identifier": b"q" * 16, "queue_manager_identifier": owner, **attributes},
        pathname="ALPHA\\orders",
    )


def queue(rig: SharingRig, name: str = "ALPHA\\orders") -> Queue:
    found = rig.manager.queues.find_local(parse_format_name(f"DIRECT=OS:{name}"))
    assert found is not None
    return found


def entered(rig: SharingRig) -> objects.Queue:
    """What the file has of the queue."""
    (found,) = [one for one in rig.authority.changes("").objects if isinstance(one, objects.Queue)]
    return found


def take(rig: SharingRig, changes: Changes) -> None:
    rig.run(lambda m: m.directory.take(changes))


def test_two_of_one_name_mean_the_same_one_after_a_restart(rig: SharingRig) -> None:
    """The directory may be away for long then."""
    first, second = (objects.Site(identifier=letter * 16, name="Paris") for letter in (b"b", b"a"))
    own = rig.authority.changes("").objects

    def meant() -> bytes:
        found = rig.manager.directory.queues.directory.known(objects.Site, equals("name", "paris"))
        assert found is not None
        return found.identifier

    take(rig, Changes([first], [], False, "2"))
    take(rig, Changes([second], [], False, "3"))
    assert meant() == second.identifier
    rig.restart()
    assert meant() == second.identifier
    take(rig, Changes([*own, first], [], True, "4"))
    assert meant() == first.identifier


def test_two_of_one_name_cost_nothing_while_nothing_changes(rig: SharingRig) -> None:
    doubles = [objects.Site(identifier=letter * 16, name="Paris") for letter in (b"a", b"b")]
    take(rig, Changes(doubles, [], False, "2"))
    before = steps(lambda: take(rig, Changes([], [], False, "3")))
    more = [objects.Site(identifier=b"%16d" % number, name=f"S{number}") for number in range(500)]
    take(rig, Changes(more, [], False, "4"))
    assert steps(lambda: take(rig, Changes([], [], False, "5"))) < before + 100


def test_what_is_told_as_gone_twice_goes_once(rig: SharingRig) -> None:
    take(rig, Changes([SITE], [], False, "2"))
    take(rig, Changes([], [(objects.Site, SITE.identifier)] * 2, False, "3"))
    assert not rig.manager.directory.queues.directory.all_known(objects.Site)


def test_a_queue_without_identifier_changes_no_queue_that_has_none(rig: SharingRig) -> None:
    rig.run(lambda m: m.queues.create_queue("ALPHA\\private$\\p", QueueProperties(), rig.admin))
    before = {one.name: one.definition.quota_kib for one in rig.manager.queues.all()}
    take(rig, Changes([orders(rig, identifier=NULL_GUID, quota=0)], [], False, "2"))
    after = {one.name: one.definition.quota_kib for one in rig.manager.queues.all()}
    assert after == before
    (fault,) = rig.manager.directory.state().faults
    assert "zero" in fault


def test_entries_that_the_authority_could_not_read_are_told_of(rig: SharingRig) -> None:
    own = tuple(rig.authority.changes("").objects)
    state = rig.manager.directory.state
    take(rig, Changes([*own], [], True, "2", faults=("CN=x: no number", "CN=y: no time")))
    assert state().faults == ("CN=x: no number", "CN=y: no time")
    take(rig, Changes([], [], False, "3", faults=("CN=z: no text",)))
    assert state().faults == ("CN=z: no text", "CN=x: no number", "CN=y: no time")
    for number in range(200):  # there is an end to what is kept of them
        take(rig, Changes([], [], False, "4", faults=(f"CN={number}: no text",)))
    assert len(rig.manager.directory.mirroring._faults) == 100
    take(rig, Changes([*own], [], True, "5"))
    assert state().faults == ()


def test_what_is_there_but_cannot_be_understood_stays_as_it_was(rig: SharingRig) -> None:
    rig.run(lambda m: m.queues.create_queue("ALPHA\\orders", QueueProperties(), rig.admin))
    key = (objects.Queue, queue(rig).definition.identifier)
    own = rig.authority.changes("").objects[:1]
    assert isinstance(own[0], objects.QueueManager)
    take(rig, Changes(own, [], True, "2", frozenset({key})))
    assert not queue(rig).deleted
    take(rig, Changes(own, [], True, "3"))
    assert rig.manager.queues.find_local(parse_format_name("DIRECT=OS:ALPHA\\orders")) is None


Made = Callable[[QueueManager], object]


def crossed(rig: SharingRig, *calls: Made) -> None:
    """Calls that are all decided before the authority answers the first of them."""
    driver, asking = rig.driver, rig.driver.on_need
    needs: list[tuple[AuthorityNeeded, Made, Any]] = []
    errors: list[object] = []
    driver.on_need = lambda need, call, release: needs.append((need, call, release))
    driver.begin_turn()
    for call in calls:
        driver.decide(call, lambda answer: errors.append(answer.error))
    driver.end_turn()
    driver.on_need = asking
    answers = [rig.feed.ask_now(need.orders) for need, _, _ in needs]
    for (need, call, release), answer in zip(needs, answers, strict=True):
        driver.begin_turn()
        driver.decide(made_again(need, answer, call), release)
        driver.end_turn()
    driver.sync()
    driver.release()
    assert errors == [None] * len(calls)


def test_a_queue_that_we_have_not_heard_of_may_be_there_all_the_same(rig: SharingRig) -> None:
    """While the directory is away its senders hear that; a connector decides for itself."""
    name = PublicName(b"n" * 16)
    with pytest.raises(UnsupportedFormatNameOperation, match="has no queue"):
        rig.open(str(name), SEND)
    assert rig.manager.directory.connectors.refusal(name, transactional=False) == NORMAL
    rig.authority.path.unlink()
    assert not rig.refresh()
    with pytest.raises(NoDs, match="does not exist"):
        rig.open(str(name), SEND)


def test_two_changes_of_a_queue_at_once_are_both_made(rig: SharingRig) -> None:
    rig.run(lambda m: m.queues.create_queue("ALPHA\\orders", QueueProperties(), rig.admin))
    found = queue(rig)
    crossed(
        rig,
        lambda m: m.queues.collection.set_properties(found, label="Orders"),
        lambda m: m.queues.collection.set_properties(found, quota_kib=5),
    )
    assert (found.definition.label, found.definition.quota_kib) == ("Orders", 5)
    assert (entered(rig).label, entered(rig).quota) == ("Orders", 5)


def test_a_change_by_an_operator_keeps_what_others_changed_since(rig: SharingRig) -> None:
    """The mirror is as old as the last look: what it says of the rest is not written back."""
    other = objects.QueueManager(identifier=b"b" * 16, computer_name="BETA")
    rig.change(Order(Action.CREATE, other, 1))
    rig.refresh()
    moved = msgspec.structs.replace(other, addresses=("beta:9",))
    rig.change(Order(Action.WRITE, moved, 2, frozenset({"addresses"})))
    known = msgspec.structs.replace(other, site_identifier_list=(SITE.identifier,))
    rig.run(lambda m: m.directory.changes.enter(known, other, dry_run=False))
    (now,) = [one for one in rig.authority.changes("").objects if one.identifier == b"b" * 16]
    assert isinstance(now, objects.QueueManager)
    assert now.addresses == ("beta:9",)
    assert now.site_identifier_list == (SITE.identifier,)


def certified(rig: SharingRig, sid: bytes) -> tuple[bytes, ...]:
    """The digests that the file has for a user."""
    (found,) = [one for one in rig.authority.changes("").objects if isinstance(one, objects.User)]
    assert found.security_identifier == sid
    entries = unpack_user_certificates(found.certificates)
    assert tuple(one.digest for one in entries) == found.certificate_digest_list
    return found.certificate_digest_list


def test_a_certificate_that_others_withdrew_does_not_come_back_with_the_next(
    rig: SharingRig,
) -> None:
    """The mirror is as old as the last look; what it says of certificates may be no more true."""
    bob = make_sid(5, 21, 7)
    ours, theirs = (certificate(name) for name in ("bob", "carol"))

    def register(*certificates: bytes, withdrawn: tuple[bytes, ...] = ()) -> None:
        rig.run(lambda m: m.directory.register(bob, "Bob", certificates, withdrawn, dry_run=False))

    register(ours)
    (known,) = rig.manager.directory.queues.directory.all_known(objects.User)
    bare = without_certificate(known, certificate_digest(ours))
    rig.change(Order(Action.WRITE, bare, 2, frozenset({"certificates", "certificate_digest_list"})))
    register(theirs)
    assert certified(rig, bob) == (certificate_digest(theirs),)
    (known,) = rig.manager.directory.queues.directory.all_known(objects.User)
    assert known.certificate_digest_list == (certificate_digest(theirs),)

    bare = without_certificate(known, certificate_digest(theirs))
    rig.change(Order(Action.WRITE, bare, 3, frozenset({"certificates", "certificate_digest_list"})))
    register(theirs)  # by an operator who means it, though it seems to be there
    assert certified(rig, bob) == (certificate_digest(theirs),)

    both = with_certificate(known, ours, certificate_digest(ours))
    rig.change(Order(Action.WRITE, both, 4, frozenset({"certificates", "certificate_digest_list"})))
    register(withdrawn=(certificate_digest(theirs),))
    assert certified(rig, bob) == (certificate_digest(ours),)


def test_what_only_we_know_of_ourselves_is_entered_again(tmp_path: Path) -> None:
    rig = SharingRig(file_of(tmp_path / "directory.toml"), directory_addresses=("alpha:7",))
    assert rig.refresh()
    known = rig.manager.directory.queues.directory.known(
        objects.QueueManager, equals("identifier", rig.manager.machine.identifier)
    )
    assert known is not None
    wrong = msgspec.structs.replace(known, addresses=("elsewhere:1",))
    rig.change(Order(Action.WRITE, wrong, 2, frozenset({"addresses"})))
    assert rig.refresh()
    (now,) = rig.authority.changes("").objects
    assert isinstance(now, objects.QueueManager)
    assert now.addresses == ("alpha:7",)


def test_our_own_entry_may_be_damaged(rig: SharingRig) -> None:
    own = (objects.QueueManager, rig.manager.machine.identifier)
    take(rig, Changes([SITE], [], True, "2", frozenset({own})))
    assert rig.manager.directory.state().online
    take(rig, Changes([SITE], [], True, "3"))
    assert not rig.manager.directory.state().online


def test_a_transactional_queue_gets_no_multicast_address(rig: SharingRig) -> None:
    take(rig, Changes([orders(rig, transactional=True)], [], False, "2"))
    lie = orders(rig, multicast_address="234.1.1.1:8001", label="now")
    take(rig, Changes([lie], [], False, "3"))
    assert queue(rig).definition.label == "now"
    assert not queue(rig).definition.multicast_address


def test_signatures_are_known_while_the_directory_is_away(rig: SharingRig) -> None:
    """A signed message that nobody can check is refused, and lost to whoever sent it."""
    bob = make_sid(5, 21, 7)
    entry = with_certificate(
        objects.User(identifier=b"u" * 16, security_identifier=bob), certificate("bob"), b"d" * 16
    )
    keys = pack_provider_keys([provider_key(AES_PROVIDER, "beta")])
    beta = objects.QueueManager(
        identifier=b"b" * 16, computer_name="BETA", public_encryption_key_list=keys
    )
    rig.change(Order(Action.CREATE, entry, 1), Order(Action.CREATE, beta, 1))
    assert rig.refresh()
    rig.authority.path.unlink()
    assert not rig.refresh()
    certificates = rig.manager.certificates
    (found,) = certificates.certificates_of(bob)
    assert found.certificate == certificate("bob")
    assert certificates.is_registered(certificate("bob"))
    assert certificates.public_keys(b"b" * 16) == (provider_key(AES_PROVIDER, "beta"),)


def test_who_may_be_answered_and_who_may_send_is_known_while_the_directory_is_away(
    rig: SharingRig,
) -> None:
    beta = objects.QueueManager(identifier=b"b" * 16, computer_name="BETA")
    guarded = objects.Queue(
        identifier=b"f" * 16,
        pathname="BETA\\guarded",
        queue_manager_identifier=beta.identifier,
        authentication=True,
    )
    rig.change(Order(Action.CREATE, beta, 1), Order(Action.CREATE, guarded, 1))
    assert rig.refresh()
    rig.authority.path.unlink()
    assert not rig.refresh()
    targets = rig.manager.transfer.receiving.targets
    assert targets.knows_machine(beta.identifier)
    assert not targets.knows_machine(b"?" * 16)
    found = targets.find_queue(guarded.identifier)
    assert found is not None
    assert found.authentication
