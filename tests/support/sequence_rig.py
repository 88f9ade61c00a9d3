"""A queue manager that receives sequences of one sender."""

from __future__ import annotations

from typing import Any

from posthouse.engine.transfer.protocol_interface import Verdict
from tests.engine.letters import FAR_GUID
from tests.support.answer_rig import AnswerRig

EAST = r"DIRECT=OS:ALPHA\private$\east"


class EastRig(AnswerRig):
    """A rig with a transactional queue `east` that the peer sends to."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.create("east", transactional=True)

    def tx(
        self, number: int, previous: int, sequence: tuple[int, int] = (5, 1), **attributes: Any
    ) -> bytes:
        attributes.setdefault("destination_queue_format_name", EAST)
        return self.transactional(number, previous, sequence, **attributes)

    def take_tx(self, *numbers: int, **attributes: Any) -> Verdict:
        """Messages of one sequence, each with its predecessor."""
        return self.take(*(self.tx(number, number - 1, **attributes) for number in numbers))

    @property
    def place(self) -> tuple[int, int] | None:
        """How far the peer's sequence has come."""
        info = self.manager.transfer.outgoing.incoming(self.queue("east"), FAR_GUID)
        return None if info is None else (info.sequence_id, info.sequence_number)

    @property
    def due(self) -> tuple[tuple[int, bytes], ...]:
        """An order acknowledgment for the peer."""
        return ((self.queue("east").number, FAR_GUID),)
