"""`make site`: every page in one of four kinds, a search, and nothing from the network."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
KINDS = ["Tutorial", "How-to guides", "Reference", "Explanation"]
FOREIGN = re.compile(r"(?:https?:)?//", re.IGNORECASE)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make site` does it."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return folder


class Assets(HTMLParser):
    """What a browser fetches for a page, and the text of its paragraphs."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.paragraphs: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.fetched += [values.get("src") or "", values.get("srcset") or ""]
        if tag == "link":
            self.fetched.append(values.get("href") or "")
        if tag == "p":
            self._inside = True
            self.paragraphs.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "p":
            self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.paragraphs[-1] += data


def read(page: Path) -> Assets:
    assets = Assets()
    assets.feed(page.read_text(encoding="utf-8"))
    return assets


def test_nothing_is_fetched_from_the_network(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        assert [url for url in read(page).fetched if FOREIGN.match(url)] == [], page.name
    for sheet in site.rglob("*.css"):
        urls = re.findall(r"(?:url\(|@import\s)[\"']?([^\"')]+)", sheet.read_text("utf-8"))
        assert [url for url in urls if FOREIGN.match(url)] == [], sheet.name


def test_lists_and_tables_are_rendered_as_such(site: Path) -> None:
    """GitHub needs no blank line before a list or a table; the builder of the site does."""
    for page in site.glob("*.html"):
        for text in read(page).paragraphs:
            assert not re.search(r"\n(?:- |\d\. |\|)", text), (page.name, text)


def test_the_search_finds_every_page_without_a_server(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    pages = {path.relative_to(site).as_posix() for path in site.glob("*.html")}
    assert pages - {"404.html", "index.html"} <= found
    assert any("nack-bad-dest-queue" in entry["text"] for entry in index["docs"])
    # Browsers do not let pages of files read JSON: they load the index as a script.
    script = (site / "search" / "search_index.js").read_text("utf-8")
    assert script.startswith("var __index = {")
    assert (site / "assets" / "iframe-worker.js").is_file()
    assert "assets/iframe-worker.js" in read(site / "index.html").fetched


def test_searches_find_guides_before_what_developers_look_up(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))
    weights = {
        entry["location"].partition("#")[0]: entry.get("boost", 1) for entry in index["docs"]
    }
    guides = [weights[page] for page in ("first-hour.html", "spark.html", "troubleshooting.html")]
    assert min(guides) > weights["commands.html"] > weights["architecture.html"]
    for page in ("conformance.html", "tour.html", "source/CHANGELOG.html"):
        assert weights["architecture.html"] > weights[page]


def test_the_index_and_the_navigation_have_the_same_four_kinds() -> None:
    config: Any = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    _, *kinds = config["nav"]
    shown = {kind: [pair for page in pages for pair in page.items()] for one in kinds
             for kind, pages in one.items()}  # fmt: skip
    assert list(shown) == KINDS
    text = (DOCS / "README.md").read_text("utf-8")
    listed = {
        part.partition("\n")[0]: re.findall(r"^\| \[(.+?)\]\((\S+)\)", part, re.M)
        for part in re.split(r"^## ", text, flags=re.M)[1:]
    }
    assert shown == listed
    pages = {page for pairs in shown.values() for _, page in pairs}
    assert pages == {path.name for path in DOCS.glob("*.md")} - {"README.md"}


def test_files_outside_the_pages_are_part_of_the_site(site: Path) -> None:
    assert (site / "source" / "deploy" / "posthouse.service").read_bytes() == (
        ROOT / "deploy" / "posthouse.service"
    ).read_bytes()
    production = (site / "production.html").read_text("utf-8")
    assert 'href="source/deploy/posthouse.service"' in production
    assert (site / "source" / "CHANGELOG.html").is_file()
