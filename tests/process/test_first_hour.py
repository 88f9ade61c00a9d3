"""docs/first-hour.md: the whole page, run in a shell as it is printed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.cli.page_lines import blocks_of

PAGE = "first-hour.md"
TIMEOUT_S = 120


def test_the_page_works_as_printed(tmp_path: Path) -> None:
    """Without the SQL, which tests/spark/test_first_hour.py runs."""
    (program,) = blocks_of(PAGE, "python")
    (tmp_path / "orders.py").write_text(program)
    blocks = [block for block in blocks_of(PAGE, "sh") if " pipeline " not in block]
    assert len(blocks) >= 8
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e"],
        input="\n".join(blocks),
        env={"PATH": path, "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout
    assert '<order no="2"/>' in said.partition("BETA listens at")[0].rpartition("body ")[2]
    assert "invoice 1" in said
    assert "nowhere.invalid cannot be resolved" in said
    assert "1 dead letter" in said
    assert "ran out of time on the way" in said
    assert "Returned 1 message." in said
    assert 'paid: order 2 <order no="2"/>' in said
    assert "  no \n" not in said.rpartition("balanced")[2]


def test_a_queue_manager_that_cannot_start_ends_the_wait(tmp_path: Path) -> None:
    """Each place that waits for a ready file; the home is a file here."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    waits = [block for block in blocks_of(PAGE, "sh") if "--ready-file" in block]
    waits += [block for block in blocks_of("../README.md", "sh") if "--ready-file" in block]
    lines = [line for block in waits for line in block.splitlines()]
    loops = [line for line in lines if "sleep 0.1" in line]
    assert len(loops) == 4
    for loop in loops:
        serve = lines[lines.index(loop) - 1]
        assert serve.startswith("posthouse serve")
        assert serve.endswith("&")
        (tmp_path / "alpha").write_text("")
        (tmp_path / "beta").write_text("")
        done = subprocess.run(
            ["bash", "-ec", f"export POSTHOUSE_HOME=$PWD/alpha\n{serve}\n{loop}\nwait $!"],
            env={"PATH": path, "HOME": str(tmp_path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        assert done.returncode != 0
        assert "alpha" in done.stderr or "beta" in done.stderr
