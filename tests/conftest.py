"""What every test folder shares: doses, peers, and the time each group took."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests import fast_java
from tests.support.deadlines import watch_deadlines
from tools import peers, run_tests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[1]
HOME = str(Path.home())
SOAK = os.environ.get("POSTHOUSE_SOAK") == "1"
REQUIRE_PEERS = os.environ.get("POSTHOUSE_REQUIRE_PEERS") == "1"

# Seconds of test time, all workers together, that `make test` may spend on a group. With the
# collection they make eleven minutes on two processors.
BUDGET_SECONDS = {
    "engine": 90.0,
    "store": 100.0,
    "process": 600.0,
    "protocols": 220.0,
    "rpc": 40.0,
    "client": 60.0,
    "documentation": 40.0,
    "console": 180.0,
    "spark": 550.0,
    "runtime": 80.0,
}
BUDGET_SECONDS_ELSE = 60.0

settings.register_profile(
    "default",
    derandomize=True,
    deadline=None,
    max_examples=40,
    stateful_step_count=40,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "soak",
    deadline=None,
    max_examples=150,  # with the kills of real processes about an hour on two cores
    stateful_step_count=200,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("soak" if SOAK else "default")
watch_deadlines()

Dose = Callable[[int, int], int]
COLLECTED = pytest.StashKey[list[pytest.Item]]()  # of a run, those of the soak included


@pytest.fixture(scope="session")
def dose() -> Dose:
    """`dose(usual, soak)`: how often a seeded test repeats itself."""
    return lambda usual, soak: soak if SOAK else usual


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One session for all tests of a worker, as a user gets it, with few partitions.

    Tasks are tried three times. Java starts in the root and with the user's home, whatever folders
    the first test has: its workers import the tests from there, and its picture of Spark fits.
    """
    from posthouse.spark import session
    from posthouse.spark.plain_errors import HIDDEN

    folder = tmp_path_factory.mktemp("spark")
    chosen = {
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.warehouse.dir": folder / "warehouse",
        "spark.local.dir": folder / "local",
    }
    with contextlib.chdir(ROOT), pytest.MonkeyPatch.context() as environment:
        environment.setenv("HOME", HOME)
        environment.delenv(HIDDEN, raising=False)  # readers that failed in this process set it
        fast_java.pictured()
        made = session("tests", "local[2,3]", **chosen)
    yield made
    made.stop()


def pytest_configure(config: pytest.Config) -> None:
    begin_with_usual_signals()
    config.addinivalue_line(
        "markers", "peer(*names): real programs this test runs against, see tools/peers.py"
    )
    config.addinivalue_line(
        "markers", "visits(*routes): routes of the API that the console asks in this test"
    )
    config.addinivalue_line("markers", "soak: runs in `make soak` only")
    config.pluginmanager.register(Groups(), "posthouse-groups")
    fast_java.short_lived()


def begin_with_usual_signals() -> None:
    """Let no program that a test starts inherit an ignored signal, which `nohup` and `&` leave.

    This process itself goes on ignoring what it was told to: a handler is not inherited.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda _number, _frame: None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and tests stay until the end: looking through them for garbage is wasted time.

    It took a third of the collection, and a part of each full round of the collector later on.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if fast_java.is_wanted(item):
        fast_java.pictured()
    for mark in item.iter_markers("peer"):
        for name in mark.args:
            require_peer(name)


def require_peer(name: str) -> None:
    """Skip where a peer is missing, or fail where the peers were promised."""
    reason = peers.missing(name)
    if reason and REQUIRE_PEERS:
        pytest.fail(reason, pytrace=False)
    if reason:
        pytest.skip(reason)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    config.stash[COLLECTED] = list(items)
    left_out = [] if SOAK else [item for item in items if item.get_closest_marker("soak")]
    if left_out:
        items[:] = [item for item in items if not item.get_closest_marker("soak")]
        config.hook.pytest_deselected(items=left_out)
    in_lanes(items)


def in_lanes(items: list[pytest.Item]) -> None:
    """What is long begins early, and what shares something that is slow to start stays together.

    Each worker begins at its own part of the list, and one that has nothing left takes from the
    end of another's. So the parts begin with Spark's session, with real processes, which mostly
    wait and so may have two parts, and with programs that start a Spark of their own; all of them
    end with short tests.
    """
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    lanes: list[list[pytest.Item]] = [[], [], [], []]
    for item in items:
        lanes[lane_of(item.nodeid)].append(item)
    *long, short = lanes
    if workers < len(long):
        long = [long[2] + long[0], long[1]]
    elif workers > len(long):
        long[1:2] = in_halves(long[1])
    left, ordered = len(items), list[pytest.Item]()
    for number in range(workers):
        begin = long.pop(0) if long else []
        room = max(left // (workers - number) - len(begin), 0)
        ordered += begin + short[:room]
        del short[:room]
        left = len(items) - len(ordered)
    items[:] = [*ordered, *(item for lane in (*long, short) for item in lane)]


def in_halves(items: list[pytest.Item]) -> list[list[pytest.Item]]:
    """Two parts of a lane, with all tests of a file in one of them."""
    middle = len(items) // 2
    while 0 < middle < len(items) and items[middle].path == items[middle - 1].path:
        middle += 1
    return [items[:middle], items[middle:]]


class Groups:
    """Adds up what each folder of tests took and says so at the end, with every skip in one line.

    With several workers only the controlling process sees all reports, and only it prints.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.tests: dict[str, int] = {}
        self.skips: list[str] = []
        self.failures: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        group = group_of(report.nodeid)
        self.seconds[group] = self.seconds.get(group, 0.0) + report.duration
        if report.when == "call":
            self.tests[group] = self.tests.get(group, 0) + 1
        if report.failed and report.nodeid not in self.failures:
            self.failures.append(report.nodeid)
        if report.skipped and isinstance(report.longrepr, tuple):
            reason = report.longrepr[2].removeprefix("Skipped: ")
            self.skips.append(f"skipped {report.nodeid}: {reason}")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if len(self.seconds) > 1:
            for group, seconds in sorted(self.seconds.items()):
                terminalreporter.write_line(self.line(group, seconds))
        for skip in self.skips:
            terminalreporter.write_line(skip)
        if path := os.environ.get("POSTHOUSE_SKIPS_FILE"):
            Path(path).write_text("".join(f"{skip}\n" for skip in self.skips))
        if path := os.environ.get(run_tests.FAILURES_FILE):
            Path(path).write_text("".join(f"{test}\n" for test in self.failures), "utf-8")

    def line(self, group: str, seconds: float) -> str:
        budget = BUDGET_SECONDS.get(group, BUDGET_SECONDS_ELSE)
        late = "  OVER BUDGET" if seconds > budget and not SOAK else ""
        count = self.tests.get(group, 0)
        return f"{group:<16}{count:>6} tests{seconds:>8.1f} s of {budget:.0f} s{late}"


def lane_of(nodeid: str) -> int:
    """Spark's session, processes, programs with a Spark of their own, everything else."""
    file, group = nodeid.partition("::")[0], group_of(nodeid)
    if "[posthouse pipeline" in nodeid:  # an example of the help, which uses the session
        return 0
    if group == "spark":
        return 2 if "/process/" in file or "test_changes" in file else 0
    is_whole = "/" not in file.removeprefix("tests/")  # of the repository
    return 1 if group in ("process", "console") or is_whole else 3


def group_of(nodeid: str) -> str:
    """`tests/engine/test_queue.py::test_x` belongs to engine, `tests/test_x.py` to x.

    What starts Spark is one group, wherever it is.
    """
    parts = Path(nodeid.partition("::")[0]).parts[1:]
    if "spark" in parts[-1]:
        return "spark"
    return parts[0] if len(parts) > 1 else Path(parts[-1]).stem.removeprefix("test_")
