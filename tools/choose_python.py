"""`python3 tools/choose_python.py`: prints which `python3` the virtual environment is made with.

An interpreter that was built without optimisation is slower by a fifth to a quarter, and builds of
distributions do not record how they were optimised. So all that are called `python3` on the search
path are measured: the first one stays, unless another is quicker by a tenth. Standard library only:
it runs before anything is set up.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

NAME = "python3"
OLDEST = (3, 11)
ROUNDS = 12  # the first ones on a cold machine are slow by chance
GAIN = 1.1  # below that another one is not worth the surprise
TIMEOUT_S = 30

LOOK = """
import ensurepip, sys, time, venv
def work():
    table, total = {}, 0
    for number in range(30_000):
        table[number & 255] = (number, str(number))
        total += len(table) + number % 7
    return [pair[0] for pair in table.values()], total
best = 9.0
for _ in range(3):
    begun = time.process_time()
    work()
    best = min(best, time.process_time() - begun)
print(sys.executable, *sys.version_info[:3], best, sep="|")
"""


class Interpreter(NamedTuple):
    """One that could be used."""

    path: str
    version: tuple[int, int, int]
    seconds: float  # processor time that it takes for a piece of work


def look_at(program: str) -> Interpreter | None:
    """What it is and how quick; None where it does not run, is too old or cannot make one."""
    try:
        done = subprocess.run(
            [program, "-I", "-c", LOOK], capture_output=True, text=True, timeout=TIMEOUT_S
        )
        path, major, minor, micro, seconds = done.stdout.strip().split("|")
        found = Interpreter(path, (int(major), int(minor), int(micro)), float(seconds))
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return found if found.version >= OLDEST else None


def candidates(search_path: str) -> list[Interpreter]:
    """Each interpreter once, in the order of the search path, with its best of several looks."""
    found: dict[str, Interpreter] = {}
    for _ in range(ROUNDS):
        for folder in search_path.split(os.pathsep):
            program = Path(folder or ".", NAME)
            if not os.access(program, os.X_OK):
                continue
            one = look_at(str(program))
            if one is None:
                continue
            key = os.path.realpath(one.path)
            if key not in found or one.seconds < found[key].seconds:
                found[key] = one
    return list(found.values())


def choose(found: list[Interpreter]) -> Interpreter | None:
    """The first one, or one of the same release that is clearly quicker."""
    if not found:
        return None
    first = found[0]
    alike = [one for one in found if one.version[:2] == first.version[:2]]
    quickest = min(alike, key=lambda one: one.seconds)
    return quickest if quickest.seconds * GAIN <= first.seconds else first


def describe(chosen: Interpreter, found: list[Interpreter]) -> str:
    """The choice in one line, with what it was compared with."""
    number = ".".join(map(str, chosen.version))
    others = [
        f"{one.path} takes {one.seconds / chosen.seconds:.2f} times as long"
        for one in found
        if one is not chosen
    ]
    compared = f" ({'; '.join(others)})" if others else ""
    return f"using {chosen.path}, Python {number}{compared}"


def main(search_path: str) -> int:
    """Prints the path of the chosen one; why goes to standard error."""
    found = candidates(search_path)
    chosen = choose(found)
    if chosen is None:
        print(NAME)  # what is missing is reported where it is used
        return 0
    print(describe(chosen, found), file=sys.stderr)
    print(chosen.path)
    return 0


if __name__ == "__main__":
    sys.exit(main(os.environ.get("PATH", os.defpath)))
