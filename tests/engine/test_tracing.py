"""Report messages of traced ones ([MS-MQQB] 3.1.5.8.9, 3.1.7.1.7; errata 2.2)."""

from __future__ import annotations

from typing import Any

import pytest

from posthouse.directory import objects
from posthouse.engine.ledger.records import Change
from posthouse.engine.transfer.tracing import time_date
from posthouse.model.guids import format_guid
from posthouse.model.message import DeliveryGuarantee, Message
from posthouse.model.message_classes import REPORT
from posthouse.model.names import PrivateName, PublicName
from posthouse.security.rights import WRITE_MESSAGE
from posthouse.wire.packet.message import deserialize
from posthouse.wire.packet.packet_fields import summarize
from tests.engine.arrivals import ORDERS, PeerRig
from tests.engine.letters import ANONYMOUS, FAR_GUID

LABEL = "1312:00000007:00 received by {} at 10:13:20 PM Tue,Nov 14 23"


class TracingRig(PeerRig):
    """A rig with a public queue for reports."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.reports = self.create(".\\reports").definition.identifier

    def traced(self, **attributes: Any) -> bytes:
        attributes.setdefault("tracing_requested", True)
        attributes.setdefault("tracing_queue_identifier", self.reports)
        return self.packet(ordinal=7, **attributes)

    def found(self) -> list[Message]:
        return self.messages(".\\reports")


def guid_of(rig: TracingRig) -> str:
    return format_guid(rig.guid).upper()


@pytest.mark.spec(
    "MS-MQQB 3.1.5.8.9/1",
    "MS-MQQB 3.1.5.8.9/2",
    "MS-MQQB 3.1.5.8.9/3",
    "MS-MQQB 3.1.5.8.9/4",
)
def test_a_traced_message_is_reported_when_it_arrives() -> None:
    rig = TracingRig()
    rig.take(rig.traced())
    (report,) = rig.found()
    assert report.message_class == REPORT
    assert report.delivery_guarantee == DeliveryGuarantee.EXPRESS
    assert report.destination_queue_format_name == str(PublicName(rig.reports))
    assert report.label == LABEL.format(guid_of(rig))
    assert report.body.decode("utf-16-le") == (
        f"<MESSAGE ID>00000007</MESSAGE ID>\r\n<TARGET QUEUE>{ORDERS}</TARGET QUEUE>\r\n"
    )
    assert not report.acknowledgements_requested


@pytest.mark.spec("MS-MQQB 3.1.5.8.9/1", "MS-MQQB 3.1.5.8.9/3")
def test_a_router_reports_a_traced_message_that_it_passes_on() -> None:
    rig = TracingRig(routing_server=True)
    beyond = str(PrivateName(FAR_GUID, 0x21))
    rig.take(rig.traced(destination_queue_format_name=beyond))
    (report,) = rig.found()
    assert report.label == LABEL.format(guid_of(rig)).replace(":00 ", ":01 ")  # one hop more
    assert f"<TARGET QUEUE>{beyond}</TARGET QUEUE>" in report.body.decode("utf-16-le")


@pytest.mark.spec("MS-MQQB 3.1.5.8.9/1")
def test_each_traced_message_is_reported_once() -> None:
    rig = TracingRig()
    packet = rig.traced()
    rig.take(packet)
    rig.take(packet)
    assert len(rig.found()) == 1
    assert len(rig.bodies("orders")) == 1


def test_what_is_refused_is_not_reported() -> None:
    rig = TracingRig()
    rig.take(rig.traced(destination_queue_format_name=ORDERS + "x"))
    assert not rig.found()


def test_without_a_report_queue_there_is_no_report() -> None:
    rig = TracingRig()
    rig.take(rig.traced(tracing_queue_identifier=bytes(16)))
    rig.take(rig.packet(tracing_queue_identifier=rig.reports))
    assert not rig.found()
    assert len(rig.bodies("orders")) == 2


def test_reports_are_not_reported_on() -> None:
    rig = TracingRig()
    rig.take(rig.traced(message_class=REPORT))
    assert not rig.found()


@pytest.mark.spec("MS-MQQB 3.1.5.8.9/5", "MS-MQQB 3.1.5.8.9/6")
def test_a_report_to_a_queue_nobody_knows_is_dropped_and_counted() -> None:
    rig = TracingRig()
    rig.take(rig.traced(tracing_queue_identifier=FAR_GUID))
    assert rig.manager.machine.refusals["report_dropped"] == 1
    assert not rig.manager.queues.outgoing_queues()
    assert len(rig.bodies("orders")) == 1


@pytest.mark.spec("MS-MQQB 3.1.5.8.9/5")
def test_naming_a_queue_is_no_way_to_write_to_it() -> None:
    rig = TracingRig()
    rig.deny(".\\reports", ANONYMOUS, WRITE_MESSAGE)
    rig.take(rig.traced())
    assert not rig.found()
    assert rig.manager.machine.refusals["report_dropped"] == 1


@pytest.mark.spec("MS-MQQB 3.1.5.8.9/6")
def test_a_report_goes_to_a_machine_of_the_directory() -> None:
    rig = TracingRig()
    there = objects.Queue(
        identifier=FAR_GUID, pathname="BRAVO\\there", queue_manager_identifier=FAR_GUID
    )
    rig.run(
        lambda m: m.directory.service.create_directory_object(
            there, rig.clock.now_ms, rig.clock.utc_seconds
        )
    )
    rig.take(rig.traced(tracing_queue_identifier=FAR_GUID))
    (outgoing,) = rig.manager.queues.outgoing_queues()
    assert outgoing.definition.format_name == str(PublicName(FAR_GUID))
    assert outgoing.state.count == 1


@pytest.mark.spec(
    "MS-MQQB 3.1.7.1.7/1",
    "MS-MQQB 3.1.7.1.7/2",
    "MS-MQQB 3.1.7.1.7/3",
    "MS-MQQB 3.1.7.1.7/4",
)
def test_a_traced_message_is_reported_when_it_is_sent() -> None:
    rig = TracingRig()

    def sent(packet: bytes) -> None:
        seen, change = summarize(packet), Change()
        tracing = rig.manager.transfer.receiving.forwarding._tracing
        rig.run(lambda m: tracing.sent(packet, seen, "192.0.2.9", change))

    sent(rig.packet())
    sent(rig.traced(tracing_queue_identifier=FAR_GUID))
    assert not rig.found()
    sent(rig.traced())
    (report,) = rig.found()
    assert report.message_class == REPORT
    assert report.delivery_guarantee == DeliveryGuarantee.EXPRESS
    assert report.label == LABEL.format(guid_of(rig))
    assert report.body.decode("utf-16-le") == (
        "<MESSAGE ID>00000007</MESSAGE ID>\r\n"
        f"<TARGET QUEUE>{ORDERS}</TARGET QUEUE>\r\n"
        "<NEXT HOP>192.0.2.9</NEXT HOP>\r\n"
        "<HOP COUNT>00 </HOP COUNT>\r\n"
    )


@pytest.mark.spec("MS-MQQB 3.1.5.8.9/3")
@pytest.mark.parametrize(
    ("utc", "text"),
    [
        (0, "12:00:00 AM Thu,Jan 01 70"),
        (12 * 3600, "12:00:00 PM Thu,Jan 01 70"),
        (951_868_799, "11:59:59 PM Tue,Feb 29 00"),
        (1_700_000_000, "10:13:20 PM Tue,Nov 14 23"),
    ],
)
def test_the_time_of_a_report_is_written_in_english(utc: int, text: str) -> None:
    assert time_date(utc) == text


def test_the_report_is_a_packet_of_ours() -> None:
    rig = TracingRig()
    rig.take(rig.traced())
    (number,) = [n for _, n in rig.queue(".\\reports").state.order.forward()]
    assert deserialize(rig.store.read(number)).source_machine_identifier == rig.guid
