"""Close consumers that a program has dropped without closing them.

The interpreter finalizes an object where the last reference to it goes, or in the midst of any
statement, when garbage collection finds it in a cycle. In the second case this thread may be inside
a call of this package and hold its locks: then another thread closes the consumer.
"""

from __future__ import annotations

import _thread
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Final

_HERE: Final = "posthouse.client."


def close_abandoned(close: Callable[[], object]) -> None:
    """Run `close` for a finalizer, which calls this: now, or in another thread."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    while frame is not None:
        frame = frame.f_back
        if frame is not None and frame.f_globals.get("__name__", "").startswith(_HERE):
            with suppress(RuntimeError):  # the interpreter ends, and the session with it
                # `threading` has locks of its own, which the interrupted statement may hold.
                _thread.start_new_thread(close, ())
            return
    close()
