"""Programs with a Spark of their own: clusters, servers, and what runs on them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from posthouse.spark.java import java_home
from tests.process.offices import wait_until
from tools.spark_packages import folder_of, is_installed

ROOT = Path(__file__).resolve().parents[2]
START_S = 300.0


def environment(*packages: str, **more: str) -> dict[str, str]:
    """For programs that have these packages before those of `.venv`."""
    for name in packages:
        assert is_installed(name), f"run: python -m tools.spark_packages {name}"
    kept = {name: text for name, text in os.environ.items() if not name.startswith("SPARK_")}
    paths = [*(str(folder_of(name)) for name in packages), str(ROOT)]
    return kept | {
        "PYTHONPATH": os.pathsep.join(paths),
        "PYSPARK_PYTHON": sys.executable,
        "JAVA_HOME": str(java_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        **more,
    }


def ran(
    command: Sequence[str],
    env: Mapping[str, str],
    code: int = 0,
    *,
    program: str = sys.executable,
    folder: Path = ROOT,
) -> tuple[str, str]:
    """What a program printed that ended with this code."""
    done = subprocess.run(
        [program, *command], env=dict(env), capture_output=True, text=True, cwd=folder
    )
    assert done.returncode == code, f"{done.returncode}\n{done.stdout}\n{done.stderr[-4000:]}"
    return done.stdout, done.stderr


def facts(command: Sequence[str], env: Mapping[str, str]) -> dict[str, Any]:
    """What a program reports in its last line."""
    found: dict[str, Any] = msgspec.json.decode(ran(command, env)[0].splitlines()[-1])
    return found


@contextmanager
def running(command: Sequence[str], env: Mapping[str, str], log: Path) -> Iterator[None]:
    """A program, as long as it is needed."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            list(command), env=dict(env), stdout=file, stderr=file, start_new_session=True
        )
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def spark_class(*words: str) -> list[str]:
    """A program of Spark's."""
    import pyspark

    return [str(Path(pyspark.__file__).parent / "bin" / "spark-class"), *words]


def wait_for(log: Path, text: str) -> None:
    """Until a program has printed something."""

    def said() -> str:
        return log.read_text("utf-8", errors="replace")

    wait_until(lambda: text in said(), lambda: said()[-4000:], START_S)
