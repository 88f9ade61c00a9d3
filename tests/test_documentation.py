"""The documentation and the program say the same."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from posthouse.cli import main
from posthouse.cli.commands_page import commands_page
from posthouse.cli.verbs import commands
from posthouse.model.message_columns import BODY_TEXT, DECODED_NAMES, NAMES
from posthouse.spark.options import SOURCE
from posthouse.spark.sink_options import SINK
from tests.conftest import COLLECTED
from tests.support.source import source_tree
from tools import conformance, tour

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.glob("*.md"))]
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
TARGET = re.compile(r"^([a-z]+):.*##", re.MULTILINE)
COMMANDS = dict(commands(main.program(), "posthouse"))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_helps_with_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([*name.split()[1:], "--help"]) == main.DONE
    assert f"Example: {name}" in capsys.readouterr().out


def test_the_page_of_commands_says_what_the_program_says() -> None:
    """Made by: python -m posthouse.cli.commands_page > docs/commands.md"""
    assert (DOCS / "commands.md").read_text(encoding="utf-8") == commands_page()


def test_the_tour_is_what_the_files_say() -> None:
    """Made by: python -m tools.tour"""
    assert tour.PAGE.read_text(encoding="utf-8") == tour.page()


def test_the_tour_passes_every_package() -> None:
    folders = (path.parent.name for path in tour.SOURCE.glob("*/__init__.py"))
    assert sorted(folders) == sorted(tour.ORDER)


GUIDES = ("architecture.md", "ways.md", "store.md")
TOURED = re.compile(r"^### (\w+)\n((?:.|\n)*?)(?=^### |\Z)", re.MULTILINE)
OF_EACH_PROTOCOL = {"protocol.py", "server.py", "settings.py"}
# What stands in code marks and is not of our source.
NOT_OURS = {"MAY_IMPORT", "deltalake", "posix_fadvise", "pyspark_posthouse"}


def code_in(page: str) -> list[str]:
    """What stands between code marks of a page, beside blocks of code."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))


class Names:
    """What our source defines: names anywhere, and the attributes of classes."""

    def __init__(self) -> None:
        self.classes: dict[str, list[ast.ClassDef]] = defaultdict(list)
        self.all: set[str] = set()
        for node in (node for module in source_tree().modules for node in module.nodes):
            if isinstance(node, ast.ClassDef):
                self.classes[node.name].append(node)
            self.all |= bound_by(node)

    def attributes(self, name: str) -> set[str]:
        """Those of the classes of that name, with those of their bases."""
        own: set[str] = set()
        for made in self.classes.get(name, ()):
            for base in made.bases:
                inherited = base.value if isinstance(base, ast.Subscript) else base
                if isinstance(inherited, ast.Name) and inherited.id != name:
                    own |= self.attributes(inherited.id)
            own = own.union(*map(bound_by, ast.walk(made)))
        return own


@cache
def our_names() -> Names:
    return Names()


def bound_by(node: ast.AST) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
        return {node.id if isinstance(node, ast.Name) else node.attr}
    return set()


def is_defined(name: str) -> bool:
    """Whether our source has a name: `function`, `Class.method`, `manager.part.method`."""
    names = our_names()
    first, *rest = name.removesuffix("()").split(".")
    if first == "manager" and rest:
        part = source_tree().entries.get(rest[0])
        return part is not None and set(rest[1:]) <= part
    if first == "posthouse":
        file = tour.SOURCE.joinpath(*rest)
        return file.is_dir() or file.with_suffix(".py").exists() or rest[-1] in names.all
    if first not in names.all:
        return False
    return set(rest) <= (names.attributes(first) if first in names.classes else names.all)


@pytest.mark.parametrize("page", GUIDES)
def test_the_guides_name_only_files_that_are_there(page: str) -> None:
    """Files and folders of src/posthouse, or of the checkout."""
    named = {one.rstrip("/") for one in code_in(page)}
    files = {one for one in named if re.fullmatch(r"[\w*/]+\.(py|js|md|json)", one)}
    folders = {one for one in named if re.fullmatch(r"\w+/[\w/]+", one)}
    console = {one for one in files if one.endswith(".js")}
    assert files
    assert [one for one in sorted(console) if not (tour.SOURCE / "console" / one).exists()] == []
    wrong = [
        one
        for one in sorted((files - console - OF_EACH_PROTOCOL) | folders)
        if not any(tour.SOURCE.glob(one if "/" in one else f"**/{one}")) and not any(ROOT.glob(one))
    ]
    assert wrong == []
    bare = {one for one in files - OF_EACH_PROTOCOL - console if "/" not in one}
    assert bare <= {"*_states.py"}, "name the file with its folder"


@pytest.mark.parametrize("page", GUIDES)
def test_the_guides_name_only_what_the_source_has(page: str) -> None:
    names = {one for one in code_in(page) if re.fullmatch(r"[A-Za-z_][\w.]*(\(\))?", one)}
    names = {one for one in names if not one.endswith((".py", ".js", ".md", ".json", ".toml"))}
    assert names
    folders = {path.name for path in tour.SOURCE.rglob("*") if path.is_dir()}
    wrong = [one for one in sorted(names - folders) if not is_defined(one)]
    assert sorted(set(wrong) - NOT_OURS) == []


def test_what_the_source_does_not_have_is_noticed() -> None:
    good = ["QueueManager", "Admission.admit", "manager.messages.send_packets", "Wires.resolve"]
    assert [name for name in good if not is_defined(name)] == []
    bad = [
        "QueueManger",
        "Admission.admits",
        "manager.messages.sends",
        "manager.message",
        "no_such",
    ]
    assert [name for name in bad if is_defined(name)] == []


def toured() -> dict[str, str]:
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    return dict(TOURED.findall(page.partition("\n## The packages\n")[2]))


def test_the_architecture_has_a_tour_of_each_package() -> None:
    """With what it imports: no more, no less."""
    tours = toured()
    packages = {path.name for path in tour.SOURCE.iterdir() if path.is_dir()} - {"__pycache__"}
    assert tours.keys() == packages
    imported = imports_of_packages()
    for at, (package, text) in enumerate(tours.items()):
        if package == "console":
            continue  # no Python
        (found,) = re.findall(r"Imports\s+([a-z,\s]+)\.", text)
        words = " ".join(found.split())
        above = set(list(tours)[:at]) - {"console"}
        if words.startswith("every package above"):
            shown = above - set(words.partition(" except ")[2].split(", "))
        else:
            shown = set() if words == "nothing of ours" else set(words.split(", "))
        assert shown == imported[package], package
        assert shown <= above, package


def imports_of_packages() -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for module in source_tree().modules:
        for _, dotted in module.imports():
            first, *rest = dotted.split(".")
            if first == "posthouse" and rest and (tour.SOURCE / rest[0]).is_dir():
                found[module.package].add(rest[0])
    return {package: targets - {package} for package, targets in found.items()}


PAGE_LINES = 100
TOUR_LINES = 50


def test_the_architecture_begins_with_one_page() -> None:
    """The picture, the way of a message, where things go; then tours that are short."""
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    first = text.partition("\n### A reason to refuse a message\n")[0]
    assert first.count("\n") <= PAGE_LINES
    assert [name for name, words in toured().items() if words.count("\n") > TOUR_LINES] == []


def test_every_make_target_is_documented() -> None:
    words = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for target in TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")):
        assert target in ("help", "clean") or f"make {target}" in words, target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        assert "://" in link or (page.parent / link).exists(), f"{page.name}: {link}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_prose_is_wrapped_at_100_columns(page: Path) -> None:
    """Tables, headings and what a program prints have lines as long as they are."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    long = [line for line in text.splitlines() if len(line) > 100 and line[0] not in "|#"]
    assert long == []


def test_every_page_is_in_the_index() -> None:
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    for page in DOCS.glob("*.md"):
        assert page.name == "README.md" or f"]({page.name})" in index, page.name


def rows_of(page: str, heading: str) -> list[str]:
    """The first cells of the tables under a heading of a page."""
    text = (DOCS / page).read_text(encoding="utf-8")
    part = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    assert part, heading
    return re.findall(r"^\| (`.+?) \|", part, re.MULTILINE)


def names_in(cells: list[str]) -> list[str]:
    return [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]


def test_the_page_of_spark_lists_every_option_and_column() -> None:
    reading = names_in(rows_of("spark-options.md", "Reading: options"))
    assert sorted(reading) == sorted(option.name for option in SOURCE)
    writing = names_in(rows_of("spark-options.md", "Writing: options"))
    assert sorted(writing) == sorted(option.name for option in SINK)
    assert names_in(rows_of("spark-options.md", "Columns")) == [*NAMES, BODY_TEXT.name]
    decoded = names_in(rows_of("spark-options.md", "What is in messages"))
    assert decoded[: len(DECODED_NAMES)] == [*DECODED_NAMES]


def is_whole(session: pytest.Session) -> bool:
    """Whether a run has collected every test of every file."""
    option = session.config.option
    files = {item.path for item in session.config.stash[COLLECTED]}
    narrowed = option.keyword or option.markexpr or option.deselect
    return not narrowed and all(
        path in files or "\ndef test_" not in path.read_text(encoding="utf-8")
        for path in (ROOT / "tests").rglob("test_*.py")
    )


def test_the_conformance_page_is_true(request: pytest.FixtureRequest) -> None:
    """Every mark names a rule, no rule is both proved and excused, the page is fresh."""
    if is_whole(request.session):  # as in `make test`: saves collecting all tests once more
        collector = conformance.MarkerCollector()
        collector.pytest_collection_modifyitems(request.config.stash[COLLECTED])
        assert conformance.run(ROOT, check=True, complete=True, collector=collector) == []
        return
    done = subprocess.run(
        [sys.executable, "-m", "tools.conformance", "--check", "--complete"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


RULING = re.compile(r'^(?:ruling|open) = "(.+)"$', re.MULTILINE)


def test_every_ruling_that_a_rule_names_is_explained() -> None:
    """Open points of rules stand in the first column of docs/deviations.md, so do all rulings on
    what two queue managers, or a queue manager and a remote reader, say to each other."""
    words = (DOCS / "deviations.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| ([^|]+) \|", words, re.MULTILINE)
    explained = {mark for cell in cells for mark in cell.split("; ")}
    for path in (ROOT / "conformance").glob("m*-*.toml"):
        found = RULING.findall(path.read_text(encoding="utf-8"))
        marks = {mark.removesuffix(" (inferred)") for each in found for mark in each.split(", ")}
        if path.name not in ("ms-mqqb.toml", "ms-mqrr.toml", "mc-mqsrm.toml"):
            marks = {mark for mark in marks if re.fullmatch(r"O\d+", mark)}
        assert sorted(marks - explained) == []
    status = tomllib.loads((ROOT / "conformance" / "status.toml").read_text(encoding="utf-8"))
    rulings = {one["ruling"] for one in status["entry"] if "ruling" in one}
    assert sorted(rulings - explained) == []


CITED = re.compile(
    r"[Dd]ecisions? (\d+(?:(?:, | and )\d+)*)"
    r"|[Qq]ms-facts(?:\.md)?( \d+(?:\.\d)?(?:(?:, |-| and )\d+(?:\.\d)?)*)?"
    r"|([Ss]tate-machines \d+(?:\.\d+)?(?: [a-z]\b)?|(?:[\w-]+-)?facts \d|errata \d+\.\d+"
    r"|wire-advice \d|(?:[Cc]ontract|[Dd]esign|[Hh]ouse)(?:\.md|,) ?(?:section )?\d)"
)


def cited_points(text: str) -> set[str]:
    """The decisions and facts that a source file names."""
    points = set()
    for found in CITED.finditer(text):
        numbers, netware, fact = found.groups()
        if numbers:
            points |= set(re.findall(r"\d+", numbers))
        elif fact:
            points.add(fact.lower())
        else:
            sections = re.findall(r"\d+(?:\.\d)?", netware or "")
            points |= {f"qms-facts {section}" for section in sections} or {"qms-facts"}
    return points


def test_each_way_to_cite_is_found() -> None:
    text = "decisions 13, 14 and 98; (qms-facts 1.1-1.3; 5); qms-facts.md; Qms-facts 3, 7.1"
    sections = {f"qms-facts {one}" for one in ("1.1", "1.3", "3", "7.1")}
    assert cited_points(text) == {"13", "14", "98", "qms-facts"} | sections
    papers = "(contract, section 3) Design, 5: design.md 4, windows-facts 2; facts 2.4"
    found = {"contract, section 3", "design, 5", "design.md 4", "windows-facts 2", "facts 2"}
    assert cited_points(papers) == found


def test_every_decision_and_fact_that_the_code_cites_is_on_its_page() -> None:
    words = (DOCS / "decisions.md").read_text(encoding="utf-8")
    known = set(re.findall(r"^\| ([^|]+) \|", words, re.MULTILINE))
    files = [
        path
        for folder in ("src", "tests", "tools")
        for path in (ROOT / folder).rglob("*.py")
        if path != Path(__file__)
    ]
    cited = {
        point: path.name
        for path in files
        for point in cited_points(path.read_text(encoding="utf-8"))
    }
    assert len(cited) > 120
    assert {point: name for point, name in cited.items() if point not in known} == {}


def test_every_page_that_the_code_cites_is_there() -> None:
    cited = {
        name: path.name
        for path in (ROOT / "src").rglob("*.py")
        for name in re.findall(r"\bdocs/[a-z-]+\.md", path.read_text(encoding="utf-8"))
    }
    assert len(cited) > 15
    assert {name: file for name, file in cited.items() if not (ROOT / name).exists()} == {}


# What a docstring or a comment names as code, if it has the form of a name of ours.
NAMED = re.compile(r"`([a-z]\w*_\w+|\w+(?:\.\w+)+|[\w/]+\.py)(?:\(\))?`")
WORDS_ONLY = re.compile(r'"""(?:.|\n)*?"""|#.*')
# Names of others: fields of the documents, of IDL, of libraries, of files.
OF_OTHERS = {"m_reserved", "size_is", "wbclient.h", "NNNNNNNN.suffix"}


def unknown_names(text: str, known: set[str]) -> list[str]:
    """What the words of a module name that is not there."""
    words = [found[0] for found in WORDS_ONLY.finditer(text)]
    names = {name for part in words for name in NAMED.findall(part)} - OF_OTHERS
    parts = {name: re.split(r"[./]", name.removesuffix(".py")) for name in names}
    return [
        name
        for name in sorted(names)
        if not set(parts[name]) <= known and not (ROOT / name).is_file()
    ]


def test_what_docstrings_and_comments_name_is_there() -> None:
    modules = source_tree().modules
    known = {word for module in modules for word in module.path.with_suffix("").parts}
    for module in modules:
        known |= set(re.findall(r"\w+", WORDS_ONLY.sub("", module.text)))
    found = {
        module.name: names for module in modules if (names := unknown_names(module.text, known))
    }
    assert found == {}


def test_a_name_that_is_not_there_is_noticed() -> None:
    text = '"""Made by `old_name` and `Class.gone`, see `tools/lost.py`."""  # `there_now`, `X`'
    assert unknown_names(text, {"there_now", "Class"}) == [
        "Class.gone",
        "old_name",
        "tools/lost.py",
    ]


def test_every_line_of_the_threat_model_has_a_test_that_exists() -> None:
    page = (DOCS / "threat-model.md").read_text(encoding="utf-8")
    model = page.partition("## What the protocols cannot")[0]
    rows = re.findall(r"^\| (?!They|A hostile)(.+) \|$", model, re.MULTILINE)
    assert len(rows) > 30
    for row in rows:
        found = re.findall(r"`([a-z_/0-9]+\.py)(?:::(test_\w+))?`$", row)
        assert found, row
        path, name = found[0]
        text = (ROOT / "tests" / path).read_text(encoding="utf-8")
        assert f"def {name or 'test_'}" in text, row


def test_the_python_of_the_readme_works_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = (ROOT / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    said = capsys.readouterr().out
    assert "order 1 b'<order/>'" in said
    assert "every message accounted for: True" in said
