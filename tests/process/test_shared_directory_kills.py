"""`kill -9` of processes that change a shared directory file."""

from __future__ import annotations

import random
import time
from pathlib import Path

from posthouse.directory.document.document import objects_of
from posthouse.directory.document.text import parse_document
from posthouse.directory.objects import Site
from tests.conftest import Dose
from tests.process.offices import wait_until
from tests.process.warm import Loaded

NAMES = ("ALPHA", "BETA", "GAMMA")


def sites(path: Path) -> set[str]:
    """What the file has; whatever version it is, it is a whole one."""
    found = objects_of(parse_document(path.read_text(), "the file"))
    return {one.name for one in found if isinstance(one, Site)}


def told(path: Path) -> tuple[set[str], set[str]]:
    """What has to be in the file, and what may be."""
    sure: set[str] = set()
    doubtful: set[str] = set()
    for line in path.read_text().splitlines() if path.exists() else ():
        if line[0] == "+":
            sure.add(line[1:])
        elif line[0] == "?":
            sure.discard(line[1:])
            doubtful.add(line[1:])
        else:
            doubtful.discard(line[1:])
    return sure, doubtful


def test_the_file_is_whole_and_has_all_that_was_made(tmp_path: Path, dose: Dose) -> None:
    drawn = random.Random(9)
    path = tmp_path / "shared" / "directory.toml"
    path.parent.mkdir()
    path.touch()
    loaded = Loaded(tmp_path, "tests.process.directory_writer")
    made: list[Path] = []

    def start(name: str) -> int:
        made.append(tmp_path / f"told-{len(made)}")
        title = f"{name}-{len(made)}"
        return loaded.fork("tests.process.directory_writer", str(path), title, str(made[-1]))

    running = {name: start(name) for name in NAMES}
    wait_until(lambda: all(told(one)[0] for one in made), path.read_text)
    for _ in range(dose(10, 300)):
        name = drawn.choice(NAMES)
        time.sleep(drawn.random() * 0.05)
        loaded.kill(running[name])
        sites(path)
        running[name] = start(name)
    for pid in running.values():
        loaded.kill(pid)
    loaded.close()
    found = sites(path)
    for one in made:
        sure, doubtful = told(one)
        assert sure <= found
        number = one.name.partition("-")[2]
        ours = {name for name in found if name.split("-")[1] == str(int(number) + 1)}
        # One more may have been made before it could be told of.
        assert len(ours - sure - doubtful) <= 1
    left = {file.name for file in path.parent.iterdir()}
    assert left <= {path.name, f"{path.name}.lock", f".{path.name}.new"}
