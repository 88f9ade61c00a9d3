"""`posthouse-client`, installed with what it names and nothing else, works with a server."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from email import message_from_string
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.client.serving import serving
from tools.client_package import NAME, NEEDED, build

PROGRAM = r"""
import asyncio, sys
import posthouse, posthouse.aio, posthouse.qms

with posthouse.connect() as qm:
    queue = qm.create_queue(r".\private$\orders", transactional=True)
    with qm.transaction() as tx:
        queue.send({"customer": 7}, label="order 1", tx=tx)
    print(queue.receive(timeout=5).decoded().value)

async def count():
    async with posthouse.aio.connect() as qm:
        return await qm.queue(r".\private$\orders").count()

print(asyncio.run(count()))
with posthouse.open(sys.argv[1]) as own:
    own.create_queue(r".\private$\mine").send(b"kept")
    print(own.queue(r".\private$\mine").receive(timeout=5).body)
print(posthouse.msmq("127.0.0.1").queue(r"private$\orders").name)
print(posthouse.__file__)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("client")
    return build(folder / "dist", folder / "source")


@pytest.fixture
def home() -> Iterator[Path]:
    """A home whose control socket has a short path."""
    path = Path(tempfile.mkdtemp(prefix="ph-"))
    yield path
    shutil.rmtree(path)


def metadata(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as file:
        (name,) = (name for name in file.namelist() if name.endswith(".dist-info/METADATA"))
        return file.read(name).decode()


def needed(names: list[str]) -> set[str]:
    """These distributions and all that they need here."""
    found: set[str] = set()
    while names:
        name = names.pop()
        if name not in found:
            found.add(name)
            wanted = map(Requirement, distribution(name).requires or [])
            names += [one.name for one in wanted if not one.marker or one.marker.evaluate()]
    return found


def installed(wheel: Path, folder: Path) -> Path:
    """An environment with the wheel and what it needs; returns its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    wanted = [
        Requirement(one)
        for one in message_from_string(metadata(wheel)).get_all("Requires-Dist", [])
    ]
    for name in needed([one.name for one in wanted]):
        files = distribution(name).files or []
        for top in {file.parts[0] for file in files if file.parts[0] != ".."}:
            link = packages / top
            link.symlink_to(distribution(name).locate_file(top))
    with zipfile.ZipFile(wheel) as file:
        file.extractall(packages)
    return folder / "bin" / "python"


def test_a_client_alone_sends_and_receives(wheel: Path, home: Path, tmp_path: Path) -> None:
    python = installed(wheel, tmp_path / "environment")
    with serving(home):
        done = subprocess.run(
            [str(python), "-I", "-c", PROGRAM, str(tmp_path / "own")],
            env={"POSTHOUSE_HOME": str(home), "PATH": os.defpath},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 0, done.stderr
    *answers, where = done.stdout.splitlines()
    assert answers == [
        "{'customer': 7}",
        "0",
        "b'kept'",
        r"DIRECT=TCP:127.0.0.1\private$\orders",
    ]
    assert where.startswith(str(tmp_path / "environment"))


def test_the_client_needs_three_packages_and_has_no_command(wheel: Path) -> None:
    about = message_from_string(metadata(wheel))
    wanted = {Requirement(one).name for one in about.get_all("Requires-Dist", [])}
    assert (about["Name"], wanted) == (NAME, set(NEEDED))
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
    assert "posthouse/client/manager.py" in names
    assert "posthouse/py.typed" in names
    assert [one for one in names if one.startswith(("posthouse/cli/", "posthouse/spark/"))] == []
    assert [one for one in names if one.endswith("entry_points.txt")] == []


def test_both_packages_have_a_long_description_in_markdown(wheel: Path) -> None:
    for text in (metadata(wheel), distribution("posthouse").read_text("METADATA") or ""):
        about = message_from_string(text)
        assert about["Description-Content-Type"] == "text/markdown"
        assert about.get_payload().lstrip().startswith("# ")
        assert about["License-Expression"] == "Apache-2.0"
