"""Conversations of PGM (RFC 3208, [MC-MQSRM] 2.1.2): a source and receivers in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from posthouse.cli.decode.command import split
from posthouse.wire.pgm.packets import ODATA, read_pgm
from tests.protocols.pgm.air import Air, PgmSide, Station, quick
from tests.transcripts.recorder import Recorder, fields_of

GROUP = "234.1.1.1"
NAME = f"MULTICAST={GROUP}:8001"


class Studio:
    """ALPHA sends to a group, and every datagram that is sent."""

    def __init__(self, title: str, **settings: int) -> None:
        self.air = air = Air()
        self.settings = quick(**settings)
        self.alpha = air.station("ALPHA", "192.0.2.1", self.settings)
        self.script = Recorder(lambda: air.clock.now_ms, title)

    def listener(self, name: str, address: str) -> Station:
        """A queue manager with a queue that has the address."""
        made = self.air.station(name, address, self.settings)
        made.create(r".\private$\quotes", multicast_address=f"{GROUP}:8001")
        self.air.run()
        return made

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Every datagram goes into the script, those that get lost as well."""
        multicast, unicast, script = PgmSide.multicast, PgmSide.unicast, self.script
        by_address = {m.addresses[0]: m.name for m in self.air.machines}

        def tapped_multicast(side: PgmSide, group: str, kind: int, packet: bytes) -> None:
            way, unit = f"{side._station.name} -> all", read_pgm(packet).data
            carried = fields_of(next(split(unit))) if unit else {}
            script.packets(way, packet, **{key: carried[key] for key in carried if key == "body"})
            if side._air.loses(kind, packet):
                script.lines[-1] += "  (lost)"
            multicast(side, group, kind, packet)

        def tapped_unicast(side: PgmSide, address: str, packet: bytes) -> None:
            script.packets(f"{side._station.name} -> {by_address[address]}", packet)
            unicast(side, address, packet)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PgmSide, "multicast", tapped_multicast)
            patch.setattr(PgmSide, "unicast", tapped_unicast)
            yield


def data() -> str:
    """Data as it goes when nothing is lost, and what follows the last of it."""
    studio = Studio("PGM: data and the heartbeat after it")
    bravo = studio.listener("BRAVO", "192.0.2.2")
    with studio.heard():
        studio.script.note("Two messages. SPMs follow at growing intervals: nothing else came.")
        studio.alpha.send(NAME, b"12.50", b"12.75", express=True, label="quote")
        studio.air.advance(5_000)
    assert bravo.bodies(r"BRAVO\private$\quotes") == [b"12.50", b"12.75"]
    return studio.script.text()


def repair() -> str:
    """A datagram is lost: NAK, confirmation, repair."""
    studio = Studio("PGM: a lost datagram is asked for and sent again")
    bravo = studio.listener("BRAVO", "192.0.2.2")
    lost: list[int] = []

    def loses(kind: int, packet: bytes) -> bool:
        body = read_pgm(packet).body
        number = getattr(body, "sequence", 0)
        if kind != ODATA or lost not in ([], [number]) or b"12.75" not in packet:
            return False
        lost[:] = [number]
        return True

    with studio.heard():
        studio.air.loses = loses
        studio.script.note("The second message is lost; the third shows that one is missing.")
        studio.script.note("BRAVO asks the source (NAK), which confirms (NCF) and repeats (RDATA).")
        studio.alpha.send(NAME, b"12.50", b"12.75", b"13.00", express=True, label="quote")
        studio.air.advance(1_000)
    assert bravo.bodies(r"BRAVO\private$\quotes") == [b"12.50", b"12.75", b"13.00"]
    return studio.script.text()


def late_join() -> str:
    """A receiver that comes later takes what is sent from then on."""
    studio = Studio("PGM: a receiver that joins late")
    bravo = studio.listener("BRAVO", "192.0.2.2")
    charlie = studio.air.station("CHARLIE", "192.0.2.3", studio.settings)
    with studio.heard():
        studio.alpha.send(NAME, b"12.50", express=True, label="quote")
        studio.air.advance(300)
        studio.script.note("CHARLIE joins the group. It begins with what it gets first.")
        charlie.create(r".\private$\quotes", multicast_address=f"{GROUP}:8001")
        studio.air.run()
        studio.alpha.send(NAME, b"12.75", express=True, label="quote")
        studio.air.advance(300)
    assert bravo.bodies(r"BRAVO\private$\quotes") == [b"12.50", b"12.75"]
    assert charlie.bodies(r"CHARLIE\private$\quotes") == [b"12.75"]
    return studio.script.text()


CONVERSATIONS = {"data": data, "repair": repair, "late-join": late_join}
