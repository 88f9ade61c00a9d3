"""The state of each incoming sequence, by source and host ([MS-MQDMPR] 3.1.1.5)."""

from __future__ import annotations

import struct
from collections import deque
from functools import lru_cache

import msgspec

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.parts import MachineTargets
from posthouse.engine.ledger.records import TABLE_INCOMING, Change
from posthouse.engine.queues.queue import Queue
from posthouse.engine.settings import host_key
from posthouse.engine.transfer.ended_messages import EndedMessages, message_key
from posthouse.engine.transfer.sequence_origins import Lineages, places_key, rank
from posthouse.engine.transfer.sequence_values import IncomingTransactionalTransferInfo
from posthouse.model.address_prefixes import source_of
from posthouse.model.bounded_tables import Shared
from posthouse.model.errors import QueueError
from posthouse.model.names import parse_format_name

INCOMING_MAX = 100_000  # sequences that are known; sources are names that anybody can make up
LEFT_MAX = 10_000  # of those, into queues that are deleted
NAMES_MAX = 256  # sequences of one source into a queue, from one address
HEIRS_MAX = 16  # hosts that are told what became of one message
_U32 = struct.Struct("<I")


_encode = msgspec.msgpack.Encoder().encode
_decode_incoming = msgspec.msgpack.Decoder(IncomingTransactionalTransferInfo).decode


def _key(queue: int, source: bytes, name: str) -> bytes:
    return _U32.pack(queue) + source + name.encode("utf-8", "surrogatepass")


@lru_cache(1024)
def _identity(format_name: str, host: str = "") -> str:
    """A key for a destination name: equal for names that the sender treats as the same.

    A sequence belongs to the host that it came from: a GUID can be forged, and a forged sequence
    must not mix with that of the real machine (decision 65, `sequence_origins.py`).
    """
    try:
        name = parse_format_name(format_name).key
    except QueueError:
        name = format_name.casefold()
    return f"{name} {host}" if host else name


def _message(source: bytes, format_name: str, sequence_id: int, digest: bytes) -> bytes:
    """A message among those that have ended, whatever host it came from."""
    return message_key(places_key(source, _identity(format_name), sequence_id), digest)


def _host(address: str) -> str:
    return host_key(address.partition("%")[0])


def is_of(info: IncomingTransactionalTransferInfo, name: str) -> bool:
    """Whether a sequence is for a queue by this name, whatever host it is of."""
    return _identity(info.format_name) == name


def _has_passed(info: IncomingTransactionalTransferInfo, place: tuple[int, int]) -> bool:
    """Whether a lineage may have had a message of its own at a place."""
    sequence_id, number = place
    return sequence_id != info.sequence_id or info.began < number <= info.sequence_number


def came_from(
    info: IncomingTransactionalTransferInfo,
    old: IncomingTransactionalTransferInfo | None,
    origin: IncomingTransactionalTransferInfo | None,
    messages: int = 1,
) -> None:
    """Notes where a lineage goes on from: another one, or where it did before."""
    info.accepted = messages if old is None else old.accepted + messages
    if old is not None and old.sequence_id == info.sequence_id:
        info.began = old.began
    if origin is not None:
        info.origin = origin.lineage
        reached = min(
            (origin.sequence_id, origin.sequence_number), (info.sequence_id, info.sequence_number)
        )
        info.shared_id, info.shared_number = reached
    elif old is not None:
        info.origin, info.shared_id = old.origin, old.shared_id
        info.shared_number = old.shared_number


class _Left(dict[tuple[bytes, str], int]):
    """Queues by source and name, the oldest first; and the names of each source."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[bytes, dict[str, None]] = {}

    def __setitem__(self, key: tuple[bytes, str], queue: int) -> None:
        self.names.setdefault(key[0], {})[key[1]] = None
        super().pop(key, None)
        super().__setitem__(key, queue)

    def __delitem__(self, key: tuple[bytes, str]) -> None:
        super().__delitem__(key)
        names = self.names[key[0]]
        del names[key[1]]
        if not names:
            del self.names[key[0]]


class IncomingSequences:
    """Every sequence that comes in, by queue, source, name of the queue, and host."""

    def __init__(self, core: Ledger, targets: MachineTargets) -> None:
        self.core = core
        self._targets = targets
        self.lineages = Lineages(core, self)
        self.ended = EndedMessages(core)
        # By queue and source, then by the name of the queue that the sequence is for.
        self._incoming: dict[int, dict[bytes, dict[str, IncomingTransactionalTransferInfo]]] = {}
        # Those sequences with their hosts, the latest moved last.
        self._moved: Shared[tuple[int, bytes, str], str] = Shared(lambda key, host: host)
        # Sequences into queues that are deleted by now, by source and name: which queue it was.
        self._left = _Left()

    def load_incoming(self) -> None:
        """Everything the store kept."""
        self.lineages.places.load()
        self.ended.load()
        found = [
            (_U32.unpack(key[:4])[0], _decode_incoming(value))
            for key, value in self.core.state.of_table(TABLE_INCOMING)
        ]
        for queue, info in sorted(found, key=lambda pair: pair[1].last_access_time):
            self._keep_incoming(queue, info)
        self._load_left()

    def _load_left(self) -> None:
        """What deleted queues have left."""
        change, queues = Change(), self.core.queues
        deleted = {n for n in self._incoming if n not in queues or queues[n].deleted}
        known = {key[1:] for key in self._moved if key[0] not in deleted}
        for queue, source, name in [key for key in self._moved if key[0] in deleted]:
            if (source, name) not in known:
                self._left[source, name] = queue
            elif queue not in queues:
                self._forget_incoming(queue, source, name, change)
        self.core.effects.commit(change)

    def incoming(
        self, queue: Queue, source: bytes, format_name: str = "", via: str = ""
    ) -> IncomingTransactionalTransferInfo | None:
        """What is known of a sender's sequence into a queue; without a name, of its latest.

        A sender has an outgoing queue, and so a sequence, for each name of the queue that it uses.
        """
        if via:
            return self.incoming_at(queue.number, source, format_name, via)
        found = self._incoming.get(queue.number, {}).get(source, {})
        name = _identity(format_name) if format_name else ""
        for info in reversed(found.values()):
            if not name or is_of(info, name):
                return info
        return self.incoming_at(queue.number, source, format_name) if name else None

    def own_lineage(
        self, queue: Queue, source: bytes, format_name: str, host: str, sequence_id: int
    ) -> IncomingTransactionalTransferInfo | None:
        """What is known of a sequence as a host has sent it.

        Version 0.1 kept one for all hosts: it belongs to the one that it came from last. One that
        was forgotten, because others needed its room, is known by its places.
        """
        own = self.incoming_at(queue.number, source, format_name, host)
        if own is None and host:
            old = self.incoming_at(queue.number, source, format_name)
            own = old if old is not None and _host(old.address) == host else None
        return own or self._restored(source, format_name, host, sequence_id)

    def _restored(
        self, source: bytes, format_name: str, host: str, sequence_id: int
    ) -> IncomingTransactionalTransferInfo | None:
        name = _identity(format_name, host)
        numbers = self.lineages.numbers(source, name, sequence_id)
        if not numbers:
            return None
        info = IncomingTransactionalTransferInfo(source, format_name, sequence_id, max(numbers))
        info.began, info.accepted = min(numbers) - 1, len(numbers)
        if format_name[:12].upper().startswith("DIRECT=HTTP"):
            info.via = host
        else:
            info.host = host
        return info

    def other_lineages(
        self,
        queue: Queue,
        source: bytes,
        format_name: str,
        own: IncomingTransactionalTransferInfo | None,
    ) -> list[IncomingTransactionalTransferInfo]:
        """What is known of a sequence as others have sent it; those of a deleted queue count."""
        found = self._incoming.get(queue.number, {}).get(source, {})
        left = self._left.names.get(source, {})
        if len(found) <= (own is not None) and not left:
            return []
        infos = list(found.values())
        infos += [self._incoming[self._left[source, name]][source][name] for name in left]
        name = _identity(format_name)
        others = {info.lineage: info for info in reversed(infos) if is_of(info, name)}
        return [info for info in others.values() if own is None or info.lineage != own.lineage]

    def heirs(
        self, queue: Queue, source: bytes, format_name: str, host: str, place: tuple[int, int]
    ) -> list[str]:
        """A host, those that have sent the same message, and those that have gone on from there.

        A lineage states one other that it has gone on from, while a stranger may have been before
        it with several of its messages, from several hosts: so what it had at the place counts too.
        The one of the directory comes first.
        """
        name, infos = _identity(format_name), self.incoming_of(queue, source)
        found = [host] if len(infos) == 1 else self._agreed(infos, source, name, host, place)
        hosts, next_ones = dict.fromkeys(found), dict[str, list[str]]()
        for info in infos:
            shared = info.shared_id, info.shared_number
            if info.origin is not None and place <= shared and info.lineage and is_of(info, name):
                next_ones.setdefault(info.origin, []).append(info.lineage)
        while found and len(hosts) < HEIRS_MAX:
            new = [each for each in next_ones.get(found.pop(0), ()) if each not in hosts]
            hosts |= dict.fromkeys(new)
            found += new
        return list(hosts)[:HEIRS_MAX]

    def _agreed(
        self,
        infos: list[IncomingTransactionalTransferInfo],
        source: bytes,
        name: str,
        host: str,
        place: tuple[int, int],
    ) -> list[str]:
        """A host, and those that had the same at a place, the one with most messages first."""
        near = [info for info in infos if _has_passed(info, place) and is_of(info, name)]
        known = {info.lineage: self.lineages.content(info, place) for info in near}
        digest = known.pop(host, None)
        if digest is None or not known:
            return [host]
        vouched = self._targets.knows_machine(source)
        same = [i for i in near if known.get(i.lineage) == digest and (i.lineage or vouched)]
        same.sort(key=lambda info: (not info.lineage, rank(info)), reverse=True)
        return [host, *(info.lineage for info in same)]

    def note_end(
        self,
        source: bytes,
        format_name: str,
        host: str,
        place: tuple[int, int],
        message_class: int,
        change: Change,
    ) -> None:
        """A message of a host has ended; the answer of that class is for those who send it again.

        What it said has to be known: anybody could ask for it otherwise.
        """
        digest = self._content(source, format_name, host, place)
        if digest is not None:
            key = _message(source, format_name, place[0], digest)
            self.ended.note(key, message_class, host, change)

    def end_of(
        self, source: bytes, format_name: str, host: str, place: tuple[int, int], digest: bytes
    ) -> int:
        """How a message ended that came from another host before, as the class of its answer.

        0: it has not ended, or it came from this host too, which was told then.
        """
        if self._content(source, format_name, host, place) == digest:
            return 0
        return self.ended.class_of(_message(source, format_name, place[0], digest))

    def _content(
        self, source: bytes, format_name: str, host: str, place: tuple[int, int]
    ) -> bytes | None:
        """What a host has sent at a place; None where that is not known."""
        key = places_key(source, _identity(format_name, host), place[0])
        return self.lineages.content_at(key, place[1])

    def name_of(self, info: IncomingTransactionalTransferInfo) -> str:
        """What a lineage is known by, beside its source."""
        return _identity(info.format_name, info.lineage)

    def incoming_at(
        self, number: int, source: bytes, format_name: str, via: str = ""
    ) -> IncomingTransactionalTransferInfo | None:
        """The sequence into a queue that may be deleted.

        A queue made again goes on where the last one of the name was: its senders do.
        """
        name = _identity(format_name, via)
        found = self._incoming.get(number, {}).get(source, {}).get(name)
        if found is None and (source, name) in self._left:
            return self._incoming[self._left[source, name]][source][name]
        return found

    def has_left(self, source: bytes) -> bool:
        """Whether a source has sent into a queue that is deleted by now."""
        return source in self._left.names

    def left_behind(
        self, source: bytes, format_name: str, place: tuple[int, int], host: str, digest: bytes
    ) -> int:
        """The deleted queue of this name into which this place of a sequence came; 0: none."""
        name = _identity(format_name)
        for key in self._left.names.get(source, ()):
            queue = self._left[source, key]
            info = self._incoming[queue][source][key]
            own = info.lineage == host or (not info.lineage and _host(info.address) == host)
            if not is_of(info, name) or place > (info.sequence_id, info.sequence_number):
                continue
            if own or self.lineages.content(info, place) == digest:
                return queue
        return 0

    def incoming_of(
        self, queue: Queue, source: bytes | None = None
    ) -> list[IncomingTransactionalTransferInfo]:
        """All sequences into a queue, or those of one sender."""
        return self.all_at(queue.number, source)

    def all_at(
        self, number: int, source: bytes | None = None
    ) -> list[IncomingTransactionalTransferInfo]:
        """All sequences into a queue that may be deleted, or those of one sender."""
        senders = self._incoming.get(number, {})
        chosen = list(senders.values()) if source is None else [senders.get(source, {})]
        return [info for found in chosen for info in found.values()]

    def all_incoming(self) -> list[tuple[int, IncomingTransactionalTransferInfo]]:
        """Every sequence, with the number of its queue."""
        return [(number, info) for number in self._incoming for info in self.all_at(number)]

    def accept(
        self,
        queue: Queue,
        source: bytes,
        format_name: str,
        sequence_id: int,
        number: int,
        change: Change,
        address: str = "",
        host: str = "",
        origin: IncomingTransactionalTransferInfo | None = None,
        first: int = 0,
        messages: int = 1,
    ) -> IncomingTransactionalTransferInfo:
        """Decision 22: the sequence moves on in the same commit as the accepted message.

        `origin` is the lineage that this one goes on from; `first` is the first number of a run of
        messages.
        """
        old = self.own_lineage(queue, source, format_name, host, sequence_id)
        rejected = 0 if old is None else old.rejected
        info = IncomingTransactionalTransferInfo(
            source, format_name, sequence_id, number, self.core.utc, rejected, 0, address
        )
        info.host = host
        info.began = (first or number) - 1
        came_from(info, old, origin, messages)
        self.keep_incoming(queue.number, info, change)
        return info

    def count_reject(
        self,
        queue: Queue,
        old: IncomingTransactionalTransferInfo,
        change: Change,
        address: str = "",
    ) -> None:
        """Count a rejected message of a sequence that was found.

        In the same step as the messages in front of it: where the sequence is may be new with them.
        """
        rejected = old.rejected + 1
        info = msgspec.structs.replace(
            old,
            last_access_time=self.core.utc,
            reject_count=rejected,
            rejected=rejected,
            address=address or old.address,
        )
        self.keep_incoming(queue.number, info, change)

    def keep_incoming(
        self, queue: int, info: IncomingTransactionalTransferInfo, change: Change | None
    ) -> None:
        """What is known of a sequence into a queue from now on."""
        name = self._keep_incoming(queue, info)
        if not info.rejected:
            self.lineages.moved_on((queue, info.source, info.format_name, info.lineage))
        self.core.define(TABLE_INCOMING, _key(queue, info.source, name), _encode(info), change)
        self._take_over(queue, info.source, name, change)
        if len(self._incoming[queue][info.source]) > NAMES_MAX:
            self._forget_surplus(queue, info, change)
        if len(self._moved) > INCOMING_MAX:
            self._forget_incoming(*self._moved.surplus(), change)

    def _forget_surplus(
        self, queue: int, info: IncomingTransactionalTransferInfo, change: Change | None
    ) -> None:
        """Bounds the sequences of one source and network: names can be forged, and so can hosts.

        A redirection may lead any name to a queue, and an IPv6 network has any number of hosts. A
        sender that exceeds the limit loses sequences of its own network, those with the fewest
        messages first but not the latest; other networks with the same GUID lose none.
        """
        found, share = self._incoming[queue][info.source], source_of(info.lineage)
        its_own = [name for name, other in found.items() if source_of(other.lineage) == share]
        if len(its_own) > NAMES_MAX:
            least = min(its_own[:-1], key=lambda name: found[name].accepted)
            self._forget_incoming(queue, info.source, least, change)

    def _forget_incoming(self, queue: int, source: bytes, name: str, change: Change | None) -> None:
        """A sender that comes back after this many others begins a new sequence, as a rule."""
        del self._moved[queue, source, name]
        if self._left.get((source, name)) == queue:
            del self._left[source, name]
        senders = self._incoming[queue]
        del senders[source][name]
        if not senders[source]:
            del senders[source]
        if not senders:
            del self._incoming[queue]
        self.core.define(TABLE_INCOMING, _key(queue, source, name), None, change)

    def _keep_incoming(self, queue: int, info: IncomingTransactionalTransferInfo) -> str:
        found = self._incoming.setdefault(queue, {}).setdefault(info.source, {})
        name = _identity(info.format_name, info.lineage)
        found.pop(name, None)
        found[name] = info  # the latest comes last
        self._moved[queue, info.source, name] = info.lineage
        return name

    def reset(
        self, queue: Queue, source: bytes | None, host: str | None, *, dry_run: bool
    ) -> list[IncomingTransactionalTransferInfo]:
        """An operator's: the next message of these sequences is taken, whatever its place.

        Those of one source, or of one host, or all. What was accepted and not acknowledged comes
        again, and it is unknown here.
        """
        found = [
            info
            for info in self.incoming_of(queue, source)
            if host is None or host in (info.lineage, _host(info.address))
        ]
        change = Change()
        for info in found if not dry_run else ():
            fresh = IncomingTransactionalTransferInfo(
                info.source, info.format_name, last_access_time=self.core.utc, address=info.address
            )
            fresh.via, fresh.host, fresh.anew = info.via, info.host, True
            fresh.stream_id, fresh.receipts_to = info.stream_id, info.receipts_to
            fresh.receipts_as = info.receipts_as
            self.keep_incoming(queue.number, fresh, change)
        self.core.commit(change)
        return found

    # -- sequences of deleted queues

    def queue_deleted(self, queue: Queue, change: Change) -> None:
        """The sequences of a deleted queue are still known.

        What was accepted is not to be taken for new when its sender sends it again, into another
        queue of the name, nor refused: it has had its end. And what follows it has to follow.
        """
        for info in self.incoming_of(queue):
            key = info.source, _identity(info.format_name, info.lineage)
            self._left[key] = queue.number
        if len(self._left) > LEFT_MAX:
            self._forget_left(change)

    def _forget_left(self, change: Change) -> None:
        """What is too much: the oldest of the address that has most of them, each time."""
        shares: dict[str, deque[tuple[bytes, str]]] = {}
        for source, name in self._left:
            info = self._incoming[self._left[source, name]][source][name]
            shares.setdefault(source_of(info.lineage), deque()).append((source, name))
        while len(self._left) > LEFT_MAX:
            source, name = max(shares.values(), key=len).popleft()
            self._forget_incoming(self._left[source, name], source, name, change)

    def _take_over(self, queue: int, source: bytes, name: str, change: Change | None) -> None:
        """A queue goes on with a sequence that another of its name has left.

        As long as there are messages of that, it is known where their streams are answered.
        """
        before = self._left.get((source, name), queue)
        if before != queue:
            if before in self.core.queues:
                del self._left[source, name]
            else:
                self._forget_incoming(before, source, name, change)

    def queue_emptied(self, queue: Queue, change: Change) -> None:
        """The last message of a deleted queue is gone: what another has taken over goes too."""
        for info in self.incoming_of(queue):
            name = _identity(info.format_name, info.lineage)
            if self._left.get((info.source, name)) != queue.number:
                self._forget_incoming(queue.number, info.source, name, change)
