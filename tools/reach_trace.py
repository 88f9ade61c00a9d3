"""Writes down which lines of some files a process runs; `tools.reach` has it loaded at the start.

Every step from one line to another is written when it is first made: a process that is killed
leaves what it did until then.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

FOLDER = "POSTHOUSE_REACH"  # the environment variable with the folder of the two files
FILES, STEPS = "files", "steps"


class Tracer:
    """Follows the code of the files that the folder lists."""

    def __init__(self, folder: Path) -> None:
        paths = (folder / FILES).read_text().splitlines()
        self._numbers = {path: number for number, path in enumerate(paths)}
        self._of_code: dict[CodeType, int | None] = {}
        self._seen: set[tuple[int, int, int]] = set()
        self._steps = os.open(folder / STEPS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def called(self, frame: FrameType, event: str, argument: Any) -> Any:
        """What `sys.settrace` asks: how to go on with the frame."""
        code = frame.f_code
        if code not in self._of_code:
            self._of_code[code] = self._numbers.get(str(Path(code.co_filename).absolute()))
        number = self._of_code[code]
        return None if number is None else self._follow(frame, number)

    def _follow(self, frame: FrameType, number: int) -> Any:
        outside = -frame.f_code.co_firstlineno
        # A generator goes on where it was, everything else begins.
        last = outside if frame.f_lineno == -outside else frame.f_lineno
        raised = False

        def step(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal last, raised
            if event == "line":
                self._note(number, last, frame.f_lineno)
                last, raised = frame.f_lineno, False
            elif event == "exception":
                raised = True
            elif event == "return" and not raised:
                self._note(number, last, outside)
            return step

        return step

    def _note(self, number: int, before: int, after: int) -> None:
        step = (number, before, after)
        if step not in self._seen:
            self._seen.add(step)
            os.write(self._steps, b"%d %d %d\n" % step)


TRACER = Tracer(Path(os.environ[FOLDER])) if FOLDER in os.environ else None


def pytest_runtest_setup() -> None:
    """A test that recurses too deep does so in the tracer, which Python switches off for that."""
    start()


def start() -> None:
    """From now on, in this thread and in those that it starts."""
    if TRACER is not None:
        threading.settrace(TRACER.called)
        sys.settrace(TRACER.called)


start()
