"""`posthouse job server run` as a process: a command that is not there eats no job."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import posthouse
from posthouse import qms
from tests.process.serving import Serving

COMMAND_S = 60


def job_server(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "posthouse.cli.main", "job", "server", "run", "COUNTER"]
    options = ["--queue", "REPORTS", "--enrol", "--jobs", "2", "--home", str(home), "--json", "--"]
    return subprocess.run(
        [*command, *options, *words],
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )


def test_only_jobs_that_a_command_was_run_for_leave_the_queue(tmp_path: Path) -> None:
    once = tmp_path / "once"
    once.write_text('#!/bin/sh\nrm "$0"\n')
    once.chmod(0o700)
    with Serving(tmp_path, "--name", "ALPHA") as serving:
        serving.ready()
        with posthouse.connect(home=serving.home) as qm, qms.on(qm) as server:
            queue = server.create_queue("REPORTS", users=["SUPERVISOR"])
            for number in range(3):
                queue.submit(b"%d" % number)

            unknown = job_server(serving.home, "nosuchcmd")
            assert unknown.returncode == 2
            assert "the command nosuchcmd was not found" in unknown.stderr
            assert "Write its whole path" in unknown.stderr
            assert len(list(queue)) == 3

            removed = job_server(serving.home, str(once))
            assert removed.returncode == 1
            assert f"the command {once} cannot be run: No such file" in removed.stderr
            done = json.loads(removed.stdout)
            assert (done["finished"], done["failed"]) == (1, 0)
            assert len(list(queue)) == 2

            failing = job_server(serving.home, "false")
            assert failing.returncode == 1
            assert json.loads(failing.stdout) == {"finished": 0, "failed": 2}
            assert list(queue) == []
