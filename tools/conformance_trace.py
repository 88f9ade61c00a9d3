"""Writes down what each test runs: its lines, its result, and who calls which function of src.

`tools.conformance_evidence` loads it into pytest (`-p tools.conformance_trace`) and, by a
`sitecustomize`, into every Python process that a test starts. In pytest, coverage.py counts the
lines with the test's name as their context. Other processes write each call when they first make
it: one that is killed leaves what it did until then.

A function is named `src/package/module.py:Class.method`. What is defined inside a function belongs
to it; the body of a class belongs to its module. A caller outside of src is a test
(`tests/test_x.py:test_y`), or where the call comes from: `@asyncio`, `@thread`, `@spark`, `@top`.
Library code between two functions is left out.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import IO, Any

import pytest
from coverage import Coverage
from coverage.plugin import CoveragePlugin

FOLDER = "POSTHOUSE_EVIDENCE"  # the environment variable with the folder that takes the results
TEST = "POSTHOUSE_EVIDENCE_TEST"  # the one that names the test that started a process
ROOT = "POSTHOUSE_EVIDENCE_ROOT"  # the one with the project's folder
ORIGINS = ("@asyncio", "@thread", "@spark", "@top")
DOSE = "dose"  # the fixture of tests that repeat themselves (tests/conftest.py)
LIBRARY = 0  # the number of code that is neither ours nor an origin
IS_OPTIMIZED = 0x1  # set for functions, clear for the bodies of modules and classes
COMPREHENSIONS = ("<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>")

Call = tuple[int, int, bool]  # caller, function, whether the caller's code has its name


class Calls:
    """Numbers for code, and the calls of our functions by our functions, tests and origins.

    Functions of src have positive numbers, everything else that can call them negative ones.
    """

    def __init__(self, root: Path) -> None:
        self._src = f"{root / 'src'}{os.sep}"
        self._tests = tuple(f"{root / name}{os.sep}" for name in ("tests", "benchmarks", "fuzz"))
        self._cut = len(str(root)) + 1
        self._numbers: dict[int, int] = {}
        self._pairs: dict[tuple[int, int], Call | None] = {}
        self._kept: list[CodeType] = []  # a number belongs to its code for as long as that lives
        self._by_name = {name: -1 - place for place, name in enumerate(ORIGINS)}
        self.names = {number: name for name, number in self._by_name.items()}
        self.starts: dict[int, int] = {}  # the first line of a function of src

    def number(self, code: CodeType) -> int:
        """The number of a function, a test or an origin; LIBRARY for other code."""
        found = self._numbers.get(id(code))
        if found is None:
            found = self._learn(code)
            self._kept.append(code)
            self._numbers[id(code)] = found
        return found

    def _learn(self, code: CodeType) -> int:
        file = str(Path(code.co_filename).absolute())
        if file.startswith(self._src):
            number = self._named(f"{file[self._cut :]}:{qualified(code)}", 1)
            if qualified(code) == code.co_qualname:
                self.starts[number] = code.co_firstlineno
            return number
        if file.startswith(self._tests):
            return self._named(f"{file[self._cut :]}:{qualified(code)}", -1)
        if f"{os.sep}asyncio{os.sep}" in file:
            return self._by_name["@asyncio"]
        if file.endswith(f"{os.sep}threading.py") or f"{os.sep}concurrent{os.sep}" in file:
            return self._by_name["@thread"]
        return self._by_name["@spark"] if f"{os.sep}pyspark{os.sep}" in file else LIBRARY

    def _named(self, name: str, sign: int) -> int:
        if name not in self._by_name:
            self._by_name[name] = number = sign * (len(self._by_name) + 1)
            self.names[number] = name
        return self._by_name[name]

    def call(self, frame: FrameType) -> Call | None:
        """Caller, function, and whether the caller's code has the function's name in it."""
        code, back = frame.f_code, frame.f_back
        function = self._numbers.get(id(code)) or self.number(code)
        if function <= LIBRARY:
            return None
        if back is None:
            return self._by_name["@top"], function, False
        pair = id(back.f_code), id(code)
        if pair in self._pairs:
            return self._pairs[pair]
        if self.number(back.f_code) == LIBRARY:  # whose callers may be many
            return self._far_call(back, code, function)
        self._pairs[pair] = found = self._far_call(back, code, function)
        return found

    def _far_call(self, back: FrameType | None, code: CodeType, function: int) -> Call | None:
        while back is not None:
            caller = self.number(back.f_code)
            if caller != LIBRARY:
                named = names_it(back.f_code, code)
                return None if caller == function else (caller, function, named)
            back = back.f_back
        return self._by_name["@top"], function, False


def qualified(code: CodeType) -> str:
    """`Class.method` for it and what is defined inside; `<module>` for what an import runs."""
    name = code.co_qualname.partition(".<locals>")[0]
    if not code.co_flags & IS_OPTIMIZED or name.endswith(COMPREHENSIONS):
        return "<module>"
    return name


def names_it(caller: CodeType, function: CodeType) -> bool:
    """Whether the caller's own code has the name; Python itself calls what begins with `__`."""
    name = function.co_name
    return name.startswith("__") or name in caller.co_names or name in caller.co_freevars


# --- in pytest ----------------------------------------------------------------------------------


class CallsOfTest(CoveragePlugin):
    """Keeps the calls of the test that runs; coverage.py asks it at each call for a context."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self.seen: set[Call] = set()

    def dynamic_context(self, frame: FrameType) -> str | None:
        """Starts no context: those are the tests."""
        found = self._calls.call(frame)
        if found is not None:
            self.seen.add(found)
        return None


class Recorder:
    """The pytest plugin: a context, a result and the calls for each test."""

    def __init__(self, folder: Path, root: Path, worker: str) -> None:
        self._calls = Calls(root)
        self._plugin = CallsOfTest(self._calls)
        self._coverage = Coverage(
            data_file=str(folder / f"lines-{worker}"),
            config_file=False,
            source=[str(root / "src")],
            plugins=[self._register],
        )
        self._coverage._no_warn_slugs.add("dynamic-conflict")  # it starts no contexts, see above
        self._file: IO[str] = (folder / f"tests-{worker}").open("a", encoding="utf-8")
        self._written: set[int] = set()
        self._outcome = ""
        os.register_at_fork(after_in_child=lambda: start(folder, root))

    def _register(self, registry: Any) -> None:
        registry.add_dynamic_context(self._plugin)

    def pytest_collection_finish(self) -> None:
        """After the tests were imported, which is quicker without being followed."""
        self._coverage.start()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Everything of one test, with its fixtures."""
        os.environ[TEST] = item.nodeid
        self._plugin.seen = set()
        self._outcome = ""
        result = yield
        calls = self._plugin.seen
        self._plugin.seen = set()
        self._write(item, calls)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """The test itself: lines of fixtures are not about what it shows."""
        self._coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self._coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The result is the worst of the three phases."""
        if report.outcome != "passed" or hasattr(report, "wasxfail"):
            self._outcome = "skipped" if report.skipped else "failed"
        elif report.when == "call" and not self._outcome:
            self._outcome = "passed"

    def _write(self, item: pytest.Item, calls: set[Call]) -> None:
        numbers = {number for call in calls for number in call[:2]} - self._written
        self._written |= numbers
        row = {
            "test": item.nodeid,
            "outcome": self._outcome,
            "names": {number: self._calls.names[number] for number in sorted(numbers)},
            "starts": {number: self._calls.starts.get(number, 0) for number in sorted(numbers)},
            "calls": sorted(calls),
        }
        self._file.write(json.dumps(row, separators=(",", ":")) + "\n")
        self._file.flush()

    def pytest_sessionfinish(self) -> None:
        """After the last test."""
        self._coverage.stop()
        self._coverage.save()
        self._file.close()


def pytest_configure(config: pytest.Config) -> None:
    """Called by pytest; the process that only hands out tests to workers records nothing."""
    folder = os.environ.get(FOLDER)
    hands_out = hasattr(config, "workerinput") is False and config.getoption("numprocesses", None)
    if folder and not hands_out:
        sys.settrace(None)
        threading.settrace(None)
        worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
        name = f"{worker}-{os.getpid()}"
        config.pluginmanager.register(Recorder(Path(folder), project(), name), "evidence")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps only the tests that the collection lists, each with the listed number of parameters.

    A test that repeats itself by a dose runs with one: its parameters are more of the same.
    """
    folder = os.environ.get(FOLDER)
    wanted = Path(folder, "wanted") if folder else None
    if wanted is None or not wanted.exists():
        return
    left: dict[str, int] = {}
    for line in wanted.read_text(encoding="utf-8").splitlines():
        count, _, name = line.partition(" ")
        left[name] = int(count)
    parted: dict[bool, list[pytest.Item]] = {True: [], False: []}
    for item in items:
        name = item.nodeid.partition("[")[0]
        repeats = DOSE in getattr(item, "fixturenames", ())
        if repeats:
            left[name] = min(left.get(name, 0), 1)
        left[name] = left.get(name, 0) - 1
        parted[left[name] >= 0].append(item)
    config.hook.pytest_deselected(items=parted[False])
    items[:] = parted[True]


# --- in other processes -------------------------------------------------------------------------


class CallsOfProcess:
    """Follows calls only, and writes each when it is first made."""

    def __init__(self, folder: Path, root: Path) -> None:
        self._calls = Calls(root)
        self._seen: set[Call] = set()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._file = os.open(folder / f"process-{os.getpid()}", flags, 0o600)
        head = {"test": os.environ.get(TEST, ""), "command": sys.orig_argv}
        os.write(self._file, (json.dumps(head) + "\n").encode())

    def called(self, frame: FrameType, event: str, argument: Any) -> None:
        """What `sys.settrace` asks at each call; lines are not followed."""
        found = self._calls.call(frame)
        if found is not None and found not in self._seen:
            self._seen.add(found)
            names = self._calls.names
            row = [names[found[0]], names[found[1]], found[2]]
            os.write(self._file, (json.dumps(row) + "\n").encode())


def project() -> Path:
    """The folder of the project that is measured."""
    return Path(os.environ[ROOT])


def start(folder: Path, root: Path) -> None:
    """From now on, in this thread and in those that it starts."""
    follower = CallsOfProcess(folder, root)
    threading.settrace(follower.called)
    sys.settrace(follower.called)


def start_in_child() -> None:
    """Called by the `sitecustomize` of the collection in each process."""
    if FOLDER in os.environ:
        start(Path(os.environ[FOLDER]), project())
