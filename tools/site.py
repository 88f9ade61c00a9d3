"""The documentation as a site: `make site` builds it with mkdocs from mkdocs.yml and these hooks.

Pages link to files outside `docs/`: examples, transcripts, the files of `deploy/`. On the site
these are copies below `source/`, so that every link works without a network.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
WEIGHTS: Final = {
    "Tutorial": 4.0,
    "How-to guides": 4.0,
    "Reference": 2.0,
    "Explanation": 1.0,
    # Long pages for developers, which have every word somewhere.
    "conformance.md": 0.2,
    "deviations.md": 0.2,
    "tour.md": 0.2,
    "testing.md": 0.2,
    "benchmarks.md": 0.2,
    "decisions.md": 0.2,
}
LINK: Final = re.compile(r"(?<=\]\()([^)#\s:]+)(?=[)#])")


def on_files(files: Any, config: Any) -> Any:
    """Add what the pages link to outside `docs/`, and what that links to in turn."""
    from mkdocs.structure.files import File

    pages = [f"docs/{file.src_uri}" for file in files.documentation_pages()]
    for path in sorted(outside(pages)):
        copy = File.generated(config, site_path(path), abs_src_path=str(ROOT / path))
        files.append(copy)
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lead the links of a page to the copies, and give it its weight in searches."""
    here: str = page.file.src_uri
    page.meta["search"] = {"boost": weight(page)}
    origin = here.removeprefix("source/") if here.startswith("source/") else f"docs/{here}"

    def led(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(origin), link[0]))
        if not (ROOT / target).is_file():
            return link[0]  # a mistake: mkdocs reports it
        return posixpath.relpath(site_path(target), posixpath.dirname(here) or ".")

    return LINK.sub(led, markdown)


def weight(page: Any) -> float:
    """How much a page counts in searches: what readers do first, what developers look up last."""
    kind = page.parent.title if page.parent else ""
    return WEIGHTS.get(page.file.src_uri) or WEIGHTS.get(kind, 0.2)


def site_path(path: str) -> str:
    """Where a file of the repository is on the site."""
    return path.removeprefix("docs/") if path.startswith("docs/") else f"source/{path}"


def outside(pages: list[str]) -> set[str]:
    """The files outside `docs/` that can be reached from pages."""
    found, waiting = set[str](), list(pages)
    while waiting:
        page = waiting.pop()
        for target in _targets(page):
            if target not in found and not target.startswith("docs/"):
                found.add(target)
                waiting += [target] if target.endswith(".md") else []
    return found


def _targets(page: str) -> set[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    folder = posixpath.dirname(page)
    named = {posixpath.normpath(posixpath.join(folder, link)) for link in LINK.findall(text)}
    return {path for path in named if not path.startswith("..") and (ROOT / path).is_file()}
