"""Queue managers of a shared directory tell each other of changes ([MS-MQCN])."""

from __future__ import annotations

from pathlib import Path

import pytest

from posthouse.directory import objects
from posthouse.directory.base import equals
from posthouse.directory.document.document import Document, MachinePart, QueuePart, SitePart
from posthouse.engine.queues.queue import NOTIFY_QUEUE
from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.model.errors import NoDs
from posthouse.model.guids import format_guid
from posthouse.model.message import DeliveryGuarantee, Message, MessageId
from posthouse.model.names import parse_format_name
from posthouse.wire.binary.change_notification import (
    Notification,
    pack_notification,
    unpack_notification,
)
from posthouse.wire.packet.message import deserialize, serialize
from posthouse.wire.packet.packet_fields import summarize
from tests.runtime.sharing import SharingRig, file_of

OTHER = b"o" * 16
QUEUE = b"q" * 16


@pytest.fixture
def rig(tmp_path: Path) -> SharingRig:
    path = file_of(
        tmp_path / "directory.toml",
        objects.QueueManager(identifier=OTHER, computer_name="BETA"),
    )
    made = SharingRig(path)
    assert made.refresh()
    return made


def change_a_queue_of_beta(rig: SharingRig) -> None:
    part = QueuePart(path="BETA\\orders", guid=format_guid(QUEUE), label="Orders")
    document = Document(queues=[part])
    rig.run(lambda m: m.directory.take_in(document, prune=False, dry_run=False))


def waiting_for(rig: SharingRig, owner: bytes) -> list[Message]:
    name = f"PRIVATE={format_guid(owner)}\\3"
    queue = rig.manager.queues.find_outgoing(parse_format_name(name))
    if queue is None:
        return []
    numbers = [number for _, number in queue.state.order.forward()]
    return [deserialize(rig.store.read(number)) for number in numbers]


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.18/2", "MS-MQDMPR 3.1.7.1.19/2", "MS-MQDMPR 3.1.7.1.24/2")
def test_the_owner_of_a_changed_object_is_told(rig: SharingRig) -> None:
    change_a_queue_of_beta(rig)
    (message,) = waiting_for(rig, OTHER)
    assert unpack_notification(message.body) == Notification(1, QUEUE, "ALPHA")
    assert message.delivery_guarantee == DeliveryGuarantee.EXPRESS
    assert message.time_to_reach_queue == 300
    part = QueuePart(path="BETA\\orders", guid=format_guid(QUEUE), label="More orders")
    document = Document(queues=[part])
    rig.run(lambda m: m.directory.take_in(document, prune=False, dry_run=False))
    rig.run(lambda m: m.directory.remove("queue", "BETA\\orders", dry_run=False))
    bodies = [unpack_notification(one.body) for one in waiting_for(rig, OTHER)]
    assert [one[0] for one in bodies] == [1, 2, 3]
    assert {one[1] for one in bodies} == {QUEUE}
    left = rig.manager.directory.service.read_all(objects.Queue, rig.clock.now_ms)
    assert QUEUE not in [queue.identifier for queue in left or []]


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.24/2")
def test_a_changed_machine_is_told(rig: SharingRig) -> None:
    part = MachinePart(name="BETA", guid=format_guid(OTHER), addresses=["elsewhere"])
    document = Document(machines=[part])
    rig.run(lambda m: m.directory.take_in(document, prune=False, dry_run=False))
    (message,) = waiting_for(rig, OTHER)
    assert unpack_notification(message.body)[0] == 4


def test_nobody_is_told_of_other_objects(rig: SharingRig) -> None:
    """New and lost machines have nobody who could listen, sites belong to nobody."""
    part = MachinePart(name="GAMMA", guid=format_guid(b"g" * 16))
    document = Document(machines=[part], sites=[SitePart(name="Paris")])
    rig.run(lambda m: m.directory.take_in(document, prune=False, dry_run=False))
    rig.run(lambda m: m.directory.remove("site", "Paris", dry_run=False))
    rig.run(lambda m: m.directory.remove("machine", "GAMMA", dry_run=False))
    assert waiting_for(rig, OTHER) == waiting_for(rig, b"g" * 16) == []


def test_nobody_is_told_of_what_is_ours(rig: SharingRig) -> None:
    rig.create("ALPHA\\orders")
    assert waiting_for(rig, rig.manager.machine.identifier) == []


def test_nobody_is_told_where_the_setting_says_so(tmp_path: Path) -> None:
    beta = objects.QueueManager(identifier=OTHER, computer_name="BETA")
    rig = SharingRig(file_of(tmp_path / "d.toml", beta), directory_notify=False)
    assert rig.refresh()
    change_a_queue_of_beta(rig)
    assert waiting_for(rig, OTHER) == []


@pytest.mark.spec("MS-MQDMPR 3.1.1.6/2", "MS-MQDMPR 3.1.3/13")
@pytest.mark.parametrize("wanted", [True, False])
def test_the_enterprise_says_whether_anybody_is_told(tmp_path: Path, wanted: bool) -> None:
    beta = objects.QueueManager(identifier=OTHER, computer_name="BETA")
    enterprise = objects.Enterprise(
        identifier=b"e" * 16, non_ldap_capable_queue_manager_notification=wanted
    )
    rig = SharingRig(file_of(tmp_path / "d.toml", beta, enterprise))
    assert rig.refresh()
    change_a_queue_of_beta(rig)
    assert len(waiting_for(rig, OTHER)) == wanted


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.24/3", "MS-MQDMPR 3.1.7.1.18/3")
def test_nobody_is_told_of_a_change_that_the_directory_did_not_get(rig: SharingRig) -> None:
    rig.authority.path.unlink()
    with pytest.raises(NoDs):
        change_a_queue_of_beta(rig)
    assert waiting_for(rig, OTHER) == []


class Heard:
    """What a rig was asked to do."""

    def __init__(self, rig: SharingRig) -> None:
        self.rig = rig
        self.asked: list[bool] = []
        rig.manager.directory.notices.refresh = self.asked.append
        self.ordinal = 0

    def tell(self, body: bytes, source: bytes = OTHER) -> None:
        self.ordinal += 1
        own = format_guid(self.rig.manager.machine.identifier)
        packet = serialize(
            Message(
                identifier=MessageId(source, self.ordinal),
                sent_time=self.rig.clock.utc_seconds,
                source_machine_identifier=source,
                destination_queue_format_name=f"PRIVATE={own}\\3",
                body=body,
            )
        )
        peer = Peer(source, "192.0.2.1")
        verdict = self.rig.run(
            lambda m: m.transfer.receive_packets(peer, [packet], [summarize(packet)])
        )
        assert verdict.dealt_with == 1


@pytest.fixture
def heard(rig: SharingRig) -> Heard:
    return Heard(rig)


NOTICE = pack_notification(Notification(2, QUEUE, "BETA"))


def test_news_are_collected_for_a_minute(rig: SharingRig, heard: Heard) -> None:
    heard.tell(NOTICE)
    heard.tell(NOTICE)
    rig.advance(59)
    assert heard.asked == []
    rig.advance(2)
    assert heard.asked == [False]
    assert rig.manager.ledger.queues[NOTIFY_QUEUE].state.count == 0


def test_the_next_news_wait_for_a_quarter_of_an_hour(rig: SharingRig, heard: Heard) -> None:
    heard.tell(NOTICE)
    rig.advance(61)
    heard.tell(NOTICE)
    rig.advance(61)
    assert heard.asked == [False]
    rig.advance(14 * 60)
    assert heard.asked == [False, False]


def test_a_flood_of_news_is_one_look_at_everything(rig: SharingRig, heard: Heard) -> None:
    for number in range(120):
        heard.tell(pack_notification(Notification(1, number.to_bytes(16, "big"), "BETA")))
    rig.advance(61)
    assert heard.asked == [True]


@pytest.mark.parametrize(
    ("body", "source", "counted"),
    [
        (b"nonsense", OTHER, "notice_malformed"),
        (pack_notification(Notification(5, QUEUE, "BETA")), OTHER, "notice_ignored"),
        (b"\1\1\0\1" + bytes(57), OTHER, "notice_ignored"),
        (NOTICE, b"s" * 16, "notice_of_a_stranger"),
    ],
)
def test_what_is_no_news_has_no_effect(
    rig: SharingRig, heard: Heard, body: bytes, source: bytes, counted: str
) -> None:
    heard.tell(body, source)
    assert rig.manager.machine.refusals[counted] == 1
    assert rig.manager.directory.notices.next_deadline_ms() is None


def test_a_quota_of_the_directory_holds_beside_our_own(rig: SharingRig) -> None:
    own = rig.manager.directory.queues.directory.known(
        objects.QueueManager, equals("computer_name", "ALPHA")
    )
    assert own is not None
    part = MachinePart(name="ALPHA", guid=format_guid(own.identifier), quota_kib=100)
    document = Document(machines=[part])
    rig.run(lambda m: m.directory.take_in(document, prune=False, dry_run=False))
    assert rig.manager.machine.settings.machine_quota_kib == 100
