"""Signed messages that came into authenticated queues: finds copies of them.

A signature covers neither the identifier nor the time of a message, so a stranger who has seen a
signed message can send it again under another number. What was signed is remembered as a digest,
for `[security] signed_history_s`, in the step that takes the message in. Only messages whose
signature proves a sender get in here, so that strangers push nothing out.

Windows signs nothing that differs between two equal messages of one sender. So equal content from
the address that sent it before is a new message, unless `[security] signed_repeats` refuses it.

Somebody who has captured a message may be faster than its machine, and change what is not signed:
its identifier, or the time that it has. So what came from elsewhere does not stand in the way of a
machine that sends from its place in the directory, or over a router there.
"""

from __future__ import annotations

import struct
from enum import Enum
from hashlib import blake2b
from typing import NamedTuple

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.records import TABLE_SIGNED, Change
from posthouse.engine.queues.queue import Queue
from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.model.guids import format_guid
from posthouse.security.settings import SAME_ADDRESS, MessageSecuritySettings

DIGEST_SIZE = 16
_QUEUE = struct.Struct("<I")
_KNOWN = struct.Struct("<I8s8s")  # when, UTC seconds; under which identifier; from which host
_NOBODY = bytes(8)  # followed by the machine that the directory vouched for, or by nothing


class Copy(Enum):
    """What a signed message is to those that came before it."""

    NONE = "none"  # it is the first, or its sender has sent the same content again
    RESENT = "resent"  # under the same identifier: its sender has not learned that it is here
    REPLAYED = "replayed"  # under another one, from another address


class SignedMessage(NamedTuple):
    """A message whose signature proves a sender."""

    digest: bytes  # of what is signed, and by whom
    source: bytes  # with the ordinal: its identifier, which is not signed
    ordinal: int
    one_queue: bool = False  # what is signed names this message: no queue gets another copy


class SignedHistory:
    """Digests of signed messages, the oldest first."""

    def __init__(self, core: Ledger) -> None:
        self.core = core
        self._known: dict[bytes, bytes] = {}

    def load(self) -> None:
        """What the log kept."""
        entries = self.core.state.of_table(TABLE_SIGNED)
        self._known = dict(sorted(entries, key=lambda entry: _KNOWN.unpack_from(entry[1])[0]))

    def __len__(self) -> int:
        return len(self._known)

    def enter(
        self,
        queue: Queue,
        message: SignedMessage,
        peer: Peer,
        settings: MessageSecuritySettings,
        change: Change,
        *,
        is_vouched_for: bool = False,
    ) -> Copy:
        """Whether it is a copy; if not, it is remembered with the step that takes it in.

        `is_vouched_for`: the directory has its source where it comes from.
        """
        kept_s = settings.signed_history_s
        if not queue.definition.authentication or not kept_s:
            return Copy.NONE
        self._drop_old(kept_s, change)
        key, identifier = _key(queue, message), _identifier(message)
        machine = _machine(message) if is_vouched_for else _NOBODY
        copy = self._copy(key, identifier, message, peer, settings, machine)
        if copy is Copy.NONE:
            known = _KNOWN.pack(self.core.utc, identifier, _host(peer)) + machine
            self._remember(key, known, settings.signed_history_max, change)
        elif copy is Copy.RESENT:
            self.core.refusals["duplicate"] += 1
        else:
            self._tell(queue, message, peer)
        return copy

    def _copy(
        self,
        key: bytes,
        identifier: bytes,
        message: SignedMessage,
        peer: Peer,
        settings: MessageSecuritySettings,
        machine: bytes,
    ) -> Copy:
        known = self._known.get(key)
        if known is None:
            return Copy.NONE
        _, known_identifier, host = _KNOWN.unpack_from(known)
        known_machine = known[_KNOWN.size :]  # nothing: before version 0.2
        if machine != _NOBODY and known_machine == _NOBODY and host != _host(peer):
            return Copy.NONE
        if known_identifier == identifier:
            return Copy.RESENT
        repeats = settings.signed_repeats == SAME_ADDRESS and not message.one_queue
        is_its_own = host == _host(peer) or (machine != _NOBODY and machine == known_machine)
        return Copy.NONE if repeats and is_its_own else Copy.REPLAYED

    def _remember(self, key: bytes, known: bytes, entries_max: int, change: Change) -> None:
        self._known.pop(key, None)  # so that it is the newest
        while len(self._known) >= entries_max:
            self._drop(next(iter(self._known)), change)
        self._known[key] = known
        self.core.define(TABLE_SIGNED, key, known, change)

    def _drop_old(self, kept_s: int, change: Change) -> None:
        limit = self.core.utc - kept_s
        while self._known:
            key, value = next(iter(self._known.items()))
            if _KNOWN.unpack_from(value)[0] >= limit:
                return
            self._drop(key, change)

    def _drop(self, key: bytes, change: Change) -> None:
        del self._known[key]
        self.core.define(TABLE_SIGNED, key, None, change)

    def _tell(self, queue: Queue, message: SignedMessage, peer: Peer) -> None:
        self.core.refusals["replayed"] += 1
        self.core.event(
            "replay_refused",
            queue=queue.name,
            address=peer.address,
            source=format_guid(message.source),
        )


def _key(queue: Queue, message: SignedMessage) -> bytes:
    """Copies of one message to several queues are as many messages, unless it names itself."""
    place = b"" if message.one_queue else _QUEUE.pack(queue.number)
    return blake2b(place + message.digest, digest_size=DIGEST_SIZE).digest()


def _identifier(message: SignedMessage) -> bytes:
    text = message.source + message.ordinal.to_bytes(8, "little")
    return blake2b(text, digest_size=8).digest()


def _machine(message: SignedMessage) -> bytes:
    return blake2b(message.source, digest_size=8).digest()


def _host(peer: Peer) -> bytes:
    return blake2b(peer.host.encode(), digest_size=8).digest()
