"""ulAction of a receive, and the parameters that it requires ([MS-MQRR] 3.1.4.7, 3.1.4.13)."""

from __future__ import annotations

from typing import Final, NamedTuple

from posthouse.model.errors import InvalidParameter
from posthouse.model.properties import MessageSeekAction

RECEIVE: Final = 0x00000000
PEEK_CURRENT: Final = 0x80000000
PEEK_NEXT: Final = 0x80000001
LOOKUP_PEEK_CURRENT: Final = 0x40000010
LOOKUP_PEEK_NEXT: Final = 0x40000011
LOOKUP_PEEK_PREV: Final = 0x40000012
LOOKUP_RECEIVE_CURRENT: Final = 0x40000020
LOOKUP_RECEIVE_NEXT: Final = 0x40000021
LOOKUP_RECEIVE_PREV: Final = 0x40000022


class Action(NamedTuple):
    """What a call does with the message it finds, and how it finds it."""

    peek: bool
    seek: MessageSeekAction | None = None  # from a lookup id
    next: bool = False  # after the place of a cursor


_CURRENT, _NEXT, _PREVIOUS = (
    MessageSeekAction.CURRENT,
    MessageSeekAction.NEXT,
    MessageSeekAction.PREVIOUS,
)
ACTIONS: Final = {
    RECEIVE: Action(peek=False),
    PEEK_CURRENT: Action(peek=True),
    PEEK_NEXT: Action(peek=True, next=True),
    LOOKUP_PEEK_CURRENT: Action(peek=True, seek=_CURRENT),
    LOOKUP_PEEK_NEXT: Action(peek=True, seek=_NEXT),
    LOOKUP_PEEK_PREV: Action(peek=True, seek=_PREVIOUS),
    LOOKUP_RECEIVE_CURRENT: Action(peek=False, seek=_CURRENT),
    LOOKUP_RECEIVE_NEXT: Action(peek=False, seek=_NEXT),
    LOOKUP_RECEIVE_PREV: Action(peek=False, seek=_PREVIOUS),
}


def action_of(action: int, lookup_id: int, cursor: int, timeout: int) -> Action:
    """The action, if the other parameters go with it; a lookup takes nothing but its identifier."""
    found = ACTIONS.get(action)
    if found is None:
        raise InvalidParameter(f"there is no action 0x{action:08X}")
    if found.seek is not None:
        if not lookup_id or cursor or timeout:
            raise InvalidParameter("a lookup needs an identifier, no cursor and no time to wait")
    elif lookup_id:
        raise InvalidParameter("a lookup id is for the actions that look it up")
    elif found.next and not cursor:
        raise InvalidParameter("a next message needs a cursor")
    return found
