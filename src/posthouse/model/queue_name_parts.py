"""The part after the computer in path names and direct names ([MS-MQMQ] 2.1)."""

import re
from enum import Enum, IntEnum
from typing import NamedTuple

from posthouse.model.text import excerpt, utf16_length

QUEUE_NAME_LENGTH_MAX = 124
SUBQUEUE_NAME_LENGTH_MAX = 32
PRIVATE_PREFIX = "private$"
SYSTEM_PREFIX = "system$"

# The forbidden characters of MSMQ 2.0 and later, and what cannot be seen or typed: controls,
# spaces, direction marks, halves of surrogate pairs. Choice: the rest of Unicode is accepted, as
# the API has it, although the grammar stops at 0x7F.
_FORBIDDEN = re.compile(
    '[\x00-\x20"+,;\\\\\x7f-\xa0\xad\u1680\u2000-\u200b\u200e\u200f\u2028-\u202f'
    "\u205f-\u206f\u3000\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


class NameFault(ValueError):
    """What is wrong with a part of a name; its users turn it into their own error."""


class PathKind(Enum):
    """The three kinds of path names ([MS-MQMQ] 2.1.1)."""

    PUBLIC = "public"
    PRIVATE = "private"
    SYSTEM = "system"


class Suffix(IntEnum):
    """QUEUE_SUFFIX_TYPE: which part of a queue or computer is meant ([MS-MQMQ] 2.2.11)."""

    NONE = 0
    JOURNAL = 1
    DEADLETTER = 2
    DEADXACT = 3
    XACTONLY = 4
    SUBQUEUE = 5

    @property
    def text(self) -> str:
        """The semicolon and word this suffix is written as; empty for NONE and SUBQUEUE."""
        return f";{_WORDS[self]}" if self in _WORDS else ""


_WORDS = {
    Suffix.JOURNAL: "journal",
    Suffix.DEADLETTER: "deadletter",
    Suffix.DEADXACT: "deadxact",
    Suffix.XACTONLY: "xactonly",
}
SUFFIX_OF_WORD = {word: suffix for suffix, word in _WORDS.items()}
"""The words after a semicolon that are never names of subqueues."""

READ_ONLY_SUFFIXES = frozenset({Suffix.JOURNAL, Suffix.DEADLETTER, Suffix.DEADXACT})
"""Journals and dead-letter queues: only the queue manager writes to them."""


class QueuePart(NamedTuple):
    """Kind, queue, subqueue and suffix of a name ([MS-MQMQ] 2.1.1, 2.1.2)."""

    kind: PathKind
    queue: str
    subqueue: str = ""
    suffix: Suffix = Suffix.NONE

    def text(self, separator: str) -> str:
        """The canonical spelling, with the separator of the kind of name it stands in."""
        prefix = PRIVATE_PREFIX + separator if self.kind is PathKind.PRIVATE else ""
        subqueue = f";{self.subqueue}" if self.subqueue else ""
        return f"{prefix}{self.queue}{subqueue}{self.suffix.text}"

    def check(self) -> None:
        """Raise `NameFault` unless `split_queue_part(part.text(...))` gives this part again."""
        if self.kind is PathKind.SYSTEM:
            self._check_system()
            return
        check_name(self.queue, "queue name", QUEUE_NAME_LENGTH_MAX)
        if self.kind is PathKind.PUBLIC:
            _check_not_reserved(self.queue)
        if self.suffix not in (Suffix.NONE, Suffix.JOURNAL):
            raise NameFault(f"a queue has no part {self.suffix.name.lower()}, only ;journal")
        if self.subqueue:
            self._check_subqueue()

    def _check_system(self) -> None:
        if self.queue != SYSTEM_PREFIX or self.subqueue or self.suffix not in READ_ONLY_SUFFIXES:
            raise NameFault("system queues are system$;journal, ;deadletter and ;deadxact")

    def _check_subqueue(self) -> None:
        check_name(self.subqueue, "subqueue name", SUBQUEUE_NAME_LENGTH_MAX)
        if self.subqueue.casefold() in SUFFIX_OF_WORD:
            raise NameFault(f"{self.subqueue!r} is a reserved word, not a subqueue")
        if self.suffix is not Suffix.NONE:
            raise NameFault("a subqueue has no journal of its own")


def split_queue_part(text: str, separators: str) -> QueuePart:
    """Take apart what stands after the computer; any of `separators` may follow `private$`.

    Only the part's structure is looked at; `QueuePart.check` judges the names.
    """
    length = len(PRIVATE_PREFIX)
    if text[:length].lower() == PRIVATE_PREFIX and text[length : length + 1] in tuple(separators):
        return _split_suffix(PathKind.PRIVATE, text[length + 1 :])
    system, semicolon, word = text.partition(";")
    if semicolon and system.lower() == SYSTEM_PREFIX:
        suffix = SUFFIX_OF_WORD.get(word.lower(), Suffix.NONE)
        return QueuePart(PathKind.SYSTEM, SYSTEM_PREFIX, suffix=suffix)
    return _split_suffix(PathKind.PUBLIC, text)


def _split_suffix(kind: PathKind, text: str) -> QueuePart:
    queue, semicolon, word = text.partition(";")
    if semicolon and not word:
        raise NameFault("nothing follows the semicolon")
    # Reserved words first: a subqueue cannot be called journal.
    suffix = SUFFIX_OF_WORD.get(word.lower())
    if suffix is not None:
        return QueuePart(kind, queue, suffix=suffix)
    return QueuePart(kind, queue, subqueue=word)


def check_name(text: str, what: str, length_max: int) -> None:
    """Raise `NameFault` unless the text is a queue or subqueue name ([MS-MQMQ] 2.1.1)."""
    if not text:
        raise NameFault(f"the {what} is missing")
    length = utf16_length(text)
    if length > length_max:
        raise NameFault(f"the {what} has {length} characters; at most {length_max} are allowed")
    found = _FORBIDDEN.search(text)
    if found is not None:
        what_and_where = f"{describe(found[0])} (character {found.start() + 1})"
        raise NameFault(f"the {what} {excerpt(text)} must not contain {what_and_where}")


def describe(character: str) -> str:
    """A character for messages: as it is where it can be seen, else by its number."""
    if character == " ":
        return "a space"
    return repr(character) if character.isprintable() else f"U+{ord(character):04X}"


def _check_not_reserved(queue: str) -> None:
    # Compared as keys are, so that no look-alike can share the key of a system queue.
    folded = queue.casefold()
    if folded in (PRIVATE_PREFIX, SYSTEM_PREFIX) or folded.startswith(f"{PRIVATE_PREFIX}/"):
        raise NameFault(f"{excerpt(queue)} is reserved; a queue name has to follow it")
