"""Finds the original error in the text of a Spark trace."""

from __future__ import annotations

import re
from typing import Final

from pyspark.errors import PySparkException

from posthouse.client.errors import ServerUnreachable
from posthouse.model.errors import QueueError, error_for

LENGTH_MAX: Final = 600
_REFUSED: Final = re.compile(r"\b(MQ_\w+|STATUS_\w+) \(0x([0-9A-Fa-f]{8})\): (.+)")
_UNREACHABLE: Final = re.compile(r"posthouse\.client\.errors\.\w+: (.+)")


class SparkFailed(QueueError):
    """Spark gave up for a reason of its own."""

    default_remedy = "Check the log of Spark."


def cause_of(error: PySparkException) -> Exception:
    """The refusal or the broken connection that a Spark error is about, else its first line."""
    said = str(error)
    if refused := _REFUSED.findall(said):
        _, code, words = refused[-1]
        cause, _, remedy = words.strip().partition(". ")
        found = error_for(int(code, 16), cause)
        found.remedy = remedy or found.remedy
        return found
    if unreachable := _UNREACHABLE.findall(said):
        return ServerUnreachable(unreachable[-1].strip())
    words = " ".join(said.strip().split("\n\n")[0].split())[:LENGTH_MAX]
    return SparkFailed(f"Spark reports: {words}")
