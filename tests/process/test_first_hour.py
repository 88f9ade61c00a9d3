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
    assert "1 messages returned." in said
    assert 'paid: order 2 <order no="2"/>' in said
    assert "  no \n" not in said.rpartition("balanced")[2]
