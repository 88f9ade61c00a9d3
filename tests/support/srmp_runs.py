"""Two queue managers that take the same SRMP messages, one by one and in a run."""

from __future__ import annotations

from posthouse.engine.transfer.srmp.receiving import SrmpReceiving
from tests.engine.letters import FAR_GUID
from tests.engine.web import WebRig
from tests.support.run_rig import contents

OTHER = bytes(range(32, 48))


def one_by_one(rig: WebRig) -> WebRig:
    """The same rig without the short way."""
    receiving: SrmpReceiving = rig.manager.transfer.srmp.receiving
    receiving._gather = lambda batch, arrival: False  # type: ignore[method-assign]
    return rig


def same(one: WebRig, many: WebRig) -> None:
    for rig in (one, many):
        rig.check_books()
    assert contents(many.manager.ledger.state) == contents(one.manager.ledger.state)
    assert many.store.disk.packets == one.store.disk.packets
    assert many.manager.machine.refusals == one.manager.machine.refusals
    for source in (FAR_GUID, OTHER):
        known = [
            rig.manager.transfer.receiving.history.known_of(source).keys() for rig in (one, many)
        ]
        assert known[0] == known[1]
    one.restart()
    many.restart()
    assert contents(many.manager.ledger.state) == contents(one.manager.ledger.state)
