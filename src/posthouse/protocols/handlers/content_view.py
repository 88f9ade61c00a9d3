"""How much content of messages a caller's role shows: all, none, or with fields masked.

A mask is `ROLE QUEUES PATH`: it counts for that role and the smaller ones, in queues whose path
matches. A body that the masks of its queue cannot be applied to is left out, extension included.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from posthouse.formats.masks import MaskPath, Masks, parse_mask
from posthouse.formats.search import content_of
from posthouse.model.errors import AccessDenied, InvalidParameter
from posthouse.model.filters import Filter, parse_filter
from posthouse.model.message_json import MessageJson, body_text, text_body
from posthouse.model.roles import Role
from posthouse.model.text import excerpt
from posthouse.security.patterns import check_pattern, is_masked

_REMEDY: Final = "Use a token of role read, or of a role that includes it."
_MASKED_ROLES: Final = {"read": Role.READ, "operate": Role.OPERATE}


class Mask(NamedTuple):
    """A field of bodies that a role does not see."""

    role: Role
    pattern: str
    path: MaskPath


def parse_masks(texts: Iterable[str]) -> tuple[Mask, ...]:
    """The masks of `[admin] masks`; InvalidParameter for what is not one."""
    masks = []
    for text in texts:
        words = text.split(None, 2)
        if len(words) != 3 or words[0] not in _MASKED_ROLES:
            raise InvalidParameter(
                f"{excerpt(text)} is not a mask",
                r"Write: read .\private$\orders* $.card.number; roles are read and operate.",
            )
        masks.append(Mask(_MASKED_ROLES[words[0]], check_pattern(words[1]), parse_mask(words[2])))
    return tuple(masks)


class ContentView:
    """Messages as the callers of one role see them.

    Every answer with messages goes through this, and every filter compares what comes out of it:
    what a role does not see it cannot find out by asking either.
    """

    def __init__(self, role: Role, masks: Iterable[Mask] = ()) -> None:
        self.role = role
        self.shows_content = role.includes(Role.READ)
        self._masks = [mask for mask in masks if mask.role.includes(role)]

    @property
    def patterns(self) -> tuple[str, ...]:
        """The queues in which something is masked for this role."""
        return tuple(dict.fromkeys(mask.pattern for mask in self._masks))

    def shown(self, message: MessageJson) -> MessageJson:
        """The message, with as much of its content as the role sees."""
        if not self.shows_content:
            return without_content(message)
        paths = [mask.path for mask in self._masks if is_masked(mask.pattern, message.queue)]
        return masked(message, Masks(paths)) if paths else message

    def require_content(self, what: str) -> None:
        """Refuses what is of no use without content."""
        if not self.shows_content:
            raise AccessDenied(f"the role look does not see {what}", _REMEDY)

    def require_whole(self, queue: str) -> None:
        """Refuses what gives messages as they are, where some of it is masked."""
        if any(is_masked(pattern, queue) for pattern in self.patterns):
            raise AccessDenied(
                f"the role {self.role.value} sees messages of this queue with masks only",
                "Look at them with posthouse message show, or use a token of role administer, "
                "narrowed to the queue with --queue.",
            )

    def filter(self, text: str) -> Filter:
        """A filter; one that asks for content is refused where none is seen."""
        where = parse_filter(text, content_of)
        if where.reads_content:
            self.require_content("the content of messages, so it cannot search it")
        return where


def content_views(masks: Iterable[Mask] = ()) -> dict[Role, ContentView]:
    """The views of all roles."""
    masks = tuple(masks)
    return {role: ContentView(role, masks) for role in Role}


def masked(message: MessageJson, masks: Masks) -> MessageJson:
    """A message with fields of its body masked; one that cannot be masked has no content."""
    body = message.body
    if not body:
        return message if body is not None else without_content(message)
    text = masks.masked(body, body_text(body, message.body_type))
    if text is None:
        return without_content(message)
    written = text_body(text, message.body_type)
    return msgspec.structs.replace(
        message,
        body=written,
        body_text=text,
        decoded=msgspec.UNSET,
    )


def without_content(message: MessageJson) -> MessageJson:
    """A message without its body, its extension and what they mean."""
    return msgspec.structs.replace(
        message,
        body=None,
        body_text=None,
        extension=None,
        decoded=msgspec.UNSET,
        traceparent=msgspec.UNSET,
        tracestate=msgspec.UNSET,
    )
