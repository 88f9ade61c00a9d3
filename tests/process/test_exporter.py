"""`posthouse exporter` as a process: it serves, and ends when it is told to."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

from tests.process.offices import wait_until
from tests.process.serving import Serving


def test_it_serves_until_it_is_stopped(tmp_path: Path) -> None:
    with Serving(tmp_path, "--name", "ALPHA") as house:
        port = str(house.ready()["endpoints"]["rpc"]).rpartition(":")[2]
        command = [sys.executable, "-m", "posthouse.cli.main", "exporter", f"127.0.0.1:{port}"]
        with subprocess.Popen(
            [*command, "--listen", "127.0.0.1:0", "--every", "1s"],
            stdout=subprocess.PIPE,
            text=True,
        ) as running:
            stop = threading.Timer(60, running.kill)
            stop.start()
            assert running.stdout is not None
            found = re.search(r"http://\S+", running.stdout.readline())
            assert found is not None

            def page() -> str:
                with urllib.request.urlopen(found[0], timeout=10) as answer:
                    return str(answer.read().decode())

            # Nobody logs in, so that nothing is told; but the scan is over, and says so.
            wait_until(lambda: "msmq_scan_problems{" in page(), "the first scan")
            assert f'msmq_up{{machine="127.0.0.1:{port}"}} 0.0' in page()
            running.send_signal(signal.SIGTERM)
            assert running.wait() == 0
            stop.cancel()
