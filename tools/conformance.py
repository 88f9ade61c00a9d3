"""Prints docs/conformance.md: every rule of every document, and the tests that prove it.

Rules live in conformance/<document>.toml. A test names the rules it would fail without by
`@pytest.mark.spec("MS-MQDMPR 3.1.1/1", ...)`. conformance/status.toml lists the rules that no test
proves, with the reason, and the rules that a ruling replaces. Each rule must be in exactly one of
the two; only a rule by ruling may have tests as well, which prove the ruling.

A rule whose text follows a ruling of ours has `ruling`. Where that text contradicts the document,
it has `printed` too, with what the document prints: then it is by ruling, whatever its tests prove.
A rule of two statements has `clauses`, and needs a test for each:
`@pytest.mark.spec("MS-MQQB 3.1.3.2/16", clause="kept")`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from tools import conformance_digests, conformance_results
from tools.conformance_results import Results

ROOT = Path(__file__).parent.parent
STATES = ("done", "done as ruled", "by ruling", "waiting", "not done", "open")
PROVED = frozenset({"done", "done as ruled"})
NO_RULES = ("doors.toml", "phrases.toml", "status.toml")
UNMEASURED = [
    "**Not measured yet**: there is no `conformance/evidence.json`, so a rule is *done* here if a",
    "test names it. `make conformance` measures which tests count (testing.md).",
    "",
]
ENTRY_KEYS = {"rules", "reason", "waits_for", "ruling"}
RULE_KEYS = {"id", "text", "level", "kind", "ruling", "open", "printed", "clauses"}


class Rule(NamedTuple):
    """One checkable statement of a document, in our own words."""

    id: str
    text: str
    ruling: str
    printed: str = ""  # what the document prints, where a ruling contradicts it
    clauses: tuple[str, ...] = ()  # what needs a test of its own

    @property
    def section(self) -> str:
        """The part of the identifier in front of the rule's number."""
        return self.id.rpartition("/")[0]


class Document(NamedTuple):
    """One rules file."""

    title: str
    edition: str
    rules: list[Rule]


class Entry(NamedTuple):
    """Why no test proves a rule, and the part that brings one or the ruling that replaces it."""

    reason: str
    waits_for: str
    ruling: str


class Evidence(NamedTuple):
    """All that is known about the rules: who proves which, and what is excused.

    Without results of a collection every test counts.
    """

    documents: list[Document]
    tests: dict[str, list[str]]
    entries: dict[str, Entry]
    results: Results | None = None
    clauses: Mapping[str, dict[str, list[str]]] = MappingProxyType({})

    def counting(self, rule_id: str) -> list[str]:
        """The tests of a rule that count."""
        return self._that_count(self.tests.get(rule_id, []))

    def counting_for(self, rule: Rule, clause: str) -> list[str]:
        """Return the tests of one clause of a rule that count."""
        return self._that_count(self.clauses.get(rule.id, {}).get(clause, []))

    def _that_count(self, names: list[str]) -> list[str]:
        return [name for name in names if self.results is None or self.results.counts(name)]

    def is_proved(self, rule: Rule) -> bool:
        """Return whether tests prove a rule, or the ruling in its place, in all its clauses."""
        return bool(self.counting(rule.id)) and not self.untested(rule)

    def untested(self, rule: Rule) -> list[str]:
        """Return the clauses of a rule that no test holds."""
        return [clause for clause in rule.clauses if not self.counting_for(rule, clause)]

    def state(self, rule: Rule) -> str:
        """One of STATES."""
        entry = self.entries.get(rule.id)
        if entry is not None and entry.ruling:
            return "by ruling"
        if self.is_proved(rule):
            if rule.printed:
                return "by ruling"
            return "done as ruled" if rule.ruling else "done"
        if entry is None:
            return "open"
        return "waiting" if entry.waits_for else "not done"


class BadInput(Exception):
    """A rules or status file that does not hold together, or tests that cannot be collected."""


def read_documents(folder: Path) -> list[Document]:
    """Every rules file of the folder, in the order of their names."""
    files = sorted(path for path in folder.glob("*.toml") if path.name not in NO_RULES)
    documents = [read_document(path) for path in files]
    counts = Counter(rule.id for document in documents for rule in document.rules)
    if twice := [rule_id for rule_id, count in counts.items() if count > 1]:
        raise BadInput(f"rules listed twice: {', '.join(twice)}")
    return documents


def read_document(path: Path) -> Document:
    """One rules file; its rules keep the order they have there."""
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    rules = [rule_of(path, row) for row in data.get("rule", [])]
    meta = data.get("meta", {})
    return Document(meta.get("document", path.stem), meta.get("edition", ""), rules)


def rule_of(path: Path, row: dict[str, Any]) -> Rule:
    """One rule of a file."""
    if unknown := set(row) - RULE_KEYS:
        raise BadInput(f"{path.name}: {row['id']}: unknown keys: {', '.join(sorted(unknown))}")
    ruling, printed = ruling_of(row), row.get("printed", "")
    if printed and not ruling:
        raise BadInput(f"{path.name}: {row['id']}: departs from what is printed without a ruling")
    return Rule(row["id"], row["text"], ruling, printed, tuple(row.get("clauses", ())))


def ruling_of(row: dict[str, str]) -> str:
    """Where docs/deviations.md explains how the rule is read: a ruling, an open point, or both."""
    return ", ".join(row[key] for key in ("ruling", "open") if key in row)


def read_status(path: Path) -> dict[str, Entry]:
    """The rules that no test proves, by identifier."""
    entries: dict[str, Entry] = {}
    for row in tomllib.loads(path.read_text(encoding="utf-8")).get("entry", []):
        if unknown := set(row) - ENTRY_KEYS:
            raise BadInput(f"{path.name}: unknown keys: {', '.join(sorted(unknown))}")
        if not row.get("rules") or not row.get("reason"):
            raise BadInput(f"{path.name}: an entry needs rules and a reason: {row}")
        if row.get("ruling") and row.get("waits_for"):
            raise BadInput(f"{path.name}: an entry has a ruling or waits, not both: {row}")
        for rule_id in row["rules"]:
            if rule_id in entries:
                raise BadInput(f"{path.name}: {rule_id} is listed twice")
            entries[rule_id] = Entry(row["reason"], row.get("waits_for", ""), row.get("ruling", ""))
    return entries


class MarkerCollector:
    """A pytest plugin that notes which test carries which rule, and the functions of all tests."""

    def __init__(self) -> None:
        self.tests: dict[str, list[str]] = {}
        self.clauses: dict[str, dict[str, list[str]]] = {}
        self.functions: dict[str, Callable[..., Any]] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Called once by pytest, after every test has been collected."""
        for item in items:
            name = item.nodeid.partition("[")[0].removeprefix("tests/")
            if isinstance(item, pytest.Function):
                self.functions[name] = item.function
            for mark in item.iter_markers("spec"):
                for rule_id in mark.args:
                    note(self.tests, rule_id, name)
                    if clause := mark.kwargs.get("clause"):
                        note(self.clauses.setdefault(rule_id, {}), clause, name)
        self.tests = {rule_id: sorted(names) for rule_id, names in self.tests.items()}

    def digests(self) -> dict[str, str]:
        """The digests of the tests that name rules."""
        names = {name for names in self.tests.values() for name in names}
        return {name: conformance_digests.of_test(self.functions[name]) for name in names}


def note(tests: dict[str, list[str]], key: str, name: str) -> None:
    """Remember a test once, however many parameters it has."""
    names = tests.setdefault(key, [])
    if name not in names:
        names.append(name)


def collect(root: Path, folder: str = "tests") -> MarkerCollector:
    """The tests under root/folder and the rules they name; runs none of them."""
    collector = MarkerCollector()
    said = io.StringIO()
    arguments = [f"--rootdir={root}", "--collect-only", "-q", "-p", "no:xdist", str(root / folder)]
    with contextlib.redirect_stdout(said), contextlib.chdir(root):
        code = pytest.main(arguments, plugins=[collector])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        errors = said.getvalue().partition("= ERRORS =")[2] or said.getvalue()
        raise BadInput(f"the tests cannot be collected:\n{errors}")
    return collector


def gather(root: Path, collector: MarkerCollector) -> Evidence:
    """Everything about the project at root."""
    folder = root / "conformance"
    return Evidence(
        documents=read_documents(folder),
        tests=collector.tests,
        clauses=collector.clauses,
        entries=read_status(folder / "status.toml"),
        results=conformance_results.read(root),
    )


def problems(evidence: Evidence, complete: bool) -> list[str]:
    """What does not hold together, one line each."""
    rules = [rule for document in evidence.documents for rule in document.rules]
    known = {rule.id for rule in rules}
    found = [
        f"{rule_id}: no such rule, named by {', '.join(names)}"
        for rule_id, names in evidence.tests.items()
        if rule_id not in known
    ]
    found += [
        f"{id_}: no such rule, in status.toml" for id_ in evidence.entries if id_ not in known
    ]
    found += [
        f"{id_}: proved by {evidence.tests[id_][0]} and listed in status.toml as well"
        for id_, entry in evidence.entries.items()
        if id_ in evidence.tests and not entry.ruling
    ]
    found += [
        f"{rule_id}: it has no clause {clause!r}, named by {', '.join(names)}"
        for rule_id, clauses in evidence.clauses.items()
        for clause, names in clauses.items()
        if all(rule.id != rule_id or clause not in rule.clauses for rule in rules)
    ]
    if complete:
        found += [
            f"{rule.id}: no test holds its clause {clause!r}"
            for rule in rules
            if evidence.counting(rule.id)
            for clause in evidence.untested(rule)
        ]
        found += [
            f"{rule.id}: neither proved by a test nor listed in status.toml{doubts(rule, evidence)}"
            for rule in rules
            if evidence.state(rule) == "open" and not evidence.counting(rule.id)
        ]
    return found


def doubts(rule: Rule, evidence: Evidence) -> str:
    """The tests of a rule that do not count, with the reasons."""
    if evidence.results is None or rule.id not in evidence.tests:
        return ""
    tests = [f"{name} ({evidence.results.why_not(name)})" for name in evidence.tests[rule.id]]
    return f"; no test counts: {', '.join(tests)}"


def render(evidence: Evidence) -> str:
    """docs/conformance.md as text."""
    lines = [
        "# Conformance",
        "",
        "Generated from the tests by `make docs`; do not edit. Each rule is one statement of a",
        "document in our own words. *done*: as the document has it, and the tests named would fail",
        "without it. *done as ruled*: a ruling of ours, named after the text, made it more exact",
        "or settled what the document leaves open; it does not contradict what is printed. *by",
        "ruling*: the ruling replaces what is printed; its tests prove the ruling. *waiting*: a",
        "later part of the project brings it. *not done*: left out, with the reason. *open*: not",
        "decided yet. `deviations.md` states the reason of each ruling.",
        "",
        *([] if evidence.results else UNMEASURED),
        table_row("document", "rules", *STATES),
        table_row("---", *["---:"] * (1 + len(STATES))),
    ]
    lines += [totals(document.title, document.rules, evidence) for document in evidence.documents]
    lines.append(totals("all", [r for each in evidence.documents for r in each.rules], evidence))
    for document in evidence.documents:
        lines += ["", f"## {document.title}", "", f"Edition: {document.edition}"]
        lines += section_lines(document.rules, evidence)
    return "\n".join(lines) + "\n"


def totals(title: str, rules: list[Rule], evidence: Evidence) -> str:
    """A row of the table on top: how many rules are in each state."""
    counts = Counter(evidence.state(rule) for rule in rules)
    return table_row(title, str(len(rules)), *[str(counts[state]) for state in STATES])


def section_lines(rules: Iterable[Rule], evidence: Evidence) -> list[str]:
    """A table for each section, in the order of the rules."""
    lines: list[str] = []
    section = None
    for rule in rules:
        if rule.section != section:
            section = rule.section
            lines += ["", f"### {section}", "", table_row("rule", "text", "state")]
            lines.append(table_row("---", "---", "---"))
        text = f"{rule.text} ({rule.ruling})" if rule.ruling else rule.text
        lines.append(table_row(rule.id.rpartition("/")[2], text, state_cell(rule, evidence)))
    return lines


def state_cell(rule: Rule, evidence: Evidence) -> str:
    """The state in words, with its tests or its reason."""
    state = evidence.state(rule)
    tests = ", ".join(f"`{name}`" for name in evidence.counting(rule.id))
    if state in PROVED:
        return f"{state}: {tests}"
    if state == "open":
        return f"open{doubts(rule, evidence)}"
    entry = evidence.entries.get(rule.id)
    if entry is None:
        return f"by ruling (printed: {rule.printed}); tests of the ruling: {tests}"
    if state == "by ruling":
        proof = f"; tests of the ruling: {tests}" if tests else ""
        return f"by ruling ({entry.ruling}): {entry.reason}{proof}"
    if state == "waiting":
        return f"waiting for {entry.waits_for}: {entry.reason}"
    return f"not done: {entry.reason}"


def table_row(*cells: str) -> str:
    """A row of a Markdown table."""
    escaped = (cell.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def run(
    root: Path, check: bool, complete: bool, collector: MarkerCollector | None = None
) -> list[str]:
    """Write docs/conformance.md, or only compare it; returns what is wrong.

    Pass a collector if you have collected all tests already.
    """
    collector = collector or collect(root)
    evidence = gather(root, collector)
    found = problems(evidence, complete)
    if evidence.results is not None:
        found += conformance_results.stale(root, evidence.results, collector.digests())
    page = root / "docs" / "conformance.md"
    text = render(evidence)
    if not check:
        page.write_text(text, encoding="utf-8")
    elif not page.exists() or page.read_text(encoding="utf-8") != text:
        found.append("docs/conformance.md is stale: run make docs")
    return found


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns 1 and prints each problem when there is one."""
    parser = argparse.ArgumentParser(prog="tools.conformance", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, fail when stale")
    parser.add_argument("--complete", action="store_true", help="every rule must be accounted for")
    parser.add_argument("--root", type=Path, default=ROOT, help="the project's folder")
    options: Any = parser.parse_args(arguments)
    try:
        found = run(options.root, options.check, options.complete)
    except BadInput as error:
        found = [str(error)]
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
