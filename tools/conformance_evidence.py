"""`make conformance`: runs the tests, sees what they run, and writes which of them count.

A test counts for the rules that it names if it passes (a skipped one does not) and every function
of src that it runs is reached: by a door, a client or a command (tools/conformance_reach.py). So a
test of code that only tests call proves nothing. The result is conformance/evidence.json, and
docs/conformance.md is printed from it.

What the tests ran is kept in `.conformance`, which belongs to this machine: the next run repeats
only the tests whose text, helpers or functions changed. Of a test that a machine never ran it
believes the committed result: it runs only if it is new or its text changed. So does `--quick` for
all tests, whatever changed in src. Where functions that doors reach got other names, a test that
calls them counts only after a test that enters through a door ran again: `--also client` runs all
that begin like this. `--all` believes nothing and runs all.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tools import conformance, conformance_digests, conformance_reach, conformance_results
from tools import conformance_trace as trace
from tools.conformance_reach import Call, Doors, Run
from tools.conformance_results import Results, Uncounted

CACHE = ".conformance"
DIGESTS = "digests.json"
PLACE = "place"  # the project's folder at the time
FIRST_LINES = """import os

if "POSTHOUSE_EVIDENCE_TEST" in os.environ:
    import tools.conformance_trace

    tools.conformance_trace.start_in_child()
"""
SHOWN = 3
PARAMETERS_OF_RULES = 6  # of a test that names rules; `make test` runs all of them
PARAMETERS_OF_DOORS = 2  # of the others: many have the doors as parameters
TEST_SECONDS = 900  # for one test, which takes a few times as long as without being followed
ALL_RUN = (0, 1, 5)  # exit codes of pytest: all passed, some failed, none were there


class Seen(NamedTuple):
    """A test with all its parameters: how they ended, what they and their processes called."""

    outcomes: set[str]
    calls: set[Call]
    runs: list[Run]
    folder: Path  # of the collection


# --- which tests --------------------------------------------------------------------------------


class Found(NamedTuple):
    """The tests of the project by name, with their digests, and the rules they name."""

    digests: dict[str, str]
    rules: dict[str, list[str]]
    collector: conformance.MarkerCollector

    @property
    def marked(self) -> set[str]:
        """The tests that name a rule."""
        return {name for names in self.rules.values() for name in names}


def find_tests(root: Path, doors: Doors) -> Found:
    """The tests that name rules, and those that enter through doors."""
    collector = conformance.collect(root)
    names = {name for names in collector.tests.values() for name in names}
    wanted = {
        name: conformance_digests.of_test(function)
        for name, function in collector.functions.items()
        if name in names or doors.is_wanted(f"tests/{name}")
    }
    return Found(wanted, collector.tests, collector)


class Digests(NamedTuple):
    """What tests depend on: their own texts with their helpers, and the functions of src."""

    tests: dict[str, str]
    functions: dict[str, str]

    def has_all(self, seen: Seen) -> bool:
        """Whether the functions that a test ran are still there."""
        ran = {call.function for call in seen.calls if call.function.startswith("src/")}
        return ran <= self.functions.keys()

    def same(self, other: Digests, name: str, seen: Seen) -> bool:
        """Whether a test, which ran what was seen, depends on the same in both."""
        files = {f"{call.function.rpartition(':')[0]}:<module>" for call in seen.calls}
        ran = {call.function for call in seen.calls} | files
        return self.tests.get(name) == other.tests.get(name) and all(
            self.functions.get(each) == other.functions.get(each) for each in ran
        )


def present_digests(root: Path, found: Found) -> Digests:
    """Those of the project as it is."""
    helpers = conformance_digests.Helpers(root)
    tests = {
        name: conformance_digests.digest(
            digest, helpers.of_file(f"tests/{name.partition('::')[0]}")
        )
        for name, digest in found.digests.items()
    }
    return Digests(tests, conformance_digests.of_source(root))


# --- what was kept ------------------------------------------------------------------------------


def read_cache(cache: Path) -> dict[str, Seen]:
    """What all earlier collections saw; of a test the last time counts."""
    found: dict[str, Seen] = {}
    for folder in runs_of(cache):
        fresh: dict[str, Seen] = {}
        for run in conformance_reach.read_runs(folder):
            seen = fresh.setdefault(name_of(run.test), Seen(set(), set(), [], folder))
            seen.calls.update(run.calls)
            seen.runs.append(run)
            if not run.command:
                seen.outcomes.add(run.outcome)
        found |= {name: seen for name, seen in fresh.items() if seen.outcomes}
    return found


def runs_of(cache: Path) -> list[Path]:
    """The folders of the collections, oldest first."""
    return sorted((path for path in cache.glob("[0-9]*")), key=lambda path: int(path.name))


def name_of(nodeid: str) -> str:
    """A test's name on the page: without parameters and without `tests/`."""
    return nodeid.partition("[")[0].removeprefix("tests/")


def unchanged(digests: Digests, seen: dict[str, Seen]) -> set[str]:
    """The tests that passed when they last ran and of which nothing changed since."""
    found: set[str] = set()
    for folder in {each.folder for each in seen.values()}:
        then = read_digests(folder)
        found |= {
            name
            for name, each in seen.items()
            if each.folder == folder
            and "failed" not in each.outcomes
            and digests.same(then, name, each)
        }
    return found & digests.tests.keys()


def read_digests(folder: Path) -> Digests:
    """Those of the project when a collection began."""
    return Digests(**json.loads((folder / DIGESTS).read_text(encoding="utf-8")))


def believed(results: Results | None, found: Found) -> set[str]:
    """The tests that the committed result has as they are."""
    if results is None:
        return set()
    uncounted = {name: row.digest for name, row in results.uncounted.items()}
    known = results.doors | uncounted | results.counted
    return {name for name, digest in found.digests.items() if known.get(name) == digest}


class Known(NamedTuple):
    """What is known before a collection: of this machine, and of the committed result."""

    seen: dict[str, Seen]
    results: Results | None

    def tests(self, digests: Digests, found: Found, *, quick: bool) -> set[str]:
        """The tests that need not run.

        `quick` takes the word of the committed result also for what this machine ran, except for
        what failed here.
        """
        committed = believed(self.results, found)
        if not quick:
            return unchanged(digests, self.seen) | (committed - self.seen.keys())
        return committed - {
            name
            for name, each in self.seen.items()
            if "failed" in each.outcomes or not digests.has_all(each)
        }


# --- running ------------------------------------------------------------------------------------


def new_folder(cache: Path, digests: Digests) -> Path:
    """The folder of the next collection; one that is broken off goes on there where it was."""
    last = runs_of(cache)
    folder = cache / str(int(last[-1].name) + 1 if last else 1)
    folder.mkdir(parents=True)
    (folder / DIGESTS).write_text(json.dumps(digests._asdict()), encoding="utf-8")
    return folder


def run_tests(root: Path, folder: Path, counts: dict[str, int], arguments: list[str]) -> int:
    """Run some tests, each with some of its parameters, and follow everything that they start.

    What is seen goes to the folder.
    """
    chosen = sorted(f"tests/{name}" for name in counts)
    rows = [f"{count} tests/{name}\n" for name, count in sorted(counts.items())]
    (folder / "wanted").write_text("".join(rows), encoding="utf-8")
    (folder / PLACE).write_text(str(root), encoding="utf-8")
    (folder / "sitecustomize.py").write_text(FIRST_LINES, encoding="utf-8")
    files = sorted({name.partition("::")[0] for name in chosen})
    home = Path(__file__).parent.parent
    path = [folder, home, root / "src", *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        trace.FOLDER: str(folder),
        trace.ROOT: str(root),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tools.conformance_trace"]
    limit = ["-o", f"timeout={TEST_SECONDS}"] if has_timeouts(root) else []
    done = subprocess.run(
        [*command, *limit, f"--rootdir={root}", *arguments, *files], cwd=root, env=environment
    )
    return done.returncode


def has_timeouts(root: Path) -> bool:
    """Whether the project limits the time of a test."""
    settings = root / "pyproject.toml"
    return settings.exists() and "\ntimeout = " in settings.read_text(encoding="utf-8")


# --- judging ------------------------------------------------------------------------------------


def all_runs(seen: dict[str, Seen]) -> Iterator[Run]:
    """Every test and process of every test."""
    for each in seen.values():
        yield from each.runs


def reached_functions(
    root: Path, doors: Doors, seen: dict[str, Seen], before: set[str]
) -> set[str]:
    """What doors, clients and commands reach, and what they reached before."""
    public = conformance_reach.public_functions(root, doors.clients)
    words = conformance_reach.words_of_tests(root)
    entries = conformance_reach.Entries(doors, public, words)
    return conformance_reach.reached(all_runs(seen), doors, entries, before)


def why_not(seen: Seen | None, doors: Doors, reached: set[str]) -> str:
    """Why a test does not count; empty if it does."""
    if seen is None or "failed" in seen.outcomes:
        return "failed" if seen else "not run"
    if "passed" not in seen.outcomes:
        return "skipped"
    ran = conformance_reach.functions_run(seen.calls, doors)
    if not ran:
        return "runs no function of src"
    if left := sorted(ran - reached):
        more = f" and {len(left) - SHOWN} more" if len(left) > SHOWN else ""
        return f"runs what nothing reaches: {', '.join(left[:SHOWN])}{more}"
    return ""


class Judge:
    """Parts the tests that name rules into those that count and the others."""

    def __init__(
        self, found: Found, seen: dict[str, Seen], doors: Doors, before: Results | None
    ) -> None:
        self._found = found
        self._seen = seen
        self._doors = doors
        self._before = before

    def results(self, reached: set[str], present: set[str]) -> Results:
        """What is believed of earlier collections, and what this machine saw."""
        before = self._before
        reasons = {name: self._why_not(name, reached) for name in self._found.marked}
        digests = self._found.digests
        counted = {name: digests[name] for name, reason in reasons.items() if not reason}
        uncounted = {
            name: Uncounted(digests[name], reason) for name, reason in reasons.items() if reason
        }
        functions = set(before.functions & present) if before else set()
        for name in counted.keys() & self._seen.keys():
            functions |= conformance_reach.called_by_test(self._seen[name].calls, self._doors)
        functions &= present
        return Results(
            counted, uncounted, frozenset(functions), frozenset(reached), self._doors_run()
        )

    def _doors_run(self) -> dict[str, str]:
        """The tests without rules that passed, here or in an earlier collection."""
        passed = {name for name, each in self._seen.items() if "failed" not in each.outcomes}
        found = passed | (believed(self._before, self._found) - self._seen.keys())
        return {name: self._found.digests[name] for name in found - self._found.marked}

    def _why_not(self, name: str, reached: set[str]) -> str:
        if name not in self._seen and self._before is not None:
            return "" if self._before.counts(name) else self._before.why_not(name)
        return why_not(self._seen.get(name), self._doors, reached)


# --- the command --------------------------------------------------------------------------------


class Wish(NamedTuple):
    """What to run: everything again, or only what the committed result does not have, and more."""

    again: bool = False
    quick: bool = False
    also: tuple[str, ...] = ()


def collect(root: Path, arguments: list[str], wish: Wish) -> list[str]:
    """One collection; returns what is wrong."""
    doors = conformance_reach.read_doors(root / "conformance" / "doors.toml")
    cache = root / CACHE
    if wish.again:
        shutil.rmtree(cache, ignore_errors=True)
    before = None if wish.again else conformance_results.read(root)
    found = find_tests(root, doors)
    digests = present_digests(root, found)
    known = Known(read_cache(cache), before).tests(digests, found, quick=wish.quick)
    due = found.digests.keys() - known
    due |= {name for name in found.digests if wish.also and name.startswith(wish.also)}
    print(f"{len(found.digests)} tests name rules or enter through doors; {len(due)} run now")
    code = run_due(root, new_folder(cache, digests), found, due, arguments) if due else 0
    seen = {name: each for name, each in read_cache(cache).items() if name in found.digests}
    present = set(digests.functions)
    reached = present & before.reached if before else set()
    reached = reached_functions(root, doors, seen, reached) if seen else reached
    results = Judge(found, seen, doors, before).results(reached, present)
    conformance_results.write(root, results)
    problems = conformance.run(root, check=False, complete=True, collector=found.collector)
    if code not in ALL_RUN:
        problems.append(f"pytest ended with {code}: run it again, it goes on where it was")
    return problems + [f"{name}: failed" for name in failed(results)]


def run_due(
    root: Path, folder: Path, found: Found, due: Iterable[str], arguments: list[str]
) -> int:
    """Run the tests that are due; returns the exit code of pytest."""
    marked = found.marked
    counts = {name: PARAMETERS_OF_RULES if name in marked else PARAMETERS_OF_DOORS for name in due}
    return run_tests(root, folder, counts, arguments)


class Following:
    """Runs tests that this machine did not run as they are, and has what was seen of them."""

    def __init__(self, root: Path, found: Found, arguments: list[str]) -> None:
        self._root = root
        self._found = found
        self._arguments = arguments
        self._digests = present_digests(root, found)
        self.seen: dict[str, Seen] = {}

    def follow(self, wanted: set[str]) -> None:
        """See to it that something was seen of these tests, and have nothing else."""
        cache = self._root / CACHE
        seen = read_cache(cache)
        if due := wanted - unchanged(self._digests, seen):
            print(f"{len(wanted)} tests are followed; {len(due)} run now", flush=True)
            folder = new_folder(cache, self._digests)
            run_due(self._root, folder, self._found, due, self._arguments)
            seen = read_cache(cache)
        self.seen = {name: each for name, each in seen.items() if name in wanted}


def failed(results: Results) -> list[str]:
    """The tests that failed or did not run."""
    return sorted(
        name for name, row in results.uncounted.items() if row.reason in ("failed", "not run")
    )


def main(arguments: list[str] | None = None) -> int:
    """The command line; options that it does not have are those of pytest."""
    parser = argparse.ArgumentParser(prog="tools.conformance_evidence", description=__doc__)
    parser.add_argument("--all", action="store_true", help="run every test again")
    parser.add_argument("--quick", action="store_true", help="only new and changed tests")
    parser.add_argument(
        "--also",
        action="append",
        default=[],
        metavar="TESTS",
        help="tests that begin like this as well, for example client/test_manager.py",
    )
    parser.add_argument("--root", type=Path, default=conformance.ROOT, help="the project's folder")
    options, others = parser.parse_known_args(arguments)
    try:
        wish = Wish(options.all, options.quick, tuple(options.also))
        problems = collect(options.root.absolute(), others, wish)
    except conformance.BadInput as error:
        problems = [str(error)]
    for line in problems:
        print(line, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
