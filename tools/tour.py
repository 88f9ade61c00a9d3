"""docs/tour.md from the docstrings of packages and modules: `python -m tools.tour`.

What a file is for stands in the file. `--check` compares, and ends with 1 where the page is old.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
SOURCE: Final = ROOT / "src" / "posthouse"
PAGE: Final = ROOT / "docs" / "tour.md"
# From the bottom up: each package uses those above it in this list.
ORDER: Final = (
    "model",
    "wire",
    "formats",
    "security",
    "directory",
    "engine",
    "store",
    "api",
    "net",
    "rpc",
    "protocols",
    "runtime",
    "client",
    "qms",
    "connector",
    "spark",
    "sim",
    "cli",
)
HEAD: Final = """\
# Tour of the source

Every package and every file, with its own first words. Read [architecture.md](architecture.md)
first: it follows a message through them. Packages come from the bottom up: each uses those above
it. This page is printed from the source by `python -m tools.tour`; to change a line, change the
docstring of its file.
"""


def page() -> str:
    """The whole page."""
    contents = [
        f"| [{name}](#{name}) | {_first(SOURCE / name / '__init__.py')} |" for name in ORDER
    ]
    sections = ["\n".join(_section(SOURCE / name)) for name in ORDER]
    return "\n".join([HEAD, "| Package | What it is |", "|---|---|", *contents, "", *sections])


def _section(package: Path, depth: int = 2) -> Iterator[str]:
    name = package.relative_to(SOURCE).as_posix()
    yield f"{'#' * min(depth, 4)} {name}\n"
    yield f"{_first(package / '__init__.py')}\n"
    files = sorted(path for path in package.glob("*.py") if path.name != "__init__.py")
    if files:
        yield "| File | What it is |"
        yield "|---|---|"
        yield from (f"| `{path.name}` | {_first(path)} |" for path in files)
        yield ""
    for inner in sorted(path.parent for path in package.glob("*/__init__.py")):
        yield from _section(inner, depth + 1)


def _first(path: Path) -> str:
    """The first paragraph of a docstring."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")


def main(words: list[str]) -> int:
    """Writes the page, or compares it."""
    if words == ["--check"]:
        if PAGE.read_text(encoding="utf-8") != page():
            print(f"{PAGE.name} is old: run python -m tools.tour")
            return 1
        return 0
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
