"""Patterns over queue path names, as tokens carry them: `*`, `?` and case-insensitive text."""

from typing import Final

from posthouse.model.errors import InvalidParameter

PATTERN_LENGTH_MAX: Final = 256
_SYSTEM: Final = "system$;"


def normal_path(path: str) -> str:
    """A path name in one spelling; the local computer is left out: `private$\\orders`.

    Only the leading `.` means the local computer here; another name stays part of the text, so
    that a right on a local queue never covers one of the same name elsewhere.
    """
    text = path.replace("/", "\\").casefold()
    return text.removeprefix(".\\")


def check_pattern(pattern: str) -> str:
    """The pattern in one spelling; empty and over-long ones are refused."""
    if not 0 < len(pattern) <= PATTERN_LENGTH_MAX:
        raise InvalidParameter(f"a queue pattern has 1 to {PATTERN_LENGTH_MAX} characters")
    return normal_path(pattern)


def is_masked(pattern: str, queue: str) -> bool:
    """Whether a mask with a pattern counts for a queue, named as the queue manager names it.

    A subqueue or a journal counts with its own name and with that of its queue. Dead letters and
    the system's journal hold messages of any queue, so their queues count for every pattern, and so
    do names of other kinds, such as those of outgoing queues.
    """
    computer, slash, rest = queue.partition("\\")
    if not slash or "=" in computer or rest.casefold().startswith(_SYSTEM):
        return True
    return matches_pattern(pattern, ".\\" + rest) or matches_pattern(
        pattern, ".\\" + rest.partition(";")[0]
    )


def matches_pattern(pattern: str, path: str) -> bool:
    """Whether the pattern covers the whole path name; time grows with the product of lengths."""
    pattern, path = normal_path(pattern), normal_path(path)
    at = text_at = 0
    star = retry = -1
    while text_at < len(path):
        if at < len(pattern) and pattern[at] == "*":
            star, retry = at, text_at
            at += 1
        elif at < len(pattern) and pattern[at] in ("?", path[text_at]):
            at += 1
            text_at += 1
        elif star >= 0:
            retry += 1
            at, text_at = star + 1, retry
        else:
            return False
    return not pattern[at:].strip("*")
