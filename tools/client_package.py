"""Builds `posthouse-client`, the clients without the server: `python -m tools.client_package`.

The wheel has the modules of `posthouse` but for the command line, Spark and the simulations, and
needs the few packages that a client imports. It is a distribution of its own because an extra
cannot take dependencies away: `pip install posthouse` has to bring the whole server.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
BUILD: Final = ROOT / "build" / "client"
NAME: Final = "posthouse-client"
NEEDED: Final = ("msgspec", "cryptography", "pycryptodomex")
LEFT_OUT: Final = ("cli", "spark", "sim", "__main__.py")
BUILT_BY: Final = "import sys, setuptools.build_meta as b; print(b.build_wheel(sys.argv[1]))"
README: Final = """# posthouse-client

Python clients of Posthouse, a message queue manager for Linux that speaks MSMQ on the wire:
blocking, asyncio and embedded sessions, queues of any MSMQ over remote read, job queues. No server,
no command line, no Spark: three packages to install.

```python
import posthouse

with posthouse.connect(url="http://host:8816", token_file="token") as qm:
    qm.queue("orders").send("hello")
```

`posthouse` has all of this too, under the same names. Install one of the two in an environment,
not both: they have the same files.
"""


def settings(project: dict[str, Any]) -> str:
    """The pyproject.toml of the client, from that of the whole."""
    words = [one for one in project["dependencies"] if _name(one) in NEEDED]
    lines = [
        "[build-system]",
        'requires = ["setuptools>=77"]',
        'build-backend = "setuptools.build_meta"',
        "",
        "[project]",
        f'name = "{NAME}"',
        'description = "Python clients of Posthouse, a queue manager that speaks MSMQ."',
        'readme = "README.md"',
        *(f'{key} = "{project[key]}"' for key in ("version", "requires-python", "license")),
        'license-files = ["LICENSE"]',
        f"authors = [{{ name = {_text(project['authors'][0]['name'])} }}]",
        *(f"{key} = {_list(project[key])}" for key in ("keywords", "classifiers")),
        f"dependencies = {_list(words)}",
        "",
        "[tool.setuptools.packages.find]",
        'where = ["src"]',
        "",
        "[tool.setuptools.package-data]",
        'posthouse = ["py.typed", "directory/schema/*.schema"]',
    ]
    return "\n".join([*lines, ""])


def _name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    return found[0].lower() if found else ""


def _text(word: str) -> str:
    return f'"{word}"'


def _list(words: list[str]) -> str:
    return "[" + ", ".join(map(_text, words)) + "]"


def build(target: Path, folder: Path = BUILD) -> Path:
    """The wheel, in the target folder; made from a copy of the source."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (folder / "pyproject.toml").write_text(settings(project), encoding="utf-8")
    (folder / "README.md").write_text(README, encoding="utf-8")
    shutil.copy(ROOT / "LICENSE", folder)
    source = folder / "src" / "posthouse"
    shutil.copytree(
        ROOT / "src" / "posthouse", source, ignore=shutil.ignore_patterns("__pycache__")
    )
    for name in LEFT_OUT:
        left_out = source / name
        shutil.rmtree(left_out) if left_out.is_dir() else left_out.unlink()
    target.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", BUILT_BY, str(target.resolve())],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return target / done.stdout.splitlines()[-1]


def main(arguments: list[str] | None = None) -> int:
    """Build the wheel into a folder and print its name."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "dist")
    print(build(parser.parse_args(arguments).out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
