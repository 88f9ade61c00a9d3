"""Runs one fuzz target guided by coverage: inputs that reach new code are mutated further.

`python -m fuzz.guided NAME [libFuzzer options]` from the project's folder, for example
`python -m fuzz.guided session_packets -max_total_time=600`. It needs the package atheris, which is
not among the development tools because it has no wheel for every Python: `pip install atheris`.
The corpus is kept in fuzz/corpus/NAME; half of the mutations are the target's own.
"""

from __future__ import annotations

import hashlib
import importlib
import random
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


def main(arguments: list[str]) -> None:
    """Never returns: libFuzzer ends the process."""
    name, *options = arguments
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["posthouse"]):
        tools: Any = importlib.import_module("tools.fuzz")
        target = tools.load(FOLDER / f"fuzz_{name}.py")

    def mutate(data: bytes, size_max: int, seed: int) -> bytes:
        if seed % 2:
            return bytes(atheris.Mutate(data, size_max))
        return bytes(target.mutate(data, random.Random(seed))[:size_max])

    def run_one(data: bytes) -> None:
        target.fuzz_one(data)

    corpus = keep_seeds(FOLDER / "corpus" / name, target.seeds)
    atheris.Setup([sys.argv[0], str(corpus), *options], run_one, custom_mutator=mutate)
    atheris.Fuzz()


def keep_seeds(folder: Path, seeds: list[bytes]) -> Path:
    """Lays the seeds of the target where libFuzzer looks for inputs."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        (folder / hashlib.sha1(seed).hexdigest()).write_bytes(seed)
    return folder


if __name__ == "__main__":
    main(sys.argv[1:])
