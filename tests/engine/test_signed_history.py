"""Signed messages that are sent again by somebody else ([MS-MQMQ] 2.5 signs no identifier; F13)."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from posthouse.directory import objects
from posthouse.engine.transfer.protocol_interface import Peer, Verdict
from posthouse.engine.transfer.srmp.protocol_interface import SrmpArrival
from posthouse.model.message import MessageId
from posthouse.model.message_classes import NACK_BAD_SIGNATURE
from posthouse.model.message_values import HashAlgorithm
from posthouse.security.message_security import NO_CORRELATION, MessageSecurity, Signer
from posthouse.security.rights import WRITE_MESSAGE
from posthouse.security.settings import MessageSecuritySettings
from posthouse.security.sids import EVERYONE
from posthouse.security.xml_signatures import sign
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.patch import stamp
from posthouse.wire.srmp.envelope import read_envelope
from posthouse.wire.srmp.message import SrmpMessage
from posthouse.wire.srmp.mime_parts import read_parts, write_parts
from posthouse.wire.srmp.writer import write_envelope
from tests.engine.letters import FAR_GUID
from tests.engine.web import head_of
from tests.security.key_ring import MemoryRing, certificate, private_key
from tests.support.signing_rig import SigningRig
from tests.support.srmp_signing_rig import SIGNED
from tests.support.srmp_signing_rig import SigningRig as WebSigningRig

LATER = 2_000_000_000
CORRELATION = MessageId(b"c" * 16, 5)
EVE = Peer(b"E" * 16, "203.0.113.66")
HONEST = Peer(b"H" * 16, "203.0.113.5")
PAY = r"DIRECT=OS:ALPHA\private$\pay"
EXACT = r"DIRECT=OS:ALPHA\private$\exact"


class PayRig(SigningRig):
    """A rig with authenticated queues that maria may send to."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, transactional in (("pay", False), ("exact", True)):
            self.create(name, authentication=True, transactional=transactional)
            self.grant(name, self.maria, WRITE_MESSAGE)

    def configure(self, **security: Any) -> None:
        self.run(lambda m: m.certificates.configure(MessageSecuritySettings(**security)))

    def payment(self, body: bytes = b"PAY 100", **attributes: Any) -> bytes:
        attributes.setdefault("destination_queue_format_name", PAY)
        return self.far.sign(self.packet(body, **attributes), self.maria)

    def ordered(self, number: int, sequence: int = 1) -> bytes:
        packet = self.transactional(
            number, number - 1, (5, sequence), destination_queue_format_name=EXACT, body=b"PAY 100"
        )
        return self.far.sign(packet, self.maria)

    @property
    def refusals(self) -> Any:
        return self.manager.machine.refusals

    def replays(self) -> list[dict[str, object]]:
        return [dict(one.details) for one in self.events if one.name == "replay_refused"]


def renumbered(packet: bytes, ordinal: int) -> bytes:
    """The captured message under another number and with another time: neither is signed."""
    view = Packet(packet)
    return stamp(packet, source_guid=view.summary.source_guid, ordinal=ordinal, sent_time=LATER)


@pytest.fixture
def rig() -> PayRig:
    return PayRig()


def test_a_captured_message_under_another_number_is_refused_and_told(rig: PayRig) -> None:
    packet = rig.payment()
    assert rig.take(packet) == Verdict(1)
    assert rig.take(renumbered(packet, 4711), peer=EVE) == Verdict(1)
    assert rig.bodies("pay") == [b"PAY 100"]
    assert rig.refusals["replayed"] == 1
    (told,) = rig.replays()
    assert (told["address"], told["queue"]) == (EVE.address, rig.queue("pay").name)
    rig.check_books()


def test_the_history_of_signed_messages_is_not_pushed_out_by_express_ones(rig: PayRig) -> None:
    rig = PayRig(message_history_max=10)
    packet = rig.payment()
    rig.take(packet)
    rig.take(*(rig.packet(b"x", express=True) for _ in range(20)))
    assert rig.take(packet, peer=EVE) == Verdict(1)
    assert rig.take(renumbered(packet, 4711), peer=EVE) == Verdict(1)
    assert rig.bodies("pay") == [b"PAY 100"]


def test_it_is_durable_with_the_message(rig: PayRig) -> None:
    packet = rig.payment()
    rig.take(packet)
    rig.receive("pay")
    rig.restart()
    rig.take(renumbered(packet, 4711), peer=EVE)
    assert rig.bodies("pay") == []
    assert rig.refusals["replayed"] == 1


def test_two_messages_of_one_content_both_arrive(rig: PayRig) -> None:
    """What we sign has a correlation of its own where its program gives none."""
    rig.take(rig.payment(), rig.payment())
    assert rig.bodies("pay") == [b"PAY 100"] * 2
    packets = [rig.payment(), rig.payment(correlation_identifier=CORRELATION)]
    correlations = [Packet(packet).properties.correlation_id for packet in packets]  # type: ignore[union-attr]
    assert correlations[0] != NO_CORRELATION
    assert correlations[1].startswith(CORRELATION.guid)


def test_a_sender_repeats_its_content_from_its_address(rig: PayRig) -> None:
    """Windows signs nothing that differs between two equal messages."""
    twice = [rig.payment(correlation_identifier=CORRELATION) for _ in range(2)]
    rig.take(*twice)
    assert rig.bodies("pay") == [b"PAY 100"] * 2
    assert rig.take(twice[1]) == Verdict(1)  # resent
    rig.take(renumbered(twice[0], 4711), peer=EVE)
    assert rig.bodies("pay") == [b"PAY 100"] * 2
    assert rig.refusals["replayed"] == 1


def test_repeated_content_can_be_refused_from_every_address(rig: PayRig) -> None:
    rig.configure(signed_repeats="refuse")
    twice = [rig.payment(correlation_identifier=CORRELATION) for _ in range(2)]
    rig.take(*twice)
    assert rig.bodies("pay") == [b"PAY 100"]
    rig.configure(signed_history_s=0)
    rig.take(twice[1])
    assert rig.bodies("pay") == [b"PAY 100"]  # refused once, it stays so
    rig.take(rig.payment(correlation_identifier=CORRELATION))
    assert rig.bodies("pay") == [b"PAY 100"] * 2


def test_digests_are_kept_for_their_time_and_no_longer(rig: PayRig) -> None:
    rig.configure(signed_history_s=1000)
    packet = rig.payment()
    rig.take(packet)
    rig.clock.advance(999_000)
    rig.take(renumbered(packet, 4711), peer=EVE)
    assert len(rig.bodies("pay")) == 1
    rig.clock.advance(2_000)
    rig.take(renumbered(packet, 4712), peer=EVE)
    assert len(rig.bodies("pay")) == 2
    assert len(rig.manager.transfer.receiving.signed) == 1


def test_where_there_is_no_room_the_oldest_leave(rig: PayRig) -> None:
    rig.configure(signed_history_max=2)
    first, second, third = (rig.payment(b"%d" % at) for at in range(3))
    rig.take(first, second, third)
    assert len(rig.manager.transfer.receiving.signed) == 2
    for packet in (second, third):
        rig.take(renumbered(packet, 4711), peer=EVE)
    assert len(rig.bodies("pay")) == 3
    rig.take(renumbered(first, 4712), peer=EVE)
    assert len(rig.bodies("pay")) == 4
    rig.restart()
    assert len(rig.manager.transfer.receiving.signed) == 2


def test_a_copy_in_another_sequence_is_refused_and_one_of_its_sender_is_not_doubled(
    rig: PayRig,
) -> None:
    packet = rig.ordered(1)
    assert rig.take(packet).sequences
    later = rig.far.sign(
        rig.transactional(1, 0, (6, 1), destination_queue_format_name=EXACT, body=b"x"), rig.maria
    )
    forged = bytearray(renumbered(packet, 4711))
    at, theirs = Packet(packet).summary.transaction_at, Packet(later).summary.transaction_at
    forged[at : at + 20] = later[theirs : theirs + 20]
    rig.take(bytes(forged), peer=EVE)
    assert rig.bodies("exact") == [b"PAY 100"]
    moved = bytearray(packet)  # its sender has begun another sequence, with the same message
    moved[at : at + 20] = later[theirs : theirs + 20]
    assert rig.take(bytes(moved)).sequences  # acknowledged, so that it goes on
    assert rig.bodies("exact") == [b"PAY 100"]
    assert rig.refusals["duplicate"] == 1


OUTSIDE = Peer(FAR_GUID, "203.0.113.66", may_pass_on=lambda source: False)
ROUTER = Peer(b"R" * 16, "203.0.113.80")


@pytest.mark.parametrize("ordinal", [7, 4711], ids=["same number", "another number"])
def test_a_machine_of_the_directory_is_not_kept_out_by_who_was_faster(
    rig: PayRig, ordinal: int
) -> None:
    """Somebody sends what it has captured first, with a second to be received."""
    rig.enter_machine()
    packet = rig.payment(ordinal=7)
    now = rig.clock.utc_seconds
    short = bytearray(stamp(packet, source_guid=FAR_GUID, ordinal=ordinal, sent_time=now))
    short[48:52] = (1).to_bytes(4, "little")  # TimeToBeReceived
    rig.take(bytes(short), peer=OUTSIDE)
    rig.take(packet)
    assert len(rig.bodies("pay")) == 2
    rig.restart()
    rig.advance(2)
    assert rig.bodies("pay") == [b"PAY 100"]
    rig.take(renumbered(packet, 4712), peer=OUTSIDE)  # and afterwards it is a replay as ever
    assert len(rig.replays()) == 1


def test_a_machine_of_the_directory_repeats_its_content_over_any_router(rig: PayRig) -> None:
    rig.enter_machine()
    packet = rig.payment(ordinal=7)
    rig.take(packet)
    rig.take(packet, peer=ROUTER)  # resent
    rig.take(renumbered(packet, 8), peer=ROUTER)
    assert len(rig.bodies("pay")) == 2
    assert not rig.replays()


def test_what_version_0_1_remembered_is_still_a_copy(rig: PayRig) -> None:
    packet = rig.payment(ordinal=7)
    rig.take(packet)
    signed = rig.manager.transfer.receiving.signed
    signed._known = {key: value[:20] for key, value in signed._known.items()}
    rig.enter_machine()
    rig.take(renumbered(packet, 8), peer=ROUTER)
    assert rig.bodies("pay") == [b"PAY 100"]


def test_equal_messages_of_two_users_are_two(rig: PayRig) -> None:
    bob = rig.run(lambda m: m.accounts.add("bob")).sid
    rig.run(lambda m: m.certificates.register(bob, certificate("bob")))
    rig.grant("pay", bob, WRITE_MESSAGE)
    ring = MemoryRing()
    ring.users = {bob: ["bob"]}
    his = MessageSecurity(ring, Random(2).randbytes)
    options = {"correlation_identifier": CORRELATION, "destination_queue_format_name": PAY}
    rig.take(rig.payment(correlation_identifier=CORRELATION))
    rig.take(his.sign(rig.packet(b"PAY 100", **options), bob))
    assert rig.bodies("pay") == [b"PAY 100"] * 2


def test_other_queues_remember_nothing(rig: PayRig) -> None:
    packet = rig.far.sign(rig.packet(b"x"), rig.maria)
    rig.take(packet)
    rig.take(renumbered(packet, 4711))
    assert rig.bodies("orders") == [b"x"] * 2
    assert not len(rig.manager.transfer.receiving.signed)


def test_what_is_refused_for_another_reason_is_not_remembered(rig: PayRig) -> None:
    packet = rig.payment()
    rig.deny("pay", rig.maria, WRITE_MESSAGE)
    rig.take(packet)
    assert not len(rig.manager.transfer.receiving.signed)
    rig.manager.machine.refusals.clear()
    assert not rig.refusals[NACK_BAD_SIGNATURE]


# -- over HTTP


@dataclass
class Posting:
    """What the sender signs: its parts, with its identifier or without, as other senders do."""

    rig: WebSigningRig
    named: bool = True

    def signature(self, message: SrmpMessage, body: bytes) -> bytes:
        signer = Signer(private_key("maria"), certificate("maria"))
        ordinal = message.ordinal if self.named else None
        return sign(body, b"", FAR_GUID, HashAlgorithm.SHA1, signer, ordinal)

    def post(
        self, message: SrmpMessage, signature: bytes, body: bytes = b"PAY 100", peer: Peer = EVE
    ) -> int:
        content_type, payload = write_parts(
            write_envelope(message, signature), body, guid=FAR_GUID, number=1
        )
        parts = read_parts(content_type, payload)
        arrival = SrmpArrival(peer, read_envelope(parts.envelope), parts, head_of(content_type))
        (verdict,) = self.rig.run(lambda m: m.transfer.receive_srmp([arrival]))
        return verdict.status


def forget_identifiers(rig: WebSigningRig) -> None:
    """The history of all messages is kept for half an hour only."""
    for _ in range(2):
        rig.clock.advance(3_600_000)
        rig.turn()


@pytest.mark.parametrize("named", [True, False])
def test_a_captured_post_under_another_identifier_is_refused(named: bool) -> None:
    posting = Posting(WebSigningRig(), named)
    rig, message = posting.rig, posting.rig.signing()
    signature = posting.signature(message, b"PAY 100")
    assert posting.post(message, signature, peer=HONEST) == 200
    assert posting.post(rig.signing(), signature) == 400
    forget_identifiers(rig)
    assert posting.post(message, signature) == 200  # as any that was resent
    assert rig.bodies("signed") == [b"PAY 100"]
    if named:  # nor after any time, nor where nothing of it is known
        fresh = WebSigningRig()
        assert Posting(fresh).post(fresh.signing(ordinal=77), signature) == 400


@pytest.mark.parametrize(
    ("named", "peer", "expected"),
    [(True, EVE, 200), (True, HONEST, 200), (False, EVE, 400), (False, HONEST, 200)],
)
def test_posts_of_one_content_arrive_if_their_identifiers_are_signed_or_from_one_address(
    named: bool, peer: Peer, expected: int
) -> None:
    posting = Posting(WebSigningRig(), named)
    first, second = posting.rig.signing(), posting.rig.signing()
    assert posting.post(first, posting.signature(first, b"PAY 100"), peer=HONEST) == 200
    assert posting.post(second, posting.signature(second, b"PAY 100"), peer=peer) == expected


@pytest.mark.parametrize(("address", "expected"), [(HONEST.host, 200), ("203.0.113.7", 400)])
def test_a_post_of_a_machine_of_the_directory_is_not_kept_out_by_who_was_faster(
    address: str, expected: int
) -> None:
    posting = Posting(WebSigningRig(), named=False)
    rig, first, second = posting.rig, posting.rig.signing(), posting.rig.signing()
    entry = objects.QueueManager(identifier=FAR_GUID, computer_name="FAR", addresses=(address,))
    service, clock = rig.manager.directory.service, rig.clock
    rig.run(lambda m: service.create_directory_object(entry, clock.now_ms, clock.utc_seconds))
    signature = posting.signature(first, b"PAY 100")
    assert posting.post(first, signature, peer=EVE) == 200
    assert posting.post(second, signature, peer=HONEST) == expected


def test_a_post_that_names_itself_is_not_repeated_from_its_address() -> None:
    posting = Posting(WebSigningRig())
    first, second = posting.rig.signing(), posting.rig.signing()
    signature = posting.signature(first, b"PAY 100")
    assert posting.post(first, signature, peer=HONEST) == 200
    assert posting.post(second, signature, peer=HONEST) == 400


def test_a_post_that_names_itself_goes_into_one_queue() -> None:
    posting = Posting(WebSigningRig())
    rig = posting.rig
    rig.create("other", authentication=True)
    rig.grant("other", EVERYONE, WRITE_MESSAGE)
    message = rig.signing()
    signature = posting.signature(message, b"PAY 100")
    other = replace(message, to=SIGNED.replace("signed", "other"))
    assert posting.post(message, signature) == 200
    forget_identifiers(rig)
    assert posting.post(other, signature) == 200
    assert (rig.bodies("signed"), rig.bodies("other")) == ([b"PAY 100"], [])
    both = (message.to, other.to)
    lists = [rig.signing(to, ordinal=5, destination_mqf=both) for to in both]
    signature = posting.signature(lists[0], b"PAY 200")
    assert [posting.post(one, signature, b"PAY 200") for one in lists] == [200, 200]
    assert rig.bodies("other") == [b"PAY 200"]
