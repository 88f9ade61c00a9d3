"""Negotiates presentation contexts with a client ([MS-RPCE] 3.3.1.5.3-6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from posthouse.model.errors import MalformedPacket
from posthouse.rpc import statuses
from posthouse.rpc.interface import Interface, Serve
from posthouse.rpc.pdu import ContextItem, ContextResult
from posthouse.rpc.syntax import BIND_TIME_FEATURES, NDR, NDR64, SyntaxId

SECURITY_CONTEXT_MULTIPLEXING: Final = 1
KEEP_CONNECTION_ON_ORPHAN: Final = 2
FEATURES: Final = SECURITY_CONTEXT_MULTIPLEXING | KEEP_CONNECTION_ON_ORPHAN
CONTEXTS_MAX: Final = 1024  # of one connection

UNKNOWN_SYNTAX: Final = ContextResult(
    statuses.PROVIDER_REJECTION, statuses.ABSTRACT_SYNTAX_NOT_SUPPORTED
)
UNKNOWN_TRANSFER: Final = ContextResult(
    statuses.PROVIDER_REJECTION, statuses.TRANSFER_SYNTAXES_NOT_SUPPORTED
)
TOO_MANY: Final = ContextResult(statuses.PROVIDER_REJECTION, statuses.LOCAL_LIMIT_EXCEEDED)


class Context(NamedTuple):
    """A presentation context that was accepted: an interface in one transfer syntax."""

    methods: Mapping[int, Serve]
    minimum_level: int
    ndr64: bool
    interface: Interface
    transfer: SyntaxId


Contexts = dict[int, Context]


def negotiate(
    items: Sequence[ContextItem], interfaces: Sequence[Interface], contexts: Contexts
) -> tuple[ContextResult, ...]:
    """Answers each item on its own; those that are accepted are in `contexts` then.

    Features are negotiated once, and a context that is there stays what it is.
    """
    if sum(asked_features(item) is not None for item in items) > 1:
        raise MalformedPacket("features are asked for twice")
    return tuple([_answer(item, interfaces, contexts) for item in items])


def _answer(
    item: ContextItem, interfaces: Sequence[Interface], contexts: Contexts
) -> ContextResult:
    features = asked_features(item)
    if features is not None:
        return ContextResult(statuses.NEGOTIATE_ACK, features & FEATURES)
    interface = _find(item.abstract, interfaces)
    if interface is None:
        return UNKNOWN_SYNTAX
    transfer = next((one for one in item.transfers if one in (NDR, NDR64)), None)
    if transfer is None:
        return UNKNOWN_TRANSFER
    context = Context(
        interface.methods, int(interface.minimum_level), transfer == NDR64, interface, transfer
    )
    if contexts.get(item.context_id, context)[3:] != context[3:]:
        raise MalformedPacket("a presentation context does not change")
    if item.context_id not in contexts and len(contexts) >= CONTEXTS_MAX:
        return TOO_MANY
    contexts[item.context_id] = context
    return ContextResult(statuses.ACCEPTANCE, 0, transfer)


def asked_features(item: ContextItem) -> int | None:
    """The bits of a bind-time feature negotiation; None if the item is an ordinary one."""
    uuid, major, _ = item.transfers[0]  # features are not offered among others
    if uuid.startswith(BIND_TIME_FEATURES) and major == 1:
        return int.from_bytes(uuid[8:], "little")
    return None


def _find(abstract: SyntaxId, interfaces: Sequence[Interface]) -> Interface | None:
    """The interface of that version: a server of a higher minor version serves a lower one."""
    for interface in interfaces:
        uuid, major, minor = interface.syntax
        if uuid == abstract.uuid and major == abstract.major and minor >= abstract.minor:
            return interface
    return None
