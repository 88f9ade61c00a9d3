"""Which functions of src a door, a client or a command reaches, by what tests were seen to run.

A function is reached if one of these holds (docs/testing.md has the reasons):

- it is an entry: the command line; a public name of a client that a test calls; or what asyncio, a
  thread or Spark calls in a process of the command or in a test with real listeners,
- a function that is reached calls it in such a process or test,
- a function that is reached calls it by its name in any other test.

What only tests and the simulation call is not reached, whatever else they run.
"""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

from tools.conformance_trace import qualified

# What asyncio calls in a protocol, whatever else tests have under these names.
CALLBACKS = {
    "buffer_updated",
    "connection_lost",
    "connection_made",
    "data_received",
    "datagram_received",
    "eof_received",
    "error_received",
    "get_buffer",
    "pause_writing",
    "resume_writing",
}
OUTSIDE = ("tests/", "benchmarks/", "fuzz/")
ENTRIES = ("@asyncio", "@thread", "@spark")
PASSIVE = {
    f"__{name}__" for name in ("bool", "eq", "getattr", "hash", "iter", "len", "repr", "str")
}
NOT_SERVING = ("selftest", "bench")  # commands that drive parts of src as tests do


class Doors(NamedTuple):
    """conformance/doors.toml."""

    commands: tuple[str, ...]
    clients: tuple[str, ...]
    tests: tuple[str, ...]
    left_out: tuple[str, ...]
    drivers: tuple[str, ...]

    def is_wanted(self, test: str) -> bool:
        """Whether a test runs for what it reaches, though it names no rule."""
        return test.startswith(self.tests) and not test.startswith(self.left_out)

    def is_driver(self, name: str) -> bool:
        """Whether the caller is a test, or code of src that works as one."""
        return name.startswith((*OUTSIDE, *self.drivers))


class Call(NamedTuple):
    """A call that was made: who, what, and whether the caller's code has the name."""

    caller: str
    function: str
    named: bool


class Run(NamedTuple):
    """One test, or one process that it started: its calls."""

    test: str
    outcome: str  # of a test; empty for a process
    command: tuple[str, ...]  # of a process; empty for a test
    calls: frozenset[Call]


def read_doors(path: Path) -> Doors:
    """The file of entries."""
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    return Doors(*(tuple(data[field]) for field in Doors._fields))


def read_runs(folder: Path) -> Iterator[Run]:
    """Everything that tests and their processes left in the folder."""
    for path in sorted(folder.glob("tests-*")):
        yield from read_tests(path)
    for path in sorted(folder.glob("process-*")):
        if (run := read_process(path)) is not None:
            yield run


def read_tests(path: Path) -> Iterator[Run]:
    """What one pytest process wrote, test by test; a line that was cut off is left out."""
    names: dict[int, str] = {}
    with path.open(encoding="utf-8") as lines:
        for row in map(parsed, lines):
            if row is not None:
                names |= {int(number): name for number, name in row["names"].items()}
                calls = (Call(names[a], names[b], named) for a, b, named in row["calls"])
                yield Run(row["test"], row["outcome"], (), frozenset(calls))


def read_process(path: Path) -> Run | None:
    """What another process wrote, call by call."""
    with path.open(encoding="utf-8") as lines:
        head, *calls = map(parsed, lines)
    if head is None:
        return None
    found = frozenset(Call(*row) for row in calls if row is not None)
    return Run(head["test"], "", tuple(head["command"]), found)


def parsed(line: str) -> Any:
    """The JSON of a line, or None."""
    try:
        return json.loads(line)
    except ValueError:
        return None


# --- entries ------------------------------------------------------------------------------------


def public_functions(root: Path, modules: Iterable[str]) -> set[str]:
    """The functions that the public names of the clients stand for, as Python resolves them."""
    command = [sys.executable, "-m", "tools.conformance_reach", str(root), *modules]
    home = str(Path(__file__).parent.parent)
    environment = {"PYTHONPATH": f"{root / 'src'}:{home}", "PATH": ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def list_public(root: Path, modules: Iterable[str]) -> Iterator[str]:
    """Every function and public method that the modules export."""
    for module in map(import_module, modules):
        names = getattr(module, "__all__", None) or [x for x in dir(module) if x[0] != "_"]
        for name in names:
            for function in functions_of(getattr(module, name)):
                file = Path(function.__code__.co_filename)
                if file.is_relative_to(root / "src"):
                    yield f"{file.relative_to(root)}:{qualified(function.__code__)}"


def functions_of(value: object) -> Iterator[FunctionType]:
    """A function itself, or the public methods and properties of a class."""
    if isinstance(value, FunctionType):
        yield inspect.unwrap(value)
    elif isinstance(value, type):
        for base in value.__mro__:
            for name, member in vars(base).items():
                if not name.startswith("_") or name.startswith("__"):
                    yield from plain_functions(member)


def plain_functions(member: object) -> Iterator[FunctionType]:
    """What is inside of a property, a static or a class method."""
    inside = [getattr(member, name, None) for name in ("fget", "fset", "__func__", "func")]
    for value in (member, *inside):
        if isinstance(value, FunctionType):
            yield inspect.unwrap(value)


def words_of_tests(root: Path) -> set[str]:
    """Every identifier in the tests: what a test may hand to asyncio itself."""
    words: set[str] = set()
    for path in (root / "tests").rglob("*.py"):
        words |= set(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    return words


class Entries:
    """Decides which calls are the first ones of what is reached."""

    def __init__(self, doors: Doors, public: set[str], words: set[str]) -> None:
        self._doors = doors
        self._public = public
        self._words = words

    def is_entry(self, run: Run, call: Call) -> bool:
        """Whether somebody outside of src may make this call."""
        if call.function in self._doors.commands:
            return True
        if self._doors.is_driver(call.caller):
            return call.function in self._public
        if call.caller in ENTRIES:
            return self._serves(run, call)
        return call.caller.endswith(":<module>")

    def _serves(self, run: Run, call: Call) -> bool:
        if run.command and any(each.function in self._doors.commands for each in run.calls):
            return not set(run.command) & set(NOT_SERVING)
        name = call.function.rpartition(".")[2].rpartition(":")[2]
        is_ours = name in CALLBACKS or name not in self._words
        return is_ours and run.test.startswith(self._doors.tests)


# --- what is reached ----------------------------------------------------------------------------


def reached(
    runs: Iterable[Run], doors: Doors, entries: Entries, before: Iterable[str] = ()
) -> set[str]:
    """The functions that are reached; some were before."""
    found = set(before)
    after: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        is_door = bool(run.command) or run.test.startswith(doors.tests)
        for call in run.calls:
            if entries.is_entry(run, call):
                found.add(call.function)
            if (is_door or call.named) and not doors.is_driver(call.caller):
                after[call.caller].add(call.function)
    left = list(found)
    while left:
        name = left.pop()
        if not doors.is_driver(name):
            fresh = after[name] - found
            found |= fresh
            left += fresh
    return found


def is_passive(function: str) -> bool:
    """Whether a function only shows a value: tests may print, compare and count what they like."""
    return function.rpartition(":")[2].rpartition(".")[2] in PASSIVE


def functions_run(calls: Iterable[Call], doors: Doors) -> set[str]:
    """The functions of src that a test ran, without imports, drivers and what shows a value."""
    names = {call.function for call in calls if not call.function.endswith(":<module>")}
    return {name for name in names if not doors.is_driver(name) and not is_passive(name)}


def called_by_test(calls: Iterable[Call], doors: Doors) -> set[str]:
    """The functions that the test itself, its helpers or a driver call."""
    return functions_run((call for call in calls if doors.is_driver(call.caller)), doors)


if __name__ == "__main__":
    print(json.dumps(sorted(set(list_public(Path(sys.argv[1]), sys.argv[2:])))))
