"""Installs what tests of other Sparks need, each in a folder of its own in `.venv`.

`connect` is what a client of Spark Connect needs (the extra `posthouse[connect]`), `pyspark-4.2` an
older PySpark. A program that has such a folder first on its PYTHONPATH uses these packages; all
others are those of `.venv`. So no test of PySpark 4.3 can need pandas without anybody noticing.

`python -m tools.spark_packages connect pyspark-4.2` installs what is missing there.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

VENV = Path(__file__).resolve().parents[1] / ".venv"
PACKAGES = {
    "connect": [
        "grpcio==1.85.1",
        "grpcio-status==1.85.1",
        "googleapis-common-protos==1.76.0",
        "protobuf==7.36.2",
        "zstandard==0.25.0",
        "pandas==2.3.3",
        "pytz==2026.6",
    ],
    "pyspark-4.2": ["pyspark==4.2.1", "py4j==0.10.9.9"],
}
READY = ".ready"


def folder_of(name: str) -> Path:
    """Where such packages lie."""
    return VENV / name


def is_installed(name: str) -> bool:
    """Whether all of them are there, in the versions that are wanted."""
    mark = folder_of(name) / READY
    return mark.is_file() and mark.read_text("utf-8").split() == PACKAGES[name]


def install(name: str) -> None:
    """Installs them, unless they are there."""
    if is_installed(name):
        return
    folder = folder_of(name)
    print(f"setting up {folder.relative_to(VENV.parent)} (once)", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    subprocess.run([*command, "--no-deps", "--target", str(folder), *PACKAGES[name]], check=True)
    (folder / READY).write_text("\n".join(PACKAGES[name]) + "\n", encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """The exit code."""
    unknown = [name for name in arguments if name not in PACKAGES]
    if unknown or not arguments:
        print(f"usage: python -m tools.spark_packages {' | '.join(PACKAGES)} ...", file=sys.stderr)
        return 2
    for name in arguments:
        install(name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
