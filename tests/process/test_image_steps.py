"""The steps of deploy/Dockerfile, run in a root of Debian packages: base images need a registry."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from posthouse import __version__
from tests.process.image_file import ROOT, dockerfile, instructions

SUITES = {"debian:12-slim": "bookworm"}
# What leads to the package mirrors here: `docker build` brings its own.
OURS = ("etc/apt/sources.list", "etc/apt/sources.list.d", "etc/apt/apt.conf.d", "etc/pip.conf")
AUTHORITIES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root"),
    pytest.mark.skipif(shutil.which("mmdebstrap") is None, reason="needs mmdebstrap"),
]


def checked(*words: str | Path) -> str:
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}: {done.stdout[-2000:]} {done.stderr[-2000:]}"
    return done.stdout


def base(root: Path) -> None:
    """The image that it is made from: Debian's required packages, and apt."""
    ((image,),) = instructions("FROM")
    sources = [Path("/", name) for name in OURS[:2]]
    files = [one for path in sources for one in (path.glob("*") if path.is_dir() else [path])]
    checked("mmdebstrap", "--variant=minbase", SUITES[image], root, *filter(Path.exists, files))
    for name in OURS:
        source, target = Path("/", name), root / name
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        elif source.exists():
            shutil.copy(source, target)
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")


def trust(root: Path) -> None:
    """The authorities of the mirrors here, again after a package has written the system's own."""
    for authority in {os.environ[name] for name in AUTHORITIES if name in os.environ}:
        target = root / authority.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(authority, target)


def copied(root: Path, names: list[str], target: str) -> None:
    """COPY: files into a folder that ends with a slash, or one under another name."""
    place = root / target.lstrip("/")
    for name in names:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, place, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            to = place / source.name if target.endswith("/") else place
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, to)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("image") / "root"
    base(root)
    for step, *words in dockerfile():
        if step == "RUN":
            trust(root)
            checked("chroot", root, "sh", "-ec", " ".join(words))
        elif step == "COPY":
            copied(root, words[:-1], words[-1])
    yield root
    shutil.rmtree(root)


def inside(root: Path, command: str) -> str:
    """A command as the user and with the environment of the image."""
    ((user,),), (environment,) = instructions("USER"), instructions("ENV")
    words = ("env", "-i", *environment, "sh", "-ec", command)
    return checked("chroot", f"--userspec={user}", root, *words)


def test_the_program_of_the_image_is_this_version(image: Path) -> None:
    assert inside(image, "posthouse --version").startswith(f"posthouse {__version__} (")


def test_a_queue_manager_of_the_image_starts_and_keeps_a_message(image: Path) -> None:
    (entry,), (default,) = instructions("ENTRYPOINT"), instructions("CMD")
    serve = " ".join([*entry, *default]).translate(str.maketrans("", "", '[],"'))
    out = inside(
        image,
        f"""
        {serve} --ports ephemeral --ready-file /var/lib/posthouse/ready.json >/dev/null 2>&1 &
        while [ ! -e /var/lib/posthouse/ready.json ] && kill -0 $!; do sleep 0.1; done
        posthouse status > /dev/null
        posthouse queue create orders > /dev/null
        posthouse send orders --body hello --recoverable > /dev/null
        posthouse receive orders --format '{{body_text}}'
        kill $!
        wait $!
        """,
    )
    assert out.strip() == "hello"
    assert not (image / "src").exists()
