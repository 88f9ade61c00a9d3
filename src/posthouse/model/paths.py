"""Path names of queues, parsed and printed ([MS-MQMQ] 2.1.1)."""

import re
from dataclasses import dataclass, field, replace
from functools import lru_cache

from posthouse.model.errors import IllegalQueuePathname
from posthouse.model.queue_name_parts import (
    PRIVATE_PREFIX,
    SYSTEM_PREFIX,
    NameFault,
    PathKind,
    QueuePart,
    Suffix,
    describe,
    split_queue_part,
)
from posthouse.model.text import excerpt

COMPUTER_NAME_LENGTH_MAX = 256
PATH_NAME_LENGTH_MAX = 512  # more than the parts of any path name add up to
CACHED_PATHS_MAX = 4096  # the same few names come with every request

_SEPARATORS = re.compile(r"[\\/]")
# The grammar has U+0021..U+007E. Choice: without the separators of path and format names, so
# that every printed name can be read back.
_FORBIDDEN_IN_COMPUTER = re.compile(r"[^\x21-\x7e]|[\"+,;=/\\]")


@dataclass(frozen=True, slots=True)
class PathName:
    """`Computer\\Queue`, `Computer\\private$\\Queue` or `Computer\\system$;word`.

    A subqueue or journal is the path of its queue with `subqueue` or `suffix` set. A system
    queue has the queue name `system$` and one of the three read-only suffixes.
    """

    computer: str
    queue: str
    kind: PathKind
    subqueue: str = ""
    suffix: Suffix = Suffix.NONE
    key: str = field(init=False, repr=False, compare=False)
    """The identity of the queue; letter case does not matter."""
    local_key: str = field(init=False, repr=False, compare=False)
    """The identity of the queue among those of one computer."""

    def __post_init__(self) -> None:
        try:
            check_computer(self.computer)
            self._part.check()
        except NameFault as fault:
            raise IllegalQueuePathname(str(fault)) from None
        # Choice: full case folding. It never depends on where a letter stands, as lower case does,
        # at the price that a few spellings more are one name (strasse with ss and with sharp s).
        local_key = self._part.text("\\").casefold()
        object.__setattr__(self, "local_key", local_key)
        object.__setattr__(self, "key", f"{self.computer.casefold()}\\{local_key}")

    @staticmethod
    def parse(text: str) -> "PathName":
        """Read a path name; forward slashes may stand for the separating backslashes."""
        if len(text) > PATH_NAME_LENGTH_MAX:
            raise IllegalQueuePathname(f"a path name has at most {PATH_NAME_LENGTH_MAX} characters")
        return _parse(text)

    def __str__(self) -> str:
        return f"{self.computer}\\{self._part.text(chr(92))}"

    @property
    def parent(self) -> "PathName":
        """The queue that a subqueue or journal belongs to; any other queue is its own."""
        if self.kind is PathKind.SYSTEM or not (self.subqueue or self.suffix):
            return self
        return replace(self, subqueue="", suffix=Suffix.NONE)

    @property
    def _part(self) -> QueuePart:
        return QueuePart(self.kind, self.queue, self.subqueue, self.suffix)

    def with_computer(self, computer: str) -> "PathName":
        """This path name with another computer name."""
        return replace(self, computer=computer)

    def with_subqueue(self, subqueue: str) -> "PathName":
        """The subqueue of this queue with that name."""
        return replace(self, subqueue=subqueue)

    def journal(self) -> "PathName":
        """The journal of this queue."""
        return replace(self, suffix=Suffix.JOURNAL)


@lru_cache(maxsize=CACHED_PATHS_MAX)
def _parse(text: str) -> PathName:
    separator = _SEPARATORS.search(text)
    if separator is None:
        raise IllegalQueuePathname(f"{excerpt(text)} has no backslash after the computer name")
    try:
        part = split_queue_part(text[separator.end() :], "\\/")
    except NameFault as fault:
        raise IllegalQueuePathname(f"{excerpt(text)}: {fault}") from None
    return PathName(text[: separator.start()], part.queue, part.kind, part.subqueue, part.suffix)


def check_computer(text: str) -> None:
    """Raise `NameFault` unless the text can be a computer name or address ([MS-MQMQ] 2.1.1)."""
    if not text:
        raise NameFault("the computer name is missing")
    if len(text) > COMPUTER_NAME_LENGTH_MAX:
        raise NameFault(f"a computer name has at most {COMPUTER_NAME_LENGTH_MAX} characters")
    if text.lower() in (PRIVATE_PREFIX, SYSTEM_PREFIX):
        # Else `private$\orders` would be somebody's public queue, not the mistake it is.
        raise NameFault(f"a computer name has to stand in front of {text}")
    found = _FORBIDDEN_IN_COMPUTER.search(text)
    if found is not None:
        raise NameFault(f"the computer {excerpt(text)} must not contain {describe(found[0])}")
