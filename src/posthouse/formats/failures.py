"""Why messages failed, and groups of messages that failed in the same way.

A group is an exception type, its message and the first stack frame of the application's own code.
Its key is made of these three alone, so that it is the same in every run and on every machine.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Final, NamedTuple

from posthouse.formats.decoded import Decoded

KEY: Final = r"s?[0-9a-f]{12}"
"""What a group key looks like; those of similar messages begin with s."""
_TEXT_MAX: Final = 4096  # of an exception message that counts
_STACK_MAX: Final = 64 << 10
_FRAME_MAX: Final = 500
# .NET writes stack traces in the language of the machine.
_FRAME: Final = re.compile(
    r"^[ \t]+(?:at|bei|à|en|em|a|in|w|в|在|於|場所|위치:)[ \t]+([^\r\n]{1,500})", re.MULTILINE
)
_FRAMEWORKS: Final = (
    *("System.", "Microsoft.", "NServiceBus.", "Rebus.", "MassTransit.", "Magnum."),
    *("Newtonsoft.", "Autofac.", "Castle.", "lambda_method("),
)
_GUID: Final = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}", re.ASCII)
_NUMBER: Final = re.compile(r"(?<![0-9A-Za-z_])[0-9][0-9a-fA-F]*(?![A-Za-z_])", re.ASCII)
_TIME_OF_FAILURE: Final = "NServiceBus.TimeOfFailure"


class Failure(NamedTuple):
    """Why one message failed; what is not known is empty."""

    type: str = ""
    message: str = ""
    frame: str = ""
    time: str = ""

    def key(self, reason: str = "", *, similar: bool = False) -> str:
        """The key of its group. `reason` distinguishes messages without an exception."""
        message = pattern(self.message) if similar else self.message
        parts = json.dumps([self.type, message, self.frame, reason]).encode()
        return ("s" if similar else "") + hashlib.sha256(parts).hexdigest()[:12]


def failure_of(decoded: Decoded) -> Failure:
    """Why a message failed, from its headers or the exception in its body."""
    meaning = decoded.meaning
    exception = decoded.exception or (meaning.exception if meaning else None)
    time = meaning.times.get(_TIME_OF_FAILURE, "") if meaning else ""
    if exception is None:
        return Failure(time=time)
    frame = own_frame(exception.stack or "")
    return Failure(exception.type or "", (exception.message or "")[:_TEXT_MAX], frame, time)


def own_frame(stack: str) -> str:
    """The first frame that is not of a framework, without file and line; else the first."""
    first = ""
    for found in _FRAME.finditer(stack[:_STACK_MAX]):
        frame = _method(found[1])
        if not frame.startswith(_FRAMEWORKS):
            return frame
        first = first or frame
    return first


def _method(line: str) -> str:
    """The method with its parameters."""
    end = line.find(")")
    return (line[: end + 1] if end >= 0 else line.partition(" in ")[0]).strip()[:_FRAME_MAX]


def pattern(message: str) -> str:
    """A message in which numbers and GUIDs are replaced, so that others are like it."""
    return _NUMBER.sub("#", _GUID.sub("#", message))
