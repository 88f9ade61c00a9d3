"""The lines of src that each test ran, from what `make conformance` kept, for the source as it is.

A collection may be older than the source. Functions that a test ran did not change since, or the
test would have to run again; but they may have moved. So lines are counted from the first line of
their function.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from coverage import CoverageData

from tools import conformance_digests
from tools.conformance_evidence import PLACE, name_of, runs_of

Line = tuple[str, int]  # a file of src and a line number


class Lines(NamedTuple):
    """For each line how many tests ran it; for the tests that were asked for, their lines."""

    counts: dict[Line, int]
    of_test: dict[str, set[Line]]

    def without(self, left_out: Callable[[str], bool]) -> Lines:
        """Without the lines of some files."""
        files = {file for file, _ in self.counts if left_out(file)}
        kept = {
            test: {line for line in lines if line[0] not in files}
            for test, lines in self.of_test.items()
        }
        return Lines(self.counts, kept)


class Shift:
    """Where the functions were when the tests ran, and where they are now."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._root = root
        self._places: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for function, line in starts(folder).items():
            file, _, name = function.rpartition(":")
            self._places[file].append((line, name))
        for places in self._places.values():
            places.sort()
        self._now: dict[str, dict[str, int]] = {}

    def now(self, file: str, line: int) -> int | None:
        """The present number of a line; None for one outside of functions, and of one gone."""
        places = self._places.get(file, [])
        found = bisect_right(places, (line, "\uffff")) - 1
        if found < 0:
            return None
        start, name = places[found]
        if file not in self._now:
            path = self._root / file
            source = path.read_text(encoding="utf-8") if path.exists() else ""
            self._now[file] = conformance_digests.first_lines(source)
        present = self._now[file].get(name)
        return None if present is None else present + line - start


def starts(folder: Path) -> dict[str, int]:
    """The first lines of all functions that ran in one collection."""
    found: dict[str, int] = {}
    for path in folder.glob("tests-*"):
        with path.open(encoding="utf-8") as rows:
            for row in map(json.loads, rows):
                first = row["starts"]
                found |= {name: first[n] for n, name in row["names"].items() if first[n]}
    return found


def read_lines(root: Path, cache: Path, tests: set[str], among: set[str]) -> Lines:
    """The lines of some tests, and how many of many others run each."""
    last = last_runs(cache)
    counts: dict[Line, int] = defaultdict(int)
    of_test: dict[str, set[Line]] = defaultdict(set)
    for folder in runs_of(cache):
        shift = Shift(root, folder)
        for file, line, names in lines_of_run(folder):
            number = shift.now(file, line)
            if number is None:
                continue
            current = {name for name in names & among if last.get(name) == folder}
            counts[file, number] += len(current)
            for name in current & tests:
                of_test[name].add((file, number))
    return Lines(counts, of_test)


def last_runs(cache: Path) -> dict[str, Path]:
    """The last collection that ran each test."""
    found: dict[str, Path] = {}
    for folder in runs_of(cache):
        for path in folder.glob("tests-*"):
            with path.open(encoding="utf-8") as rows:
                found |= {name_of(json.loads(row)["test"]): folder for row in rows}
    return found


def lines_of_run(folder: Path) -> Iterator[tuple[str, int, set[str]]]:
    """Every line that ran in one collection, with the names of its tests."""
    place = (folder / PLACE).read_text(encoding="utf-8")
    by_file: dict[str, list[CoverageData]] = defaultdict(list)
    for path in folder.glob("lines-*"):
        data = CoverageData(str(path))
        data.read()
        for file in data.measured_files():
            by_file[file].append(data)
    for file, parts in sorted(by_file.items()):
        found: dict[int, set[str]] = defaultdict(set)
        for data in parts:
            for line, contexts in data.contexts_by_lineno(file).items():
                found[line] |= names_of(contexts)
        for line, names in found.items():
            yield file.removeprefix(f"{place}/"), line, names


def names_of(contexts: Iterable[str]) -> set[str]:
    """The tests of some contexts; what ran between tests has none."""
    return {name_of(context) for context in contexts if context}
