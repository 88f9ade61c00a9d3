"""Counts what makes a source tree hard to read: `python -m tools.counts [ROOT]`.

ROOT is the folder of a checkout, this one if none is given; an older one is measured as well. The
rules that hold most of these counts are in `tests/test_architecture.py`. `--list NAME` prints what
one line has counted.
"""

from __future__ import annotations

import argparse
import ast
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path

from tools import reach_names
from tools.source_tree import FUNCTIONS, MANY, TWIN_PACKAGES, SourceTree, uses_the_engine

ROOT = Path(__file__).resolve().parents[1]
FOUR_PACKAGES = {"engine", "store", "protocols", "client"}
THE_SAME = re.compile(r"The\s+same\b")
PREFIX_FILES = 3
# A line, or several of them in brackets; a quick look before a file is parsed.
TEST_IMPORTED = re.compile(r"^ *(from|import) ([^\n(]*|[^\n]*\([^)]*)\btest_", re.MULTILINE)
# What a store can do, whatever its class is called.
STORE_METHODS = {"append", "sync", "read", "has_room"}


class Counts:
    """Everything that is counted of one checkout; each list has a line for each thing found."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._tree = SourceTree(root / "src" / "posthouse")

    @property
    def lines(self) -> int:
        """Lines of Python in `src`."""
        return sum(module.lines for module in self._tree.modules)

    @property
    def median_function(self) -> int:
        """Lines of code of the median function, without its signature and its docstring."""
        lengths = [
            node.end_lineno - body[0].lineno + 1
            for node in self._functions()
            if (body := without_docstring(node)) and node.end_lineno
        ]
        return int(statistics.median(lengths))

    @property
    def modules(self) -> list[str]:
        """Every module."""
        return [module.name for module in self._tree.modules]

    @property
    def past_the_door(self) -> list[str]:
        """What is named of the engine, from outside, past the facades of QueueManager."""
        users = [module for module in self._tree.modules if uses_the_engine(module)]
        return [line for module in users for line in self._tree.reaches(module)]

    @property
    def through_the_door(self) -> list[str]:
        """What protocols call on the facades of QueueManager, or on itself."""
        return [
            f"{module.name}:{line}: manager.{'.'.join(rest)}"
            for module in self._tree.modules
            if module.package == "protocols"
            for line, rest in self._tree.uses(module)
            if not self._tree.is_reach(rest)
        ]

    @property
    def circles(self) -> list[str]:
        """Modules in circles of imports, those for types included."""
        return self._tree.circles()

    @property
    def many(self) -> list[str]:
        """Functions whose name ends with _run, _all, _many or _plain."""
        return [
            f"{module.name}: {node.name}"
            for module in self._tree.modules
            for node in module.nodes
            if isinstance(node, FUNCTIONS) and MANY.search(node.name)
        ]

    @property
    def twins(self) -> list[str]:
        """Those of them beside a function for one message: the same class has both."""
        return [str(twin) for twin in self._tree.twins(TWIN_PACKAGES)]

    @property
    def twins_apart(self) -> list[str]:
        """Those of these of which neither calls the other."""
        return self._tree.twins_apart(TWIN_PACKAGES)

    @property
    def packet_places(self) -> list[str]:
        """Modules outside `wire` with offsets of a packet."""
        found = self._tree.with_packet_places()
        return [f"{name}: {', '.join(places)}" for name, places in found.items()]

    @property
    def positional_reads(self) -> list[str]:
        """Rows and summaries that are read by a number."""
        return self._tree.positional_reads()

    @property
    def protocols_by_name(self) -> list[str]:
        """Files that a package of a protocol lacks: protocol.py, server.py, settings.py."""
        lacking = self._tree.files_that_protocols_lack()
        return [f"{package}/{file}" for package, files in lacking.items() for file in files]

    @property
    def prefixes(self) -> list[str]:
        """First words that three or more modules of a folder share, with the modules."""
        found = self._tree.prefixes(PREFIX_FILES)
        return [f"{prefix}: {', '.join(names)}" for prefix, names in found.items()]

    @property
    def files_with_prefixes(self) -> list[str]:
        """The modules of those."""
        return [name for names in self._tree.prefixes(PREFIX_FILES).values() for name in names]

    @property
    def small_100(self) -> list[str]:
        """Modules under 100 lines with one importer."""
        return self._tree.small_with_one_importer(100)

    @property
    def small_60(self) -> list[str]:
        """Modules under 60 lines with one importer."""
        return self._tree.small_with_one_importer(60)

    @property
    def class_names(self) -> list[str]:
        """Class names that are used more than once in engine, store, protocols and client."""
        found = self._tree.class_names(FOUR_PACKAGES)
        return [f"{name}: {', '.join(files)}" for name, files in found.items()]

    @property
    def class_names_everywhere(self) -> list[str]:
        """Class names that are used more than once in all of `src`."""
        found = self._tree.class_names()
        return [f"{name}: {', '.join(files)}" for name, files in found.items()]

    @property
    def for_tests_only(self) -> list[str]:
        """Functions and classes that nothing but tests can call."""
        source = self._root / "src"
        return reach_names.found(source, (self._root / "docs").glob("*.md"))

    @property
    def the_same(self) -> list[str]:
        """Docstrings that begin with "The same"."""
        return self._tree.docstrings_that_begin(THE_SAME)

    @cached_property
    def test_helpers(self) -> list[Path]:
        """Modules below `tests` that are not tests."""
        files = sorted((self._root / "tests").rglob("*.py"))
        return [path for path in files if not path.name.startswith(("test_", "__init__"))]

    @property
    def helper_lines(self) -> int:
        """Lines of those."""
        return sum(path.read_text("utf-8").count("\n") for path in self.test_helpers)

    @property
    def tests_from_tests(self) -> list[str]:
        """Test modules that import another test module."""
        return imports_of_tests(self._root)

    @property
    def memory_stores(self) -> list[str]:
        """Stores in memory, for tests: called so, or with the methods of a store and no base."""
        folders = [self._root / name for name in ("src", "tests", "benchmarks", "fuzz")]
        files = [path for folder in folders for path in sorted(folder.rglob("*.py"))]
        return [
            f"{path.relative_to(self._root)}: {node.name}"
            for path in files
            if re.search(r"^class \w*MemoryStore\b|^    def has_room\b", text(path), re.MULTILINE)
            for node in ast.walk(ast.parse(text(path)))
            if isinstance(node, ast.ClassDef)
            if node.name.endswith("MemoryStore") or (is_a_store(node) and "src" not in path.parts)
        ]

    def _functions(self) -> Iterable[ast.FunctionDef | ast.AsyncFunctionDef]:
        for module in self._tree.modules:
            for node in module.nodes:
                if isinstance(node, FUNCTIONS):
                    yield node


def text(path: Path) -> str:
    """What a file holds."""
    return path.read_text("utf-8")


def without_docstring(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
    """The statements of a function."""
    return node.body[1:] if ast.get_docstring(node) is not None else node.body


def is_a_store(node: ast.ClassDef) -> bool:
    """Whether it has the methods of a store itself; what extends another one adds to that."""
    methods = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
    return not node.bases and methods >= STORE_METHODS


def imports_of_tests(root: Path) -> list[str]:
    """Where a test module, or something of one, is imported below `tests`."""
    return [
        f"{path.relative_to(root)}: {ast.unparse(node)}"
        for path in sorted((root / "tests").rglob("*.py"))
        if TEST_IMPORTED.search(found := text(path))
        for node in ast.walk(ast.parse(found))
        if isinstance(node, ast.Import | ast.ImportFrom) and names_a_test(node)
    ]


def names_a_test(node: ast.Import | ast.ImportFrom) -> bool:
    """Whether it imports a test module, or something of one."""
    module = str(node.module) if isinstance(node, ast.ImportFrom) else ""
    names = [module, *(alias.name for alias in node.names)]
    return any(part.startswith("test_") for name in names for part in name.split("."))


# The name of each line, in the order of the printed list, and how it reads.
ROWS: dict[str, str] = {
    "modules": "modules of src/posthouse",
    "lines": "lines of Python",
    "median_function": "lines of the median function",
    "past_the_door": "names of the engine past its facades, outside the engine",
    "through_the_door": "calls of protocols on the facades",
    "circles": "modules in circles of imports, types included",
    "many": "functions named *_run, *_all, *_many, *_plain",
    "twins": "of these beside one for a single message, in engine, protocols, store, wire",
    "twins_apart": "of these, neither calls the other",
    "packet_places": "modules outside wire with offsets of a packet",
    "positional_reads": "rows and summaries read by a number",
    "protocols_by_name": "protocol.py, server.py, settings.py that a protocol package lacks",
    "prefixes": "name prefixes of three or more modules in a folder",
    "files_with_prefixes": "modules with such a prefix",
    "small_100": "modules under 100 lines with one importer",
    "small_60": "modules under 60 lines with one importer",
    "class_names": "class names used more than once in engine, store, protocols, client",
    "class_names_everywhere": "class names used more than once in all of src",
    "for_tests_only": "definitions that only tests reach",
    "the_same": 'docstrings that begin "The same"',
    "test_helpers": "modules of test helpers",
    "helper_lines": "lines of test helpers",
    "tests_from_tests": "imports of a test module by another",
    "memory_stores": "stores in memory",
}


def main(arguments: Sequence[str], say: Callable[[str], None] = print) -> None:
    """Prints the list, or what one line of it has counted."""
    parser = argparse.ArgumentParser(prog="python -m tools.counts")
    parser.add_argument("root", nargs="?", type=Path, default=ROOT, help="a checkout; this one")
    parser.add_argument("--list", choices=list(ROWS), help="print what this line has counted")
    chosen = parser.parse_args(arguments)
    counts = Counts(chosen.root.resolve())
    if chosen.list:
        found = getattr(counts, chosen.list)
        for one in [found] if isinstance(found, int) else found:
            say(str(one))
        return
    for name, words in ROWS.items():
        found = getattr(counts, name)
        number = found if isinstance(found, int) else len(found)
        say(f"{number:>8,}  {words} ({name})")


if __name__ == "__main__":
    main(sys.argv[1:])
