"""Messages as they arrive in a queue, shown without taking any, and the event log: long polling.

A request waits until there is something new, or until its time is over. Rights are looked at in
each step, so that a tail ends with them; between two requests nothing is kept.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

import msgspec

from posthouse.api.tails import LogTailJson, LogTailParams, TailJson, TailParams
from posthouse.api.types import Nothing
from posthouse.engine.ledger.effects import Read
from posthouse.engine.manager import QueueManager
from posthouse.model.properties import QueueAccessType
from posthouse.protocols.handlers.context import Context, opened
from posthouse.protocols.handlers.message_json import message_json
from posthouse.protocols.handlers.messages import without_body
from posthouse.protocols.handlers.request_steps import Decide, Steps, looked_at
from posthouse.protocols.handlers.scanning import JSON_FACTOR, STEP_BYTES, seen_by_role

LOOK_MS: Final = 100  # between two looks while nothing is new
ROWS_MAX: Final = 2_000  # that one look goes through


def tail_queue(context: Context, params: TailParams, body: Nothing) -> Steps[TailJson]:
    """Shows messages with lookup ids above `after` as they arrive, and takes none.

    Waits up to `wait_ms` for the first of them. Without `after` it begins at the newest message.
    """
    if params.bodies is True:
        context.view.require_content("bodies")
    with context.services.tails.running(context.caller):
        return (yield from _Tail(context, params).steps())


def tail_log(context: Context, params: LogTailParams, body: Nothing) -> Steps[LogTailJson]:
    """Shows lines of the event log above `after` as they are written.

    Waits up to `wait_ms` for the first of them. Without `after` it shows the newest lines at once.
    """
    context.require_administrator()
    recent = context.services.log
    after = params.after
    if isinstance(after, msgspec.UnsetType) or after > recent.newest:  # it has restarted
        return LogTailJson(lines=recent.last(params.level, params.limit), after=recent.newest)
    left_out = max(recent.oldest - after - 1, 0)
    with context.services.tails.running(context.caller):
        for left_ms in range(params.wait_ms, -1, -LOOK_MS):
            seen = recent.newest
            if lines := recent.after(after, params.level, params.limit):
                last = lines[-1].number if len(lines) == params.limit else seen
                return LogTailJson(lines=lines, after=last, left_out=left_out)
            if left_ms >= LOOK_MS:
                yield context.services.pause(LOOK_MS / 1000)
    return LogTailJson(lines=[], after=seen, left_out=left_out)


class _Tail:
    """One request."""

    def __init__(self, context: Context, params: TailParams) -> None:
        self._context = context
        self._params = params
        self._after = -1 if isinstance(params.after, msgspec.UnsetType) else params.after
        self._last = self._after  # how far the last look went
        self._name = self._code_page = ""

    def steps(self) -> Steps[TailJson]:
        """Looks until there is something, or the time is over."""
        context = self._context
        if self._after < 0:
            self._after = self._last = yield from looked_at(self._newest)
        for left_ms in range(self._params.wait_ms, -1, -LOOK_MS):
            answer = yield Decide(lambda manager: self._look(manager, has_room=False))
            if isinstance(size := answer.value, int):
                yield context.memory.room(size)
                answer = yield Decide(lambda manager: self._look(manager, has_room=True))
            assert isinstance(answer.value, list)
            if answer.value:
                return (yield from self._page(answer.value, answer.packets))
            self._after = self._last
            if left_ms >= LOOK_MS:
                yield context.services.pause(LOOK_MS / 1000)
        return TailJson(messages=[], after=self._after)

    def _newest(self, manager: QueueManager) -> int:
        with opened(manager, self._params.queue, QueueAccessType.PEEK, self._context):
            return manager.machine.last_lookup_id()

    def _look(self, manager: QueueManager, *, has_room: bool) -> list[Read] | int:
        """What is new; its size instead, where there is no room for it now."""
        messages = manager.messages
        with opened(manager, self._params.queue, QueueAccessType.PEEK, self._context) as descriptor:
            queue = descriptor.target()
            self._name, self._code_page = queue.name, queue.code_page
            chosen, size = list[int](), 0
            for lookup_id, number in islice(messages.after(queue, self._after), ROWS_MAX):
                if len(chosen) >= self._params.limit or (chosen and size >= STEP_BYTES):
                    break
                self._last = lookup_id
                if messages.is_visible(number, True):
                    chosen.append(number)
                    size += messages.row(number).size
            room = JSON_FACTOR * size
            if not (has_room or self._context.memory.take(room)):
                return room
            messages.fetch_together(chosen)
            return [messages.read_of(number, messages.row(number)) for number in chosen]

    def _page(self, reads: list[Read], packets: tuple[bytes, ...]) -> Steps[TailJson]:
        found = [
            message_json(read, packet, self._name, self._code_page)
            for read, packet in zip(reads, packets, strict=True)
        ]
        shown = yield from seen_by_role(self._context, found)
        if self._params.bodies is False:
            shown = [without_body(message) for message in shown]
        return TailJson(messages=shown, after=self._last)
