"""Feeds mutated bytes to every fuzz target for a while.

A target is a file fuzz/fuzz_<name>.py with `SEEDS: list[bytes]` and a function `fuzz_one(data:
bytes) -> bool`, which shows whether the input was accepted, and raises only where the program is
wrong. A target may have a `mutate(seed: bytes, chance: random.Random) -> bytes` of its own that
fits its format; if inputs take long, `RUNS: int` is the number that `make test` tries. The first
input of a target that raises is written to fuzz/crashes/ and ends its run; `python -m tools.fuzz
--replay fuzz/crashes/FILE` runs it again. A seed gives the same inputs again.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import random
import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
INPUT_SIZE_MAX = 1 << 16
RUNS = 4000
EDGES = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


class Target(NamedTuple):
    """What a fuzz file offers."""

    name: str
    seeds: list[bytes]
    fuzz_one: Callable[[bytes], bool]
    mutate: Callable[[bytes, random.Random], bytes]
    runs: int = RUNS  # of a short trial


class Outcome(NamedTuple):
    """How a target's run ended; `crash` is the input that raised.

    Where next to nothing is accepted, the mutations do not get past the first check.
    """

    name: str
    runs: int
    accepted: int
    crash: bytes | None
    trace: str


def load(path: Path) -> Target:
    """Import a fuzz file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    change = getattr(module, "mutate", mutate)
    name, runs = path.stem.removeprefix("fuzz_"), getattr(module, "RUNS", RUNS)
    return Target(name, list(module.SEEDS), module.fuzz_one, change, runs)


def flip_bit(data: bytearray, chance: random.Random) -> None:
    """One bit the other way."""
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def put_edge(data: bytearray, chance: random.Random) -> None:
    """A number at the edge of its range over one, two or four bytes."""
    size = chance.choice((1, 2, 4))
    if len(data) >= size:
        at = chance.randrange(len(data) - size + 1)
        value = chance.choice(EDGES) & ((1 << 8 * size) - 1)
        data[at : at + size] = value.to_bytes(size, "little")


def cut(data: bytearray, chance: random.Random) -> None:
    """A piece less."""
    at = chance.randrange(len(data) + 1)
    del data[at : at + chance.choice((1, 4, 16, len(data)))]


def repeat(data: bytearray, chance: random.Random) -> None:
    """A piece twice."""
    at = chance.randrange(len(data) + 1)
    data[at:at] = data[at : at + chance.choice((1, 4, 16, 64))]


def insert(data: bytearray, chance: random.Random) -> None:
    """A few bytes of noise."""
    at = chance.randrange(len(data) + 1)
    data[at:at] = chance.randbytes(chance.choice((1, 2, 4, 8)))


MISTAKES = (flip_bit, put_edge, cut, repeat, insert)


def mutate(seed: bytes, chance: random.Random) -> bytes:
    """The seed with one to eight mistakes."""
    data = bytearray(seed)
    for _ in range(chance.randint(1, 8)):
        chance.choice(MISTAKES)(data, chance)
    return bytes(data[:INPUT_SIZE_MAX])


def attempt(target: Target, data: bytes) -> tuple[bool, str]:
    """Run one input; returns whether it was accepted, and the trace where it raised."""
    try:
        return target.fuzz_one(data), ""
    except Exception:
        return False, traceback.format_exc()


def fuzz(path: Path, seconds: float, seed: int, runs_min: int = 0) -> Outcome:
    """Run one target for the time given and at least so often, or until it raises."""
    target = load(path)
    chance = random.Random(f"{seed}/{target.name}")
    inputs = list(target.seeds) or [b""]
    deadline = time.monotonic() + seconds
    runs_min = max(runs_min, len(inputs))
    runs = accepted = 0
    while runs < runs_min or time.monotonic() < deadline:
        data = inputs[runs] if runs < len(inputs) else target.mutate(chance.choice(inputs), chance)
        runs += 1
        good, trace = attempt(target, data)
        if trace:
            return Outcome(target.name, runs, accepted, data, trace)
        accepted += good
    return Outcome(target.name, runs, accepted, None, "")


def keep_crash(folder: Path, outcome: Outcome) -> Path:
    """Write the input that raised where a person finds it."""
    assert outcome.crash is not None
    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(outcome.crash).hexdigest()[:12]
    path = folder / f"{outcome.name}-{digest}.bin"
    path.write_bytes(outcome.crash)
    return path


def replay(root: Path, file: Path) -> int:
    """Run a kept input again, with its trace."""
    target = load(root / "fuzz" / f"fuzz_{file.stem.rpartition('-')[0]}.py")
    _, trace = attempt(target, file.read_bytes())
    print(trace or f"{file.name}: no longer raises")
    return 1 if trace else 0


def run(root: Path, seconds: float, seed: int, workers: int) -> int:
    """Run every target; returns 1 where one raised."""
    files = sorted((root / "fuzz").glob("fuzz_*.py"))
    print(f"{len(files)} targets, {seconds:g} s each, seed {seed}")
    failed = 0
    with ProcessPoolExecutor(workers) as pool:
        futures = [pool.submit(fuzz, file, seconds, seed) for file in files]
        for outcome in (future.result() for future in futures):
            print(f"{outcome.name}: {outcome.runs} inputs, {outcome.accepted} accepted", flush=True)
            if outcome.crash is not None:
                failed += 1
                path = keep_crash(root / "fuzz" / "crashes", outcome)
                print(f"{outcome.trace}{outcome.name}: raised, input kept in {path}")
    print(f"{len(files) - failed} passed, {failed} failed")
    return 1 if failed or not files else 0


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="tools.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="time for each target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run one kept input again")
    parser.add_argument("--root", type=Path, default=ROOT, help="the project's folder")
    options = parser.parse_args(arguments)
    if options.replay:
        return replay(options.root, options.replay)
    return run(options.root, options.seconds, options.seed, options.workers)


if __name__ == "__main__":
    sys.exit(main())
