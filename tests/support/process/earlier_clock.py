"""A server whose clock shows the time at which its home was written, for homes that are kept.

What is remembered of senders, and messages themselves, have their times: a home of a year ago, as
it is served today, would have lost them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence


def run(arguments: Sequence[str]) -> int:
    """The command line after its first word, the time that it is now, in seconds since 1970."""
    from posthouse.cli.main import run as run_command

    real, real_ns = time.time, time.time_ns
    back_s = int(real()) - int(arguments[0])
    time.time = lambda: real() - back_s
    time.time_ns = lambda: real_ns() - back_s * 1_000_000_000
    return run_command(arguments[1:])
