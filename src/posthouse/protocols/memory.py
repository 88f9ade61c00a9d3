"""The one account of memory for all doors (design.md 3): who holds how many bytes in buffers.

It counts what is being received, what waits for a sync, what waits to be sent and what was fetched
to be sent; not the index of the messages, and not express messages. Doors ask before they begin to
read something large, and say what they take and give back; the account tells whom to pause and
whom to close. It decides only: closing, pausing and the clock are the doors' business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from enum import IntEnum

from posthouse.model.errors import InsufficientResources

MIB = 1 << 20
MEMORY_LIMIT = 1 << 30
UNSYNCED_MAX = 64 * MIB
SMALL_REQUEST = 64 << 10  # always read
SLOW_BYTES = 64 << 10  # what a large packet has to bring ...
SLOW_MS = 10_000  # ... in this time while memory is short


class Buffer(IntEnum):
    """What a buffer is for."""

    RECEIVE = 0
    UNSYNCED = 1
    SEND = 2
    FETCHED = 3
    ARROW = 4


RECEIVE, UNSYNCED = Buffer.RECEIVE.value, Buffer.UNSYNCED.value
SEND, FETCHED = Buffer.SEND.value, Buffer.FETCHED.value


class Holder:
    """What one session holds. Doors keep one for each connection."""

    __slots__ = (
        "_account",
        "_begun",
        "_looked_bytes",
        "_looked_ms",
        "address",
        "bytes",
        "close",
        "closing",
        "gone",
        "held",
        "resume",
        "waiting",
    )

    def __init__(
        self,
        account: MemoryAccount,
        address: str,
        close: Callable[[str], None],
        resume: Callable[[], None],
    ) -> None:
        self._account = account
        self.address = address
        self.close = close
        self.resume = resume
        self.bytes = [0] * len(Buffer)
        self.held = 0
        self.waiting = False  # it asked to begin and was told to wait
        self.closing = self.gone = False
        self._begun = False
        self._looked_ms = self._looked_bytes = 0

    @property
    def unfinished(self) -> int:
        """Bytes of a packet that is not whole yet."""
        return self.bytes[RECEIVE] if self._begun else 0

    @property
    def is_ahead_of_disk(self) -> bool:
        """Whether all together have brought more than may wait for a sync, small or large."""
        return self._account.bytes[UNSYNCED] > self._account.unsynced_max

    def may_begin(self, size: int, now_ms: int) -> bool:
        """Whether a packet of this size may be read now; False: stop reading until `resume`."""
        if not self._account.has_room_for(self, size):
            self.wait()
            return False
        self.waiting = False
        self._account.waits_no_more(self)
        self._note_begun(size > SMALL_REQUEST)
        self._looked_ms, self._looked_bytes = now_ms, self.bytes[RECEIVE]
        return True

    def wait(self) -> None:
        """Nothing more is read until `resume`."""
        self.waiting = True
        self._account.waits(self)

    def finished(self) -> None:
        """The packet that was begun is whole."""
        self._note_begun(False)

    def _note_begun(self, begun: bool) -> None:
        if begun != self._begun:
            self._begun = begun
            self._account.begun[self.address] += 1 if begun else -1

    def hold(self, kind: int, size: int) -> None:
        """A buffer has so many bytes now."""
        grown = size - self.bytes[kind]
        if grown > 0:
            self.take(kind, grown)
        elif grown < 0:
            self.give(kind, -grown)

    def take(self, kind: int, size: int) -> None:
        """A buffer grew by so many bytes that are really there."""
        self.bytes[kind] += size
        self.held += size
        self._account.took(self, kind, size)

    def give(self, kind: int, size: int) -> None:
        """So many bytes are free again."""
        assert 0 <= size <= self.bytes[kind]
        self.bytes[kind] -= size
        self.held -= size
        self._account.gave(self, kind, size)

    def is_slow(self, now_ms: int) -> bool:
        """A large packet that came to less than 64 KiB since the last look, 10 s ago or more."""
        if not self._begun or now_ms - self._looked_ms < SLOW_MS:
            return False
        brought = self.bytes[RECEIVE] - self._looked_bytes
        self._looked_ms, self._looked_bytes = now_ms, self.bytes[RECEIVE]
        return brought < SLOW_BYTES

    def leave(self) -> None:
        """The session is gone, and everything it held with it."""
        self.waiting = False
        self._account.waits_no_more(self)
        self._note_begun(False)
        for kind, size in enumerate(self.bytes):
            if size:
                self.give(kind, size)
        self.gone = True
        self._account.left(self)


class Loan:
    """What one request has fetched for its answer; `end` gives all of it back."""

    def __init__(self, account: MemoryAccount, holder: Holder) -> None:
        self._account = account
        self._holder = holder
        self._size = 0

    def change(self, size: int) -> None:
        """So many bytes more, which may be refused, or fewer."""
        holder = self._holder
        if holder.gone:  # what runs on for nobody is not counted
            return
        if size > 0:
            if not self._account.may_hold(holder, size):
                raise InsufficientResources(
                    "there is too little memory for this answer", "Ask for less, or try again."
                )
            holder.take(FETCHED, size)
        elif size < 0:
            holder.give(FETCHED, -size)
        self._size += size

    def end(self) -> None:
        """The answer is there, or nobody wants it any more."""
        self.change(-self._size)


class MemoryAccount:
    """All holders together. Above 50 % no large packet is begun; at 80 % the largest go."""

    def __init__(self, limit: int = MEMORY_LIMIT, unsynced_max: int = UNSYNCED_MAX) -> None:
        self.limit = limit
        self.unsynced_max = unsynced_max
        self.held = 0
        self.bytes = [0] * len(Buffer)
        self.closed = 0  # sessions closed for memory, for the metrics
        self.short = False  # above 50 %: only what was begun is read on, and what is small
        self.full = False  # from 80 % until below 70 %
        self.on_short: Callable[[bool], None] = lambda short: None
        self.on_full: Callable[[bool], None] = lambda full: None
        self._holders: dict[Holder, None] = {}
        self.begun: Counter[str] = Counter()  # large packets that are being read, by address
        self._of_address: dict[str, int] = {}
        self._waiting: dict[str, dict[Holder, None]] = {}  # by address, who came first in front

    def open(
        self, address: str, close: Callable[[str], None], resume: Callable[[], None]
    ) -> Holder:
        """A session of that address. `close(reason)` ends it, `resume()` lets it read again."""
        holder = Holder(self, address, close, resume)
        self._holders[holder] = None
        return holder

    def has_room_for(self, holder: Holder, size: int) -> bool:
        """Whether a holder may begin to read so many bytes."""
        if holder.is_ahead_of_disk:
            return False  # the disk is behind: everybody who writes waits for it
        # One of each address goes on in any case, or those that wait would wait for each other.
        return self.may_hold(holder, size) or not (self.short or self.begun[holder.address])

    def may_hold(self, holder: Holder, size: int) -> bool:
        """Whether a holder may have so many bytes more, to read or to answer."""
        if size <= SMALL_REQUEST:
            return True
        of_address = self._of_address.get(holder.address, 0)
        # Who holds nothing may begin anything: what is too large is closed as it grows.
        fits = not of_address or 4 * (of_address + size) <= self.limit
        return not self.short and fits

    def took(self, holder: Holder, kind: int, size: int) -> None:
        """A holder has more; where that is too much the largest unfinished packets are let go."""
        self.held += size
        self.bytes[kind] += size
        self._of_address[holder.address] = self._of_address.get(holder.address, 0) + size
        if not self.short and 2 * self.held > self.limit:
            self.short = True
            self.on_short(True)
        if 10 * self.held >= 8 * self.limit:
            self._overflow()

    def _overflow(self) -> None:
        if not self.full:
            self.full = True
            self.on_full(True)
        self._relieve()

    def _relieve(self) -> None:
        """Down to 70 %, counting on what the closed ones will give back."""
        held = self.held - sum(h.held for h in self._holders if h.closing)
        unfinished = [h for h in self._holders if h.unfinished and not h.closing]
        for holder in sorted(unfinished, key=lambda h: h.unfinished, reverse=True):
            if 10 * held < 7 * self.limit:
                return
            held -= holder.held
            self._close(holder, "memory is short, and this was the largest unfinished packet")

    def _close(self, holder: Holder, reason: str) -> None:
        holder.closing = True
        self.closed += 1
        holder.close(reason)

    def gave(self, holder: Holder, kind: int, size: int) -> None:
        """A holder has less; who waited for room may go on."""
        was_behind = self._is_disk_behind
        self.held -= size
        self.bytes[kind] -= size
        left = self._of_address.get(holder.address, 0) - size
        if left:
            self._of_address[holder.address] = left
        else:
            self._of_address.pop(holder.address, None)
        if self.full and 10 * self.held < 7 * self.limit:
            self.full = False
            self.on_full(False)
        if self.short and 2 * self.held <= self.limit:
            self.short = False
            self.on_short(False)
            self._resume_all()
        elif not self._waiting:
            return
        elif was_behind and not self._is_disk_behind:
            self._resume_all()
        else:
            self._resume(holder.address)

    @property
    def _is_disk_behind(self) -> bool:
        """Until half of what may wait for it is written, or all would stop again at once."""
        return 2 * self.bytes[UNSYNCED] > self.unsynced_max

    def waits(self, holder: Holder) -> None:
        """A holder reads nothing until there is room."""
        self._waiting.setdefault(holder.address, {})[holder] = None

    def waits_no_more(self, holder: Holder) -> None:
        """A holder is about to go."""
        self._waiting.get(holder.address, {}).pop(holder, None)

    def _resume_all(self) -> None:
        for address in list(self._waiting):
            self._resume(address)

    def _resume(self, address: str) -> None:
        """Those of one address, in turn, until one is told to wait on: so are those behind it."""
        waiting = self._waiting.get(address)
        if waiting is None or self.short or self._is_disk_behind:
            return
        for holder in list(waiting):
            waiting.pop(holder, None)
            holder.waiting = False
            holder.resume()
            if holder.waiting:
                break
        if not self._waiting.get(address, True):
            del self._waiting[address]

    def left(self, holder: Holder) -> None:
        """A session is gone."""
        self._holders.pop(holder, None)
        if not self.begun[holder.address]:
            del self.begun[holder.address]
        self._resume(holder.address)

    def close_slow(self, now_ms: int) -> int:
        """While memory is short, ends sessions whose large packets hardly come; how many."""
        if not self.short:
            return 0
        slow = [h for h in self._holders if not h.closing and h.is_slow(now_ms)]
        for holder in slow:
            self._close(holder, "memory is short, and a large packet came too slowly")
        return len(slow) + self._end_standstill()

    def _end_standstill(self) -> int:
        """Ends sessions that wait for what only others that wait hold; how many.

        What waits to be sent or synced goes by itself, and what is being read is watched.
        """
        waiting = [h for h in self._holders if h.waiting and not h.closing]
        held = sum(h.bytes[RECEIVE] for h in waiting)
        closed = 0
        for holder in sorted(waiting, key=lambda h: h.bytes[RECEIVE], reverse=True):
            if 2 * held <= self.limit:
                break
            held -= holder.bytes[RECEIVE]
            self._close(holder, "memory is short, and too many large packets wait for it")
            closed += 1
        return closed
