"""System calls of a server that is read remotely."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

READS = ",read,recvfrom,recvmsg"


def end(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
