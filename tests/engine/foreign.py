"""A rig that is the connector server of a foreign site, with a foreign system in it."""

from __future__ import annotations

from typing import Any

import msgspec

from posthouse.directory import objects
from posthouse.engine.queues.open_queues import OpenQueueDescriptor
from posthouse.engine.queues.queue import Queue
from posthouse.model.guids import format_guid
from posthouse.model.names import PrivateName
from tests.engine.rig import RECEIVE
from tests.support.answer_rig import AnswerRig

SITE = bytes(range(64, 80))
HOME = bytes(range(80, 96))
SYSTEM = bytes(range(96, 112))
QUEUE = bytes(range(112, 128))
LEDGER = bytes(range(128, 144))
CONNECTOR = f"CONNECTOR={format_guid(SITE)}"
XACTONLY = f"{CONNECTOR};xactonly"
STREAM = f"PUBLIC={format_guid(QUEUE)}"
LEDGER_STREAM = f"PUBLIC={format_guid(LEDGER)}"
PRIVATE = str(PrivateName(SYSTEM, 0x21))


class ForeignRig(AnswerRig):
    """ALPHA is in the sites Home and Beyond; STREAMS, a foreign system, is in Beyond."""

    def __init__(self, *, connected: bool = True, **settings: Any) -> None:
        settings.setdefault("routing_server", True)
        super().__init__(**settings)
        self.enter(objects.Site(identifier=HOME, name="Home"))
        self.enter(objects.Site(identifier=SITE, name="Beyond", foreign_site=True))
        self.enter(
            objects.QueueManager(
                identifier=SYSTEM,
                computer_name="STREAMS",
                foreign_system=True,
                site_identifier_list=(SITE,),
            )
        )
        for guid, name, transactional in (
            (QUEUE, r"STREAMS\orders", False),
            (LEDGER, r"STREAMS\ledger", True),
        ):
            self.enter(
                objects.Queue(
                    identifier=guid,
                    pathname=name,
                    transactional=transactional,
                    queue_manager_identifier=SYSTEM,
                )
            )
        if connected:
            self.belong(HOME, SITE)

    def enter(self, value: objects.DirectoryObject) -> None:
        self.run(lambda m: m.directory.service.create_directory_object(value, *self._now(m)))

    def write(self, value: objects.DirectoryObject) -> None:
        self.run(lambda m: m.directory.service.write_directory(value, *self._now(m)))

    def _now(self, manager: Any) -> tuple[int, int]:
        return manager.machine.now_ms, manager.machine.utc

    def belong(self, *sites: bytes, **attributes: Any) -> None:
        """ALPHA is in these sites from now on."""
        own = self.manager.directory.own_queue_manager()
        self.write(msgspec.structs.replace(own, site_identifier_list=sites, **attributes))

    # -- the connector

    def reader(self, name: str = CONNECTOR) -> OpenQueueDescriptor:
        return self.open(name, RECEIVE)

    def in_queue(self, name: str = CONNECTOR) -> list[bytes]:
        return self.bodies(name)

    def hand_over(self, message_class: int, name: str = CONNECTOR) -> bytes:
        """What a connector does with the first message: reads it, and says what became of it."""
        reader = self.reader(name)
        read = self.driver.read(
            lambda m: m.messages.dequeue_message(reader, timeout_ms=0, two_phase=True)
        )
        assert read is not None
        self.run(
            lambda m: m.messages.dequeue_message_end(
                reader, read.read.lookup_id, positive=True, message_class=message_class
            )
        )
        self.close(reader)
        return read.message.body

    def queue(self, name: str) -> Queue:
        return self.manager.queues._local(name) if "=" in name else super().queue(name)

    # -- messages of others

    def arriving(self, body: bytes = b"x", to: str = STREAM, **attributes: Any) -> bytes:
        """A packet of the peer's for a queue of the foreign system, wanting every answer."""
        attributes.setdefault("acknowledgements_requested", 0x0F)
        packet = self.asking(body, destination_queue_format_name=to, **attributes)
        return addressed(packet)

    def in_order(self, number: int, previous: int, to: str = LEDGER_STREAM, **more: Any) -> bytes:
        """The same, in a sequence."""
        return addressed(
            self.transactional(number, previous, destination_queue_format_name=to, **more)
        )


def addressed(packet: bytes, machine: bytes = SYSTEM) -> bytes:
    """A packet for a queue of this machine: QueueManagerAddress, [MS-MQMQ] 2.2.19.2."""
    return packet[:32] + machine + packet[48:]
