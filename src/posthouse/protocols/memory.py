"""The shared memory budget of all protocols: which connection holds how many bytes (design.md 3).

It counts what is being received, what waits for a sync, what waits to be sent and what was fetched
to be sent; not the index of the messages, and not express messages. What a peer announces, and has
not brought yet, is *reserved*: it is not allocated, but no one else may count on it. Doors ask
before they read something large, with the size that is announced, and report what they take and
give back; the account decides who waits and who is closed. It decides only: closing, pausing and
the clock are the doors' business.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from enum import IntEnum
from typing import Final

from posthouse.model.errors import TooLittleMemory

MIB = 1 << 20
MEMORY_LIMIT = 1 << 30
UNSYNCED_MAX = 64 * MIB
SMALL_REQUEST = 64 << 10  # always read
SLOW_BYTES = 64 << 10  # what a large packet has to bring ...
SLOW_MS = 10_000  # ... in this time, or its reservation ends

TOO_LARGE: Final = "a packet is larger than [limits] memory allows"
LARGEST: Final = "memory is short, and this was the largest unfinished packet"
UNREAD: Final = "memory is short, and the peer does not read what it asked for"
TOO_SLOW: Final = "a large packet came too slowly, and others wait for memory"
STANDSTILL: Final = "memory is short, and too many large packets wait for it"


class Buffer(IntEnum):
    """What a buffer is for."""

    RECEIVE = 0
    UNSYNCED = 1
    SEND = 2
    FETCHED = 3
    ARROW = 4
    ANSWERS = 5


RECEIVE, UNSYNCED = Buffer.RECEIVE.value, Buffer.UNSYNCED.value
SEND, FETCHED = Buffer.SEND.value, Buffer.FETCHED.value
ANSWERS, UPLOADS = Buffer.ANSWERS.value, Buffer.ARROW.value


def _ignore_reason(reason: str) -> None:
    pass


def _nothing() -> None:
    pass


class Holder:
    """What one session holds. Doors keep one for each connection."""

    __slots__ = (
        "_account",
        "_looked_bytes",
        "_looked_ms",
        "_moved",
        "_read_bytes",
        "_read_ms",
        "_written",
        "address",
        "announced",
        "bytes",
        "close",
        "closing",
        "gone",
        "held",
        "lapsed",
        "lapses",
        "reserved",
        "resume",
        "waiting",
        "wanted",
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
        self.announced = 0  # size of the large packet that it may read; 0: none
        self.reserved = 0  # what of it has not come yet
        self.lapsed = False  # its packet came too slowly, and nothing is reserved for it
        self.lapses: Callable[[], None] = _nothing  # the door lets go of memory for the rest of it
        self.waiting = False  # it asked to begin and was told to wait
        self.wanted = 0  # what it waits for, if that is a size
        self.closing = self.gone = False
        self._moved = 0  # bytes that came, or were taken up as whole packets
        self._looked_ms = self._looked_bytes = 0
        self._written = 0  # bytes that waited to be sent, or were
        self._read_ms = self._read_bytes = 0

    @property
    def is_ahead_of_disk(self) -> bool:
        """Whether all together have brought more than may wait for a sync, small or large."""
        return self._account.bytes[UNSYNCED] > self._account.unsynced_max

    def may_begin(self, size: int, now_ms: int) -> bool:
        """Whether a packet of this size may be read now; False: stop reading until `resume`.

        The size is what the peer announces for the whole packet, with what has come of it. It is
        reserved until the packet is `finished`. May be asked again with another size.
        """
        if not self._account.has_room_for(self, size):
            self.wait(size)
            return False
        self._account.waits_no_more(self)
        if not (self.announced or self.lapsed):
            self._looked_ms, self._looked_bytes = now_ms, self._moved
        self._announce(size if size > SMALL_REQUEST else 0)
        return True

    def may_answer(self, size: int) -> bool:
        """Whether an answer of this size may be fetched now; False: not before `resume`."""
        if not self._account.may_hold(self, size):
            self.wait(size)
            return False
        self._account.waits_no_more(self)
        return True

    def follow(self, size: int, now: Callable[[], int]) -> bool:
        """A packet of this size is on its way, or the rest of a smaller one, or none: 0.

        Whether the door has to look again at whether it may read.
        """
        if size <= SMALL_REQUEST:
            self.finished()
            return False
        if size == self.announced:
            return False
        if self._account.is_too_large(size):
            self._account.close(self, TOO_LARGE)
        else:
            self.may_begin(size, now())
        return True

    def wait(self, size: int = 0) -> None:
        """Nothing more is read until `resume`, which comes when there may be room for the size."""
        self.wanted = size
        if not self.waiting:
            self.waiting = True
            self._account.waits(self)

    def wait_no_more(self) -> None:
        """What it waited for is not wanted."""
        self._account.waits_no_more(self)

    def finished(self) -> None:
        """The packet that was begun is whole."""
        if self.announced or self.lapsed:
            self._announce(0)

    def lapse(self) -> None:
        """The reservation ends, not the packet: `may_begin` is to be asked before it goes on."""
        self._announce(0, lapsed=True)
        self.lapses()

    def _announce(self, size: int, *, lapsed: bool = False) -> None:
        if (size > 0) != (self.announced > 0):
            self._account.count_begun(self, size > 0)
        self.announced, self.lapsed = size, lapsed
        self._account.watch(self, size > 0 or lapsed)
        self._reserve(max(size - self.bytes[RECEIVE], 0))

    def _reserve(self, size: int) -> None:
        if size != self.reserved:
            grown, self.reserved = size - self.reserved, size
            self._account.reserve(self, grown)

    def hold(self, kind: int, size: int) -> None:
        """A buffer has this many bytes now."""
        grown = size - self.bytes[kind]
        if grown > 0:
            self.take(kind, grown)
        elif grown < 0:
            self.give(kind, -grown)

    def take(self, kind: int, size: int) -> None:
        """A buffer grew by bytes that are really there; they are no longer reserved."""
        self.bytes[kind] += size
        self.held += size
        if kind == RECEIVE:
            self._moved += size
            if self.reserved:
                self._reserve(max(self.announced - self.bytes[RECEIVE], 0))
        elif kind == SEND:
            self._written += size
        self._account.took(self, kind, size)

    def give(self, kind: int, size: int) -> None:
        """Bytes are free again."""
        assert 0 <= size <= self.bytes[kind]
        self.bytes[kind] -= size
        self.held -= size
        if kind == RECEIVE:
            self._moved += size
        elif kind == SEND:
            self._written += size
        self._account.gave(self, kind, size)

    def turn(self, kind: int, other: int, size: int) -> None:
        """Bytes that were held for one purpose are held for another one, at once."""
        assert 0 <= size <= self.bytes[kind]
        self.bytes[kind] -= size
        self.bytes[other] += size
        self._written += size if other == SEND else 0
        self._account.turned(kind, other, size)

    def is_slow(self, now_ms: int) -> bool:
        """A large packet that came to less than 64 KiB since the last look, 10 s ago or more."""
        if now_ms - self._looked_ms < SLOW_MS:
            return False
        brought = self._moved - self._looked_bytes
        self._looked_ms, self._looked_bytes = now_ms, self._moved
        return brought < SLOW_BYTES

    def is_deaf(self, now_ms: int) -> bool:
        """Whether its peer has not read 64 KiB of what it asked for since a look 10 s ago."""
        if self.bytes[SEND] <= SMALL_REQUEST:
            self._read_ms = 0
            return False
        if not self._read_ms:
            self._read_ms, self._read_bytes = now_ms, self._written
        if now_ms - self._read_ms < SLOW_MS:
            return False
        read = self._written - self._read_bytes
        self._read_ms, self._read_bytes = now_ms, self._written
        return read < SLOW_BYTES

    def leave(self) -> None:
        """The session is gone, and everything it held with it."""
        if self.gone:
            return
        self._account.waits_no_more(self)
        self.finished()
        for kind, size in enumerate(self.bytes):
            if size:
                self.give(kind, size)
        self.gone = True
        self.lapses = _nothing
        self.close, self.resume = _ignore_reason, _nothing  # or it keeps its session, as a circle
        self._account.left(self)


class MemoryAccount:
    """All holders together. Above 50 % no large packet is begun; at 80 % the largest go."""

    def __init__(self, limit: int = MEMORY_LIMIT, unsynced_max: int = UNSYNCED_MAX) -> None:
        self.limit = limit
        self.unsynced_max = unsynced_max
        self.held = 0
        self.peak = 0  # the most that was held since `look_at_peak`
        self.reserved = 0  # announced, and not there yet
        self.bytes = [0] * len(Buffer)
        self.closed: Counter[str] = Counter()  # sessions closed for memory, by reason
        self.delayed = 0  # times that something large was told to wait
        self.released = 0  # reservations that ended because their packets came too slowly
        self.refused = 0  # answers and bodies refused because there was no room
        self.short = False  # above 50 %: only what was begun is read on, and what is small
        self.full = False  # from 80 %, of which too little can be let go, until below 70 %
        self.on_short: Callable[[bool], None] = lambda short: None
        self.on_full: Callable[[bool], None] = lambda full: None
        self.on_begun: Callable[[], None] = lambda: None  # `close_slow` has something to look at
        self._holders: dict[Holder, None] = {}
        self.begun: Counter[str] = Counter()  # large packets that are being read, by address
        self._watched: dict[Holder, None] = {}  # those who read them
        self._crowded = False  # somebody waits for what all together hold
        self._of_address: dict[str, int] = {}  # held and reserved
        self._leaving = 0  # held by sessions that are being closed
        # By address, who came first in front.
        self._waiting: dict[str, OrderedDict[Holder, None]] = {}
        self._resumed = ""  # the address whose holders are being asked
        self._promised: Holder | None = None  # who waits longest for what all together hold
        self._first: dict[str, Holder] = {}  # the same for what each address holds

    @property
    def used(self) -> int:
        """What is there and what is announced."""
        return self.held + self.reserved

    def open(
        self, address: str, close: Callable[[str], None], resume: Callable[[], None]
    ) -> Holder:
        """A session of that address. `close(reason)` ends it, `resume()` lets it read again."""
        holder = Holder(self, address, close, resume)
        self._holders[holder] = None
        return holder

    # -- who may have more

    def has_room_for(self, holder: Holder, size: int) -> bool:
        """Whether a holder may begin to read a packet of this size."""
        if holder.is_ahead_of_disk:
            return False  # the disk is too slow: all writers wait for it
        if size <= SMALL_REQUEST:
            return True
        more = size - max(holder.announced, holder.bytes[RECEIVE])
        if self.is_too_large(size):
            return False
        if not self._fits(holder, more, alone=True):
            return False
        # One of each address goes on in any case, or those that wait would wait for each other.
        others = self.begun[holder.address] - (holder.announced > 0)
        return not others or self._fits_address(holder, more)

    def may_hold(self, holder: Holder, size: int, instead: int = 0) -> bool:
        """Whether a holder may have this many bytes for an answer, `instead` of what it has."""
        if size <= max(SMALL_REQUEST, instead):
            return True
        # Who holds nothing else may ask for anything: the largest answer has a limit of its own.
        alone = self._of_address.get(holder.address, 0) <= instead
        is_large = 4 * size > self.limit
        fits = self._fits(holder, size, alone=is_large, instead=instead)
        return fits and (alone or self._fits_address(holder, size - instead))

    def room_for(self, holder: Holder) -> int:
        """Bytes that a holder may have for an answer now, for sure; a small answer always."""
        half = self.limit // 2 - self.used - self._kept(self._promised, holder)
        quarter = self.limit // 4 - self._of_address.get(holder.address, 0)
        quarter -= self._kept(self._first.get(holder.address), holder)
        return max(min(half, quarter), SMALL_REQUEST)

    def refusal(self, what: str, remedy: str) -> TooLittleMemory:
        """Counts a refusal and returns its error, for a request that cannot wait for memory."""
        self.refused += 1
        return TooLittleMemory(f"there is too little memory for this {what}", remedy)

    def is_too_large(self, size: int) -> bool:
        """Whether a packet could never come to its end: at 80 % its session would be closed."""
        return size > SMALL_REQUEST and 10 * size >= 7 * self.limit

    def _fits(self, holder: Holder, size: int, *, alone: bool = False, instead: int = 0) -> bool:
        """Half of all is for what was announced; what is larger than that may come alone."""
        kept, others = self._kept(self._promised, holder), self.used - instead
        fits = 2 * (others + size + kept) <= self.limit
        fits = fits or (alone and not (2 * others > self.limit or self.reserved or kept))
        self._crowded = self._crowded or not fits
        return fits

    def _fits_address(self, holder: Holder, more: int) -> bool:
        kept = self._kept(self._first.get(holder.address), holder)
        return 4 * (self._of_address.get(holder.address, 0) + more + kept) <= self.limit

    def _kept(self, first: Holder | None, holder: Holder) -> int:
        """What the first that waits will need: those who ask later, for less, leave it free."""
        return 0 if first is None or first is holder else min(first.wanted, self.limit // 4)

    # -- what holders report

    def count_begun(self, holder: Holder, begun: bool) -> None:
        """A holder begins to read a large packet, or has ended it."""
        self.begun[holder.address] += 1 if begun else -1

    def watch(self, holder: Holder, begun: bool) -> None:
        """A holder is in the middle of a large packet: `close_slow` looks at it."""
        if not begun:
            self._watched.pop(holder, None)
        elif holder not in self._watched:
            self._watched[holder] = None
            if len(self._watched) == 1:
                self.on_begun()

    def reserve(self, holder: Holder, grown: int) -> None:
        """A holder has more announced, or less."""
        self.reserved += grown
        self._note(holder.address, grown)
        self._look_at_half()
        if grown < 0 and self._waiting:
            self._let_in(holder.address)

    def took(self, holder: Holder, kind: int, size: int) -> None:
        """A holder has more; where that is too much the largest unfinished packets are let go."""
        self.held += size
        self.peak = max(self.peak, self.held)
        self.bytes[kind] += size
        self._leaving += size if holder.closing else 0
        self._note(holder.address, size)
        self._look_at_half()
        if 10 * self._lasting >= 8 * self.limit:
            self._overflow()

    def gave(self, holder: Holder, kind: int, size: int) -> None:
        """A holder has less; who waited for room may go on."""
        was_behind = self._is_disk_behind
        self.held -= size
        self.bytes[kind] -= size
        self._leaving -= size if holder.closing else 0
        self._note(holder.address, -size)
        if self.full and 10 * self._lasting < 7 * self.limit:
            self.full = False
            self.on_full(False)
        self._look_at_half()
        if not self._waiting:
            return
        if was_behind and not self._is_disk_behind:
            self._let_in_all()
        else:
            self._let_in(holder.address)

    def turned(self, kind: int, other: int, size: int) -> None:
        """A holder has bytes for another purpose."""
        self.bytes[kind] -= size
        self.bytes[other] += size

    def _note(self, address: str, grown: int) -> None:
        left = self._of_address.get(address, 0) + grown
        if left:
            self._of_address[address] = left
        else:
            self._of_address.pop(address, None)

    def _look_at_half(self) -> None:
        short = 2 * self.used > self.limit
        if short != self.short:
            self.short = short
            self.on_short(short)
            if not short:
                self._let_in_all()

    @property
    def _lasting(self) -> int:
        """All but what was fetched for answers that are being made.

        That has a limit of its own (`may_hold`), and is sent or gone in a moment. A large answer,
        which may be made alone, does not stop the messages of others.
        """
        return self.held - self.bytes[FETCHED]

    @property
    def _is_disk_behind(self) -> bool:
        """Until half of what may wait for it is written, or all would stop again at once."""
        return 2 * self.bytes[UNSYNCED] > self.unsynced_max

    # -- who waits

    def waits(self, holder: Holder) -> None:
        """A holder reads nothing until there is room."""
        self.delayed += 1
        self.on_begun()
        self._waiting.setdefault(holder.address, OrderedDict())[holder] = None
        self._promise_no_more(holder)  # it may wait for something else now
        if holder.wanted <= SMALL_REQUEST:
            return  # it waits for the disk
        if not self._fits(holder, holder.wanted):
            self._promised = self._promised or holder
        elif not self._fits_address(holder, holder.wanted):
            self._first.setdefault(holder.address, holder)

    def _promise_no_more(self, holder: Holder) -> None:
        if self._promised is holder:
            self._promised = None
        if self._first.get(holder.address) is holder:
            del self._first[holder.address]

    def waits_no_more(self, holder: Holder) -> None:
        """A holder has what it waited for, or is about to go."""
        holder.waiting = False
        self._promise_no_more(holder)
        waiting = self._waiting.get(holder.address)
        if waiting is not None:
            waiting.pop(holder, None)
            if not waiting:
                del self._waiting[holder.address]

    def _let_in(self, address: str) -> None:
        """Those of an address that has less now; others too if they wait for all."""
        if self.short or self._is_disk_behind:
            return
        self._resume(address)
        if self._crowded:
            self._let_in_all()

    def _let_in_all(self) -> None:
        """Each address in turn, until there is no room; first whose room others leave free."""
        self._crowded = False
        if self._promised is not None:
            self._resume(self._promised.address)
        for _ in range(len(self._waiting)):
            if self._crowded or self._is_disk_behind or not self._waiting:
                return
            self._resume(next(iter(self._waiting)))

    def _resume(self, address: str) -> None:
        """Those of one address, in turn, until one is told to wait on: so are those after it."""
        if self._resumed == address:
            return  # somebody there is being asked
        before, self._resumed = self._resumed, address
        while waiting := self._waiting.get(address):
            holder, _ = waiting.popitem(last=False)
            holder.waiting = False
            holder.resume()
            if holder.waiting:
                self.delayed -= 1  # it waits on, not again, and in its place
                self._waiting[address].move_to_end(holder, last=False)
                break
            self._promise_no_more(holder)
        self._resumed = before
        waiting = self._waiting.pop(address, None)
        if waiting:  # it is its turn again after all other addresses
            self._waiting[address] = waiting

    def left(self, holder: Holder) -> None:
        """A session is gone."""
        self._holders.pop(holder, None)
        if not self.begun[holder.address]:
            del self.begun[holder.address]
        if self._waiting:
            self._let_in(holder.address)

    # -- who goes

    def _overflow(self) -> None:
        """Lets unfinished and unread ones go; only where that is not enough all have to wait."""
        if 10 * (self._lasting - self._leaving) >= 7 * self.limit:
            self._relieve(RECEIVE, LARGEST)
            self._relieve(SEND, UNREAD)
        if not self.full and 10 * (self._lasting - self._leaving) >= 7 * self.limit:
            self.full = True
            self.on_full(True)

    def _relieve(self, kind: int, reason: str) -> None:
        """Down to 70 %, counting on what the closed ones will give back."""
        large = [h for h in self._holders if h.bytes[kind] and not h.closing]
        for holder in sorted(large, key=lambda h: h.bytes[kind], reverse=True):
            if 10 * (self._lasting - self._leaving) < 7 * self.limit:
                return
            self.close(holder, reason)

    def close(self, holder: Holder, reason: str) -> None:
        """Ends a session; what it holds comes back when it has left."""
        if holder.closing:
            return
        holder.closing = True
        self._leaving += holder.held
        self.closed[reason] += 1
        holder.close(reason)

    def close_slow(self, now_ms: int) -> int:
        """Ends reservations of packets that hardly come; how many sessions were closed.

        A session is closed only where others wait for what it holds, or memory is short. Where
        there is plenty it may go on, and reserves again with the next bytes that it brings.
        """
        slow = [h for h in self._watched if not h.closing and h.is_slow(now_ms)]
        wanted = self.short or bool(self._waiting)
        for holder in slow:
            self.released += holder.announced > 0
            holder.lapse()
            if wanted:
                self.close(holder, TOO_SLOW)
        closed = len(slow) + self._close_deaf(now_ms) if wanted else 0
        return closed + (self._end_standstill() if self.short else 0)

    def _close_deaf(self, now_ms: int) -> int:
        deaf = [h for h in self._holders if not h.closing and h.is_deaf(now_ms)]
        for holder in deaf:
            self.close(holder, UNREAD)
        return len(deaf)

    def look_at_peak(self) -> int:
        """The most that was held since the last look."""
        peak, self.peak = self.peak, self.held
        return peak

    @property
    def is_watched(self) -> bool:
        """Whether `close_slow` has something to look at."""
        return self.short or bool(self._watched) or bool(self._waiting)

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
            self.close(holder, STANDSTILL)
            closed += 1
        return closed
