"""`make conformance-audit`: plants a fault for some random rules and sees whether their tests fail.

For each rule that is drawn, a small mistake (those of tools/mutants.py) is made in the rule's own
lines: those that no other test runs, or if there are none, those that the fewest others run and at
most a dozen; lines of the package that a test belongs to by its folder come before all others. What
other processes run for a test is known by function: where that is all, the lines of the functions
count. Then the rule's tests run, and one of them must fail. A mistake may change
nothing that can be seen, so up to three are tried before the rule counts as not noticed. A rule
that has no line of its own is listed and another one is drawn in its place. Of a rule with clauses
each clause is drawn by itself. Which rules are drawn follows from the last commit, so that who
runs the audit does not choose them. Mistakes are made in copies of the tree, which are removed at
the end.

What is published is how many the first mistake was noticed of; "by one of three" stands beside it.

The other tests are those of the rules that are drawn, and all in the same test files that name
rules or enter through doors. Those that this machine did not run as they are run first, to see
their lines; nothing else has to be run before.
"""

from __future__ import annotations

import argparse
import ast
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import groupby, islice
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from tools import (
    conformance,
    conformance_digests,
    conformance_evidence,
    conformance_reach,
    mutants,
)
from tools.conformance_evidence import Seen
from tools.conformance_lines import Line, Lines, read_lines
from tools.conformance_reach import Doors
from tools.mutants import Change, Mutant, Tree

ATTEMPTS = 3
OTHERS_MAX = 12  # other tests that may run a line of a rule
GOAL = 51 / 60  # by the first mistake
SEED_DIGITS = 8  # of the hash of the last commit
SECONDS_MIN = 20.0
SECONDS_FACTOR = 5.0
BASELINE_SECONDS = 600.0
LIKELY = ("negate", "return", "remove", "boolean")  # mistakes that seldom mean nothing
Place = tuple[Line, Change]  # a line, and a mistake that can be made there
NO_LINE = "no line of its own"
LOG_CALLS = (".debug(", ".info(", ".warning(", ".error(", ".exception(", "_log", "log(")


class Mistake(NamedTuple):
    """A mistake, and how many other tests run its line."""

    others: int
    mutant: Mutant


class Drawn(NamedTuple):
    """A rule, its tests that count, and the mistakes that may be made for it."""

    rule: str
    tests: tuple[str, ...]
    mistakes: tuple[Mistake, ...]


class Verdict(NamedTuple):
    """What became of a rule: noticed, not noticed, or why it could not be tried."""

    drawn: Drawn
    outcome: str
    tried: tuple[Mistake, ...]

    @property
    def is_noticed(self) -> bool:
        """Whether a test of the rule failed for a mistake."""
        return self.outcome == "noticed"


# --- what to break ------------------------------------------------------------------------------


def proved_rules(root: Path, collector: conformance.MarkerCollector) -> dict[str, tuple[str, ...]]:
    """Return the rules that tests prove, or the rulings in their place, with the tests that count.

    Of a rule with clauses each clause stands for itself, with its own tests.
    """
    evidence = conformance.gather(root, collector)
    if evidence.results is None:
        raise conformance.BadInput("there is no collection: run make conformance")
    found: dict[str, tuple[str, ...]] = {}
    for document in evidence.documents:
        for rule in filter(evidence.is_proved, document.rules):
            if not rule.clauses:
                found[rule.id] = tuple(evidence.counting(rule.id))
            for clause in rule.clauses:
                found[f"{rule.id} ({clause})"] = tuple(evidence.counting_for(rule, clause))
    return found


class Functions:
    """Which tests run which function, in any process."""

    def __init__(self, seen: dict[str, Seen], doors: Doors) -> None:
        self._of_test = {
            name: conformance_reach.functions_run(each.calls, doors) for name, each in seen.items()
        }
        self._counts = Counter(name for each in self._of_test.values() for name in each)

    def others(self, tests: tuple[str, ...]) -> dict[str, int]:
        """The functions that some tests run, and how many other tests run them."""
        own = Counter(name for test in tests for name in self._of_test.get(test, ()))
        return {name: self._counts[name] - count for name, count in own.items()}


class Run(NamedTuple):
    """A line, and how many tests of a rule and how many others run it."""

    line: Line
    own: int
    others: int

    def rank(self) -> tuple[int, int]:
        """The lower, the more the line is about the rule."""
        return self.others, -self.own


def is_near(file: str, tests: tuple[str, ...]) -> bool:
    """Whether a file of src is in a package that has the place of a test's folder."""
    package = file.split("/", 2)[2]
    return any(package.startswith(f"{test.rpartition('/')[0]}/") for test in tests)


class Chooser:
    """Chooses mistakes for a rule, with a seed of the run and the rule."""

    def __init__(self, root: Path, lines: Lines, functions: Functions, seed: int) -> None:
        self._root = root
        self._lines = lines
        self._functions = functions
        self._seed = seed
        self._parsed = cache(self._parse)

    def _parse(self, file: str) -> tuple[str, ast.Module]:
        source = (self._root / file).read_text(encoding="utf-8")
        return source, ast.parse(source)

    def draw(self, rule: str, tests: tuple[str, ...]) -> Drawn:
        """Mistakes in the rule's own lines; none where more than a dozen others run each."""
        found = self._others(tests) or self._others_by_function(tests)
        few = [run for run in found if run.others <= OTHERS_MAX]
        chance = random.Random(f"{self._seed} {rule}")
        mistakes = self._chosen([run for run in few if is_near(run.line[0], tests)], chance)
        return Drawn(rule, tests, tuple(mistakes or self._chosen(few, chance)))

    def _chosen(self, runs: list[Run], chance: random.Random) -> list[Mistake]:
        """Only lines that no other test runs, if there are any; else those of the fewest others."""
        chosen: list[Mistake] = []
        for (others, _), same in groupby(sorted(runs, key=Run.rank), Run.rank):
            if chosen and not chosen[0].others and others:
                break
            places = one_for_each_line(list(self._places([run.line for run in same])), chance)
            found = filter(None, (self._mutant(*place) for place in places))
            chosen += [Mistake(others, mutant) for mutant in islice(found, ATTEMPTS - len(chosen))]
            if len(chosen) == ATTEMPTS:
                break
        return chosen

    def _others(self, tests: tuple[str, ...]) -> list[Run]:
        own = Counter(line for test in tests for line in self._lines.of_test.get(test, ()))
        counts = self._lines.counts
        return [Run(line, count, counts[line] - count) for line, count in own.items()]

    def _others_by_function(self, tests: tuple[str, ...]) -> list[Run]:
        found: list[Run] = []
        for function, others in self._functions.others(tests).items():
            file, _, name = function.rpartition(":")
            source, _ = self._parsed(file)
            lines = conformance_digests.lines_of_functions(source).get(name, set())
            found += [Run((file, line), 1, others) for line in lines]
        return found

    def _places(self, lines: list[Line]) -> Iterator[Place]:
        by_file: dict[str, set[int]] = {}
        for file, line in lines:
            by_file.setdefault(file, set()).add(line)
        for file, numbers in sorted(by_file.items()):
            source, tree = self._parsed(file)
            rows = source.splitlines()
            for change in mutants.changes_of(tree, numbers):
                line = getattr(change[1], "lineno", 0)
                if line in numbers and not is_log(rows[line - 1]):
                    yield (file, line), change

    def _mutant(self, line: Line, change: Change) -> Mutant | None:
        return mutants.mutant_of(line[0], self._parsed(line[0])[0], change)


def is_log(row: str) -> bool:
    """Whether a line writes to the log, which no rule is about."""
    return any(call in row for call in LOG_CALLS)


def one_for_each_line(pool: list[Place], chance: random.Random) -> list[Place]:
    """Mistakes of different lines in a random order, those first that seldom mean nothing."""
    chance.shuffle(pool)
    pool.sort(key=lambda place: place[1][0] not in LIKELY)
    found: dict[Line, Place] = {}
    for place in pool:
        found.setdefault(place[0], place)
    return list(found.values())


# --- breaking it --------------------------------------------------------------------------------


class Auditor:
    """Tries the mistakes of one rule after the other, in copies of the tree."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self.trees: SimpleQueue[Tree] = SimpleQueue()

    def attempt(self, drawn: Drawn) -> Verdict:
        """Up to three mistakes, until one is noticed."""
        tree = self.trees.get()
        try:
            verdict = self._attempt(tree, drawn)
        finally:
            self.trees.put(tree)
        self._say(line_of(verdict))
        return verdict

    def _attempt(self, tree: Tree, drawn: Drawn) -> Verdict:
        if not drawn.mistakes:
            return Verdict(drawn, NO_LINE, ())
        targets = [f"tests/{name}" for name in drawn.tests]
        began = time.monotonic()
        if tree.test(targets, BASELINE_SECONDS) != "survived":
            return Verdict(drawn, "its tests fail without a mistake", ())
        limit = max(SECONDS_MIN, SECONDS_FACTOR * (time.monotonic() - began))
        for count, mistake in enumerate(drawn.mistakes, 1):
            if tree.try_mutant(mistake.mutant, targets, limit) != "survived":
                return Verdict(drawn, "noticed", drawn.mistakes[:count])
        return Verdict(drawn, "not noticed", drawn.mistakes)


def line_of(verdict: Verdict) -> str:
    """One rule in a line: what became of it, what was broken, and which tests ran."""
    places = ", ".join(map(place_of, verdict.tried))
    names = " ".join(verdict.drawn.tests)
    return f"{verdict.outcome}: {verdict.drawn.rule} [{places}] {names}"


def place_of(mistake: Mistake) -> str:
    """Where a mistake was made, and who else runs the line."""
    mutant = mistake.mutant
    whose = f", {mistake.others} other tests" if mistake.others else ""
    return f"{mutant.path}:{mutant.line} {mutant.name}{whose}"


# --- the command --------------------------------------------------------------------------------


class Collection:
    """What the tests of rules and their neighbours run, followed on this machine."""

    def __init__(self, root: Path, workers: int) -> None:
        self._root = root
        self._cache = root / conformance_evidence.CACHE
        self._doors = conformance_reach.read_doors(root / "conformance" / "doors.toml")
        self._found = conformance_evidence.find_tests(root, self._doors)
        arguments = ["-n", str(workers if workers > 1 else 0), "--dist", "worksteal"]
        self._following = conformance_evidence.Following(root, self._found, arguments)
        self._tests: set[str] = set()

    def rules(self) -> dict[str, tuple[str, ...]]:
        """The rules that tests prove, with their tests that count."""
        return proved_rules(self._root, self._found.collector)

    def chooser(self, tests: set[str], seed: int) -> Chooser:
        """Follows more tests; has the lines and functions of all that were asked for so far."""
        self._tests |= tests
        self._following.follow(self._neighbours())
        seen = self._following.seen
        lines = read_lines(self._root, self._cache, self._tests, set(seen))
        lines = lines.without(self._doors.is_driver)
        return Chooser(self._root, lines, Functions(seen, self._doors), seed)

    def _neighbours(self) -> set[str]:
        files = {name.partition("::")[0] for name in self._tests}
        return {name for name in self._found.digests if name.partition("::")[0] in files}


class Draw:
    """The rules of an audit, in the order of a seed: as many as are wanted and have lines."""

    def __init__(self, rules: dict[str, tuple[str, ...]], options: argparse.Namespace) -> None:
        self._rules = rules
        self._only: list[str] | None = options.only
        self._wanted = min(options.rules, len(rules))
        self._seed: int = options.seed

    def order(self) -> list[str]:
        """Those that are drawn first, and those that may take their places."""
        if self._only:
            return self._only
        chance = random.Random(self._seed)
        first = chance.sample(sorted(self._rules), self._wanted)
        rest = sorted(self._rules.keys() - set(first))
        return first + chance.sample(rest, len(rest))

    def run(self, collection: Collection) -> tuple[list[Drawn], list[Drawn]]:
        """The rules with lines of their own, and those without that were drawn before."""
        order, with_lines, without = iter(self.order()), list[Drawn](), list[Drawn]()
        while batch := list(islice(order, self._wanted - len(with_lines))):
            tests = {test for rule in batch for test in self._rules[rule]}
            chooser = collection.chooser(tests, self._seed)
            for drawn in (chooser.draw(rule, self._rules[rule]) for rule in batch):
                (with_lines if drawn.mistakes else without).append(drawn)
        return with_lines, without


def seed_of_commit(root: Path) -> int:
    """Return the first eight hex digits of the last commit: who runs the audit does not choose."""
    found = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=False
    )
    if found.returncode:
        raise conformance.BadInput("there is no commit to draw rules by: give --seed")
    return int(found.stdout[:SEED_DIGITS], 16)


def audit(options: argparse.Namespace, say: Callable[[str], None] = print) -> list[Verdict]:
    """Draw the rules, break their lines, and see."""
    root = options.root.absolute()
    source = "" if options.seed is not None else ", the first eight hex digits of the last commit"
    if options.seed is None:
        options.seed = seed_of_commit(root)
    collection = Collection(root, options.workers)
    rules = collection.rules()
    if unknown := sorted(set(options.only or ()) - rules.keys()):
        raise conformance.BadInput(f"not among the rules that tests prove: {', '.join(unknown)}")
    drawn, without = Draw(rules, options).run(collection)
    say(f"{len(drawn)} of {len(rules)} rules that tests prove, seed 0x{options.seed:08x}{source}")
    auditor = Auditor(say)
    with tempfile.TemporaryDirectory(prefix="posthouse-audit-") as folder:
        for number in range(options.workers):
            auditor.trees.put(Tree(root, Path(folder) / str(number)))
        with ThreadPoolExecutor(options.workers) as pool:
            verdicts = list(pool.map(auditor.attempt, drawn))
    return verdicts + [Verdict(each, NO_LINE, ()) for each in without]


def report(root: Path, verdicts: list[Verdict], say: Callable[[str], None] = print) -> bool:
    """The mistakes that no test noticed, as diffs, and the totals; whether the goal is met."""
    tried = [verdict for verdict in verdicts if verdict.outcome != NO_LINE]
    for verdict in tried:
        if not verdict.is_noticed:
            say("\n" + line_of(verdict))
            for mistake in verdict.tried:
                say(mutants.difference(root, mistake.mutant))
    say("")
    for verdict in verdicts:
        if verdict.outcome == NO_LINE:
            say(line_of(verdict))
    noticed = [verdict for verdict in tried if verdict.is_noticed]
    at_first = sum(len(verdict.tried) == 1 for verdict in noticed)
    alone = sum(not verdict.tried[0].others for verdict in tried if verdict.tried)
    say(f"{at_first} of {len(tried)} noticed by the first mistake, {len(noticed)} by one of three")
    say(f"{alone} had lines that no other test runs; {len(verdicts) - len(tried)} more had no line")
    return at_first >= GOAL * len(tried)


def main(arguments: list[str] | None = None) -> int:
    """The command line; 1 where the first mistake is noticed for fewer rules than 51 of 60."""
    parser = argparse.ArgumentParser(prog="tools.conformance_audit", description=__doc__)
    parser.add_argument(
        "--seed",
        type=lambda text: int(text, 0),
        help="draw other rules than those of the last commit",
    )
    parser.add_argument("--rules", type=int, default=60, help="how many rules to draw")
    parser.add_argument(
        "--only",
        action="append",
        metavar="RULE",
        help="this rule, or RULE (CLAUSE); may be repeated",
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--root", type=Path, default=conformance.ROOT, help="the project's folder")
    parser.add_argument("--report", type=Path, help="also write everything into this file")
    options = parser.parse_args(arguments)
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        print(text, flush=True)

    try:
        is_met = report(options.root.absolute(), audit(options, say), say)
    except conformance.BadInput as error:
        print(error, file=sys.stderr)
        return 1
    if options.report:
        options.report.write_text("\n".join(said) + "\n", encoding="utf-8")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
