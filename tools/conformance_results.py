"""conformance/evidence.json: which tests count for their rules, as `make conformance` found it.

It has the digest of each test that counts, the others with the reason why they do not count, the
functions of src that the tests call themselves, all functions that are reached, and the digests of
the tests that ran only for what they reach. `make test` only compares it with the tests and the
source: a test with a rule that changed or is new, or a function that tests call and that is gone,
makes it stale.
"""

from __future__ import annotations

import ast
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from tools import conformance_digests

FILE = "conformance/evidence.json"
REMEDY = "run make conformance"
SHOWN = 3


class Uncounted(NamedTuple):
    """A test that proves no rule: its digest and the reason."""

    digest: str
    reason: str


class Results(NamedTuple):
    """What the file holds; tests are named without `tests/`, functions as the trace has them."""

    counted: dict[str, str]
    uncounted: dict[str, Uncounted]
    functions: frozenset[str]
    reached: frozenset[str]
    doors: dict[str, str]

    def counts(self, test: str) -> bool:
        """Whether a test counts for its rules."""
        return test in self.counted

    def why_not(self, test: str) -> str:
        """The reason why a test does not count."""
        return self.uncounted[test].reason if test in self.uncounted else "not measured"


def read(root: Path) -> Results | None:
    """The file of a project; None where it has none."""
    path = root / FILE
    if not path.exists():
        return None
    data = json.loads(path.read_text(encoding="utf-8"))
    uncounted = {name: Uncounted(*row) for name, row in data["uncounted"].items()}
    functions, reached = joined(data["functions"]), joined(data["reached"])
    doors = {
        f"{file}::{name}": digest
        for file, inside in data.get("doors", {}).items()
        for name, digest in inside.items()
    }
    return Results(data["counted"], uncounted, functions, reached, doors)


def joined(names: Mapping[str, list[str]]) -> frozenset[str]:
    """The names of functions from their files and the rest."""
    return frozenset(f"{file}:{name}" for file, inside in names.items() for name in inside)


def parted(functions: Iterable[str]) -> dict[str, list[str]]:
    """The names of functions by their files."""
    found: dict[str, list[str]] = defaultdict(list)
    for function in sorted(functions):
        file, _, name = function.rpartition(":")
        found[file].append(name)
    return found


def by_file(tests: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The digests of tests by their files."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for test in sorted(tests):
        file, _, name = test.partition("::")
        found[file][name] = tests[test]
    return found


def write(root: Path, results: Results) -> None:
    """The file, with a line for each test and for each module: two branches merge well."""
    parts: dict[str, Mapping[str, object]] = {
        "counted": results.counted,
        "uncounted": results.uncounted,
        "functions": parted(results.functions),
        "reached": parted(results.reached),
        "doors": by_file(results.doors),
    }
    blocks = [f"{json.dumps(name)}: {{\n{block(rows)}\n}}" for name, rows in parts.items()]
    (root / FILE).write_text("{\n" + ",\n".join(blocks) + "\n}\n", encoding="utf-8")


def block(rows: Mapping[str, object]) -> str:
    """A line of JSON for each row, in the order of the keys."""
    return ",\n".join(f" {json.dumps(key)}: {json.dumps(rows[key])}" for key in sorted(rows))


def stale(root: Path, results: Results, tests: dict[str, str]) -> list[str]:
    """Why the file is not that of these tests (by name, with their digests); empty if it is."""
    known = results.counted | {name: row.digest for name, row in results.uncounted.items()}
    found = {
        "new tests": sorted(tests.keys() - known.keys()),
        "tests that are gone": sorted(known.keys() - tests.keys()),
        "changed tests": sorted(
            name for name in known.keys() & tests.keys() if known[name] != tests[name]
        ),
        "functions that are gone": sorted(results.functions - existing(root, results.functions)),
    }
    return [
        f"{FILE} is stale: {REMEDY} ({len(names)} {kind}: {shortened(names)})"
        for kind, names in found.items()
        if names
    ]


def existing(root: Path, functions: Iterable[str]) -> set[str]:
    """The functions that are in the files that the names have."""
    found: set[str] = set()
    for file in {function.rpartition(":")[0] for function in functions}:
        path = root / file
        if path.exists():
            tree = ast.parse(path.read_text(encoding="utf-8"))
            names = (name for name, _ in conformance_digests.definitions(tree, ""))
            found |= {f"{file}:{name}" for name in names}
    return found


def shortened(names: list[str]) -> str:
    """The first few names."""
    more = ", ..." if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
