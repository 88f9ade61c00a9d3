"""`make conformance-audit`: plants a fault for some random rules and sees whether their tests fail.

For each rule that is drawn, a small mistake (those of tools/mutants.py) is made in lines that only
the tests of this rule run; where there are none, in those of its lines that the fewest other tests
run. What other processes run for a test is known by function: where that is all, the lines of the
functions count. Then the rule's tests run, and one of them must fail. A mistake may change nothing
that can be seen, so up to three are tried before the rule counts as not noticed. All of this
happens in copies of the tree, which are removed at the end.

It needs a current collection: run `make conformance` first.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
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
from tools.mutants import Mutant, Tree

ATTEMPTS = 3
POOL = 12  # mistakes to choose from, where no line belongs to the rule alone
GOAL = 58 / 60
SECONDS_MIN = 20.0
SECONDS_FACTOR = 5.0
BASELINE_SECONDS = 600.0
LIKELY = ("negate", "return", "remove", "boolean")  # mistakes that seldom mean nothing
LOG_CALLS = (".debug(", ".info(", ".warning(", ".error(", ".exception(", "_log", "log(")


class Drawn(NamedTuple):
    """A rule, its tests that count, and the mistakes that may be made for it."""

    rule: str
    tests: tuple[str, ...]
    mistakes: tuple[Mutant, ...]
    others: int  # the most other tests that run one of the lines


class Verdict(NamedTuple):
    """What became of a rule: noticed, not noticed, or why it could not be tried."""

    drawn: Drawn
    outcome: str
    tried: tuple[tuple[Mutant, str], ...]

    @property
    def is_noticed(self) -> bool:
        """Whether a test of the rule failed for a mistake."""
        return self.outcome == "noticed"


# --- what to break ------------------------------------------------------------------------------


def done_rules(root: Path, tests: dict[str, list[str]]) -> dict[str, tuple[str, ...]]:
    """The rules that are done, with the tests that count."""
    evidence = conformance.gather(root, tests)
    if evidence.results is None:
        raise conformance.BadInput("there is no collection: run make conformance")
    return {
        rule.id: tuple(evidence.counting(rule.id))
        for document in evidence.documents
        for rule in document.rules
        if evidence.state(rule) == "done"
    }


class Functions:
    """Which tests run which function, in whatever process."""

    def __init__(self, seen: dict[str, Seen], doors: Doors) -> None:
        self._of_test = {
            name: conformance_reach.functions_run(each.calls, doors) for name, each in seen.items()
        }
        self._counts = Counter(name for each in self._of_test.values() for name in each)

    def others(self, tests: tuple[str, ...]) -> dict[str, int]:
        """The functions that some tests run, and how many other tests run them."""
        own = Counter(name for test in tests for name in self._of_test.get(test, ()))
        return {name: self._counts[name] - count for name, count in own.items()}


class Chooser:
    """Chooses mistakes for a rule, with a seed of the run and the rule."""

    def __init__(self, root: Path, lines: Lines, functions: Functions, seed: int) -> None:
        self._root = root
        self._lines = lines
        self._functions = functions
        self._seed = seed

    def draw(self, rule: str, tests: tuple[str, ...]) -> Drawn:
        """Mistakes in the lines that the fewest other tests run."""
        chance = random.Random(f"{self._seed} {rule}")
        pool: list[tuple[int, Mutant]] = []
        by_others: dict[int, list[Line]] = {}
        for line, others in (self._others(tests) or self._others_by_function(tests)).items():
            by_others.setdefault(others, []).append(line)
        for others, lines in sorted(by_others.items()):
            found = [(others, mutant) for mutant in self._mistakes(lines)]
            pool += found
            if pool and (others == 0 or len(pool) >= POOL):
                break
        chosen = one_for_each_line(pool, chance)[:ATTEMPTS]
        most = max((others for others, _ in chosen), default=0)
        return Drawn(rule, tests, tuple(mutant for _, mutant in chosen), most)

    def _others(self, tests: tuple[str, ...]) -> dict[Line, int]:
        own: dict[Line, int] = {}
        for test in tests:
            for line in self._lines.of_test.get(test, set()):
                own[line] = own.get(line, 0) + 1
        return {line: self._lines.counts[line] - count for line, count in own.items()}

    def _others_by_function(self, tests: tuple[str, ...]) -> dict[Line, int]:
        found: dict[Line, int] = {}
        for function, others in self._functions.others(tests).items():
            file, _, name = function.rpartition(":")
            source = (self._root / file).read_text(encoding="utf-8")
            lines = conformance_digests.lines_of_functions(source).get(name, set())
            found |= {(file, line): others for line in lines}
        return found

    def _mistakes(self, lines: list[Line]) -> Iterator[Mutant]:
        by_file: dict[str, set[int]] = {}
        for file, line in lines:
            by_file.setdefault(file, set()).add(line)
        for file, numbers in sorted(by_file.items()):
            source = (self._root / file).read_text(encoding="utf-8")
            rows = source.splitlines()
            for mutant in mutants.mutants_of(file, source, numbers):
                if mutant.line in numbers and not is_log(rows[mutant.line - 1]):
                    yield mutant


def is_log(row: str) -> bool:
    """Whether a line writes to the log, which no rule is about."""
    return any(call in row for call in LOG_CALLS)


def one_for_each_line(
    pool: list[tuple[int, Mutant]], chance: random.Random
) -> list[tuple[int, Mutant]]:
    """Mistakes of different lines in a random order, those first that seldom mean nothing."""
    chance.shuffle(pool)
    pool.sort(key=lambda row: row[1].name not in LIKELY)
    found: dict[Line, tuple[int, Mutant]] = {}
    for others, mutant in pool:
        found.setdefault((mutant.path, mutant.line), (others, mutant))
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
            return Verdict(drawn, "no line to break", ())
        targets = [f"tests/{name}" for name in drawn.tests]
        began = time.monotonic()
        if tree.test(targets, BASELINE_SECONDS) != "survived":
            return Verdict(drawn, "its tests fail without a mistake", ())
        limit = max(SECONDS_MIN, SECONDS_FACTOR * (time.monotonic() - began))
        tried: list[tuple[Mutant, str]] = []
        for mutant in drawn.mistakes:
            outcome = tree.try_mutant(mutant, targets, limit)
            tried.append((mutant, outcome))
            if outcome != "survived":
                return Verdict(drawn, "noticed", tuple(tried))
        return Verdict(drawn, "not noticed", tuple(tried))


def line_of(verdict: Verdict) -> str:
    """One rule in a line: what became of it, what was broken, and which tests ran."""
    drawn = verdict.drawn
    places = ", ".join(f"{each.path}:{each.line} {each.name}" for each, _ in verdict.tried)
    whose = "its tests alone" if not drawn.others else f"{drawn.others} other tests"
    return f"{verdict.outcome}: {drawn.rule} [{places}; lines of {whose}] {' '.join(drawn.tests)}"


# --- the command --------------------------------------------------------------------------------


class Collection:
    """What `make conformance` kept on this machine."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._cache = root / conformance_evidence.CACHE
        self._doors = conformance_reach.read_doors(root / "conformance" / "doors.toml")
        self._seen = conformance_evidence.read_cache(self._cache)

    def check_current(self, tests: set[str]) -> None:
        """Refuse to work with what other tests or another source left."""
        found = conformance_evidence.find_tests(self._root, self._doors)
        digests = conformance_evidence.present_digests(self._root, found)
        known = conformance_evidence.unchanged(digests, self._seen)
        if left := sorted(tests - known):
            names = ", ".join(left[:ATTEMPTS])
            raise conformance.BadInput(
                f"this machine did not run {names} as it is now: run make conformance, or"
                " python -m tools.conformance_evidence --all -n 2 where it never ran"
            )

    def chooser(self, tests: set[str], seed: int) -> Chooser:
        """Knows the lines and functions of the tests."""
        lines = read_lines(self._root, self._cache, tests)
        return Chooser(self._root, lines, Functions(self._seen, self._doors), seed)


def audit(options: argparse.Namespace, say: Callable[[str], None] = print) -> list[Verdict]:
    """Draw the rules, break their lines, and see."""
    root = options.root.absolute()
    rules = done_rules(root, conformance.collect(root).tests)
    names = random.Random(options.seed).sample(sorted(rules), min(options.rules, len(rules)))
    chosen = {rule: rules[rule] for rule in options.only or names}
    tests = {test for each in chosen.values() for test in each}
    collection = Collection(root)
    collection.check_current(tests)
    chooser = collection.chooser(tests, options.seed)
    drawn = [chooser.draw(rule, chosen[rule]) for rule in chosen]
    say(f"{len(drawn)} of {len(rules)} rules that are done, seed {options.seed}")
    auditor = Auditor(say)
    with tempfile.TemporaryDirectory(prefix="posthouse-audit-") as folder:
        for number in range(options.workers):
            auditor.trees.put(Tree(root, Path(folder) / str(number)))
        with ThreadPoolExecutor(options.workers) as pool:
            return list(pool.map(auditor.attempt, drawn))


def report(root: Path, verdicts: list[Verdict], say: Callable[[str], None] = print) -> bool:
    """The mistakes that no test noticed, as diffs, and the totals; whether the goal is met."""
    for verdict in verdicts:
        if not verdict.is_noticed:
            say("\n" + line_of(verdict))
            for mutant, _ in verdict.tried:
                say(mutants.difference(root, mutant))
    noticed = sum(verdict.is_noticed for verdict in verdicts)
    say(f"\n{noticed} of {len(verdicts)} noticed")
    return noticed >= GOAL * len(verdicts)


def main(arguments: list[str] | None = None) -> int:
    """The command line; 1 where fewer rules are noticed than 58 of 60."""
    parser = argparse.ArgumentParser(prog="tools.conformance_audit", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="another seed, other rules")
    parser.add_argument("--rules", type=int, default=60, help="how many rules to draw")
    parser.add_argument(
        "--only", action="append", metavar="RULE", help="this rule; may be repeated"
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
