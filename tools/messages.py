"""Every text of the program that a user can see, as one list: `python -m tools.messages`.

For each text: its kind, its file and line, and the text with `{...}` for what is filled in. Kinds
are `errors` (what a raise or a refusal has), `help` (command line), `log` (events), `metrics`
(their help), `api` (descriptions in the OpenAPI document) and `other` texts. `--kind` prints one.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parent.parent
SOURCE: Final = ROOT / "src" / "posthouse"
KINDS: Final = ("errors", "help", "log", "metrics", "api", "other")
WORDS: Final = re.compile(r"[A-Za-z}'`]+[,.:;]? [a-z{`'-]+")
LOGS: Final = {"debug", "info", "warning", "error", "critical", "exception", "log", "event"}


class Message(NamedTuple):
    """A text of the program, and where it is."""

    kind: str
    file: str
    line: int
    text: str


def messages() -> Iterator[Message]:
    """All texts of the source, file by file."""
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        yield from of_source(path.read_text(encoding="utf-8"), name)


def of_source(source: str, name: str) -> Iterator[Message]:
    """The texts of one module: strings of several words that are not comments for developers."""
    tree = ast.parse(source)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        text = text_of(node)
        if text is None or isinstance(parents.get(node), ast.JoinedStr | ast.FormattedValue):
            continue
        if is_docstring(node, parents) and not is_command(node, parents, name):
            continue
        if is_part(node, parents) or not WORDS.search(text):
            continue
        yield Message(kind_of(node, parents, name), name, getattr(node, "lineno", 0), text)


def text_of(node: ast.AST) -> str | None:
    """A string as it is shown: what is filled in stands in braces; None for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            f"{{{ast.unparse(part.value)}}}"
            if isinstance(part, ast.FormattedValue)
            else str(getattr(part, "value", ""))
            for part in node.values
        )
    return None


Parents = dict[ast.AST, ast.AST]


def is_docstring(node: ast.AST, parents: Parents) -> bool:
    """Whether a string stands alone."""
    return isinstance(parents.get(node), ast.Expr)


def is_part(node: ast.AST, parents: Parents) -> bool:
    """Whether a string is inside the placeholder of another one."""
    above = parents.get(node)
    while above is not None and not isinstance(above, ast.stmt):
        if isinstance(above, ast.FormattedValue):
            return True
        above = parents.get(above)
    return False


def is_command(node: ast.AST, parents: Parents, name: str) -> bool:
    """Whether a docstring is the help of a command."""
    function = parents.get(parents[node])
    decorators = getattr(function, "decorator_list", [])
    return name.startswith("cli/") and any(
        word in ast.unparse(one) for one in decorators for word in ("command", "callback")
    )


def kind_of(node: ast.AST, parents: Parents, name: str) -> str:
    """What a text is for, by what it is given to."""
    if is_docstring(node, parents):
        return "help"
    above: ast.AST | None = parents.get(node)
    while above is not None and not isinstance(above, ast.FunctionDef | ast.ClassDef):
        if isinstance(above, ast.Raise):
            return "errors"
        if isinstance(above, ast.keyword) and above.arg in ("help", "epilog", "metavar"):
            return "help"
        if isinstance(above, ast.Call):
            called = ast.unparse(above.func).rpartition(".")[2]
            if called in LOGS:
                return "log"
            if called in ("Option", "Argument", "Typer"):
                return "help"
            if called == "Route" or called == "Meta":
                return "api"
            if called.endswith(("Error", "Refused", "Fault", "refusal")):
                return "errors"
        above = parents.get(above)
    if name.startswith("protocols/metrics/"):
        return "metrics"
    return "other"


def main(arguments: list[str] | None = None) -> int:
    """Print the texts, one line each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kind", choices=KINDS)
    options = parser.parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    for one in messages():
        if options.kind in (None, one.kind):
            print(f"{one.kind}\t{one.file}:{one.line}\t{' '.join(one.text.split())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
