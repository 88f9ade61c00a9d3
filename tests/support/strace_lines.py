"""Reads the output of strace."""

from __future__ import annotations

import re
from typing import NamedTuple

LINE = re.compile(r"^(?P<pid>\d+)\s+(?P<call>\w+)\((?P<rest>.*)$")


RESUMED = re.compile(r"^(?P<pid>\d+)\s+<\.\.\. (?P<call>\w+) resumed>(?P<rest>.*)$")


DESCRIPTOR = re.compile(r"^\d+<(?P<path>[^>]*)>")


ON_RETURN = {"fdatasync", "fsync", "openat"}  # they count when they are done, a write at once


class Call(NamedTuple):
    """A system call and the file it was about."""

    name: str
    path: str
    text: str


def parsed(text: str) -> list[Call]:
    """The calls of a trace, in the order in which they begin or, if that counts, return."""
    begun: dict[str, str] = {}
    calls: list[Call] = []
    for line in text.splitlines():
        resumed, match = RESUMED.match(line), LINE.match(line)
        if resumed:
            rest = begun.pop(resumed["pid"], "") + resumed["rest"]
            if resumed["call"] in ON_RETURN:
                calls.append(call(resumed["call"], rest))
        elif match and match["rest"].endswith("<unfinished ...>"):
            begun[match["pid"]] = match["rest"].removesuffix("<unfinished ...>")
            if match["call"] not in ON_RETURN:
                calls.append(call(match["call"], begun[match["pid"]]))
        elif match:
            calls.append(call(match["call"], match["rest"]))
    return calls


def call(name: str, rest: str) -> Call:
    """A call and the file it was about; of an open, the file that was opened."""
    found = DESCRIPTOR.match(rest)
    if name == "openat":
        result = DESCRIPTOR.match(rest.rpartition(" = ")[2])
        return Call(name, result["path"] if result else "", rest)
    return Call(name, found["path"] if found else "", rest)
