"""Digests of tests, of what they lean on, and of the functions of src.

A digest is that of the parsed code: comments, blank lines, docstrings and the mark that names the
rules of a test do not change it.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

DIGITS = 12
Definition = ast.FunctionDef | ast.AsyncFunctionDef


def digest(*parts: str) -> str:
    """A short digest of some texts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:DIGITS]


def of_test(function: Callable[..., Any]) -> str:
    """The digest of a test function; `""` where its source cannot be had."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    node = functions_of(code.co_filename).get(code.co_firstlineno) if code else None
    if node is None:
        return ""
    node.decorator_list = [mark for mark in node.decorator_list if not is_spec(mark)]
    return digest(plain(ast.Module([node], [])))


@cache
def functions_of(file: str) -> dict[int, Definition]:
    """The functions of a file by their first lines, decorators included."""
    path = Path(file)
    tree = ast.parse(path.read_text(encoding="utf-8") if path.exists() else "")
    found = [node for node in ast.walk(tree) if isinstance(node, Definition)]
    return {min(each.lineno for each in (node, *node.decorator_list)): node for node in found}


def is_spec(mark: ast.expr) -> bool:
    """Whether a decorator is the one that names rules."""
    return isinstance(mark, ast.Call) and ast.unparse(mark.func).endswith("mark.spec")


def plain(node: ast.AST) -> str:
    """The parsed code as text, without docstrings."""
    for inner in ast.walk(node):
        body = getattr(inner, "body", None)
        if isinstance(inner, Definition | ast.ClassDef | ast.Module) and is_text(body):
            inner.body = inner.body[1:] or [ast.Pass()]
    return ast.dump(node)


def is_text(body: Any) -> bool:
    """Whether a block begins with a docstring."""
    return bool(body) and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)


# --- functions of src ---------------------------------------------------------------------------


def of_source(root: Path) -> dict[str, str]:
    """The digest of every function below root/src, by its name as the trace has it.

    `path:<module>` has what an import runs: constants, the heads of classes and their fields.
    """
    found: dict[str, str] = {}
    for path in sorted((root / "src").rglob("*.py")):
        name = str(path.relative_to(root))
        tree = ast.parse(path.read_text(encoding="utf-8"))
        texts: dict[str, list[str]] = {}
        for qualified, node in definitions(tree, ""):
            texts.setdefault(f"{name}:{qualified}", []).append(plain(node))
        found |= {qualified: digest(*parts) for qualified, parts in texts.items()}
        found[f"{name}:<module>"] = digest(plain(without_bodies(tree)))
    return found


def definitions(tree: ast.AST, prefix: str) -> Iterator[tuple[str, ast.stmt | ast.Lambda]]:
    """Functions and methods with their names; what is defined inside of them belongs to them."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Definition):
            yield f"{prefix}{node.name}", node
            for default in lambdas(node.args):  # they belong to what is around
                yield f"{prefix}<lambda>", default
        elif isinstance(node, ast.ClassDef):
            yield from definitions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.ExceptHandler):
            yield from definitions(node, prefix)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and lambdas(node):
            yield f"{prefix}<lambda>", node


def lambdas(node: ast.AST) -> list[ast.Lambda]:
    """The functions without a name in it."""
    return [inner for inner in ast.walk(node) if isinstance(inner, ast.Lambda)]


def without_bodies(tree: ast.Module) -> ast.Module:
    """The module with the functions emptied."""
    for node in ast.walk(tree):
        if isinstance(node, Definition):
            node.body = [ast.Pass()]
    return tree


def first_lines(source: str) -> dict[str, int]:
    """The first line of every function of a module, with its decorators, by its name."""
    found: dict[str, int] = {}
    for name, node in definitions(ast.parse(source), ""):
        marks = getattr(node, "decorator_list", [])
        found[name] = min(each.lineno for each in (node, *marks))
    return found


def lines_of_functions(source: str) -> dict[str, set[int]]:
    """The lines of every function of a module, by its name."""
    found: dict[str, set[int]] = {}
    for name, node in definitions(ast.parse(source), ""):
        found.setdefault(name, set()).update(range(node.lineno, (node.end_lineno or 0) + 1))
    return found


# --- what a test leans on -----------------------------------------------------------------------


class Helpers:
    """Digests of the helpers of each test file: those in it, those it imports, its fixtures."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.of_file = cache(self._of_file)
        self._imports = cache(self._imports_of)

    def _of_file(self, path: str) -> str:
        own = self._root / path
        files = self._closure(own)
        for folder in own.relative_to(self._root).parents:
            fixtures = self._root / folder / "conftest.py"
            if fixtures.exists():
                files |= self._closure(fixtures) | {fixtures}
        texts = [
            plain(ast.parse(file.read_text(encoding="utf-8"))) for file in sorted(files - {own})
        ]
        return digest(plain(without_tests(own)), *texts)

    def _closure(self, path: Path) -> set[Path]:
        found: set[Path] = set()
        left = [path]
        while left:
            fresh = set(self._imports(left.pop())) - found
            found |= fresh
            left += fresh
        return found

    def _imports_of(self, path: Path) -> tuple[Path, ...]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {name for node in ast.walk(tree) for name in imported(node)}
        files = (self._root / Path(*name.split(".")).with_suffix(".py") for name in names)
        return tuple(sorted(file for file in files if file.exists()))


def imported(node: ast.AST) -> Iterable[str]:
    """The modules of the tests that a statement imports."""
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [name for name in names if name.split(".")[0] == "tests"]


def without_tests(path: Path) -> ast.Module:
    """A test file without its tests."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    blocks: list[ast.Module | ast.ClassDef] = [tree]
    blocks += [node for node in tree.body if isinstance(node, ast.ClassDef)]
    for node in blocks:
        node.body = [
            inner
            for inner in node.body
            if not (isinstance(inner, Definition) and inner.name.startswith("test"))
        ] or [ast.Pass()]
    return tree
