"""Programs in namespaces of their own end with the process that made the namespace."""

from __future__ import annotations

import os
import pwd
import selectors
import shutil
import signal
import subprocess
from collections.abc import Callable

import pytest

from posthouse.qms import commands, namespaces

PATIENCE_S = 20.0
PYTHON = shutil.which("python3", path=commands.PATH) or ""
# Leaves its process group, then waits. What it was started with says whether it is still there.
LEAVING = """
import os, signal
os.setsid() if os.getpgrp() != os.getpid() else None
print(flush=True)
signal.pause()
"""
FORGETTING = "import ctypes\nctypes.CDLL(None).prctl(1, 0, 0, 0, 0)\n"

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may choose another user"),
    pytest.mark.skipif(not PYTHON, reason="there is no Python that everybody may run"),
]


def started(program: str) -> subprocess.Popen[bytes]:
    nobody = pwd.getpwnam("nobody")
    words = namespaces.apart([PYTHON, "-I", "-c", program], nobody.pw_uid, nobody.pw_gid)
    if words is None:
        pytest.skip("this system makes no namespaces")
    process = subprocess.Popen(
        words, start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"\n"
    return process


def killed(process: subprocess.Popen[bytes]) -> None:
    """As by the system, when the server was killed."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.parametrize(
    ("program", "end"), [(LEAVING, killed), (FORGETTING + LEAVING, commands._end)]
)
def test_a_program_of_another_user_that_left_its_group_ends(
    program: str, end: Callable[[subprocess.Popen[bytes]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "GRACE_S", 0.01)
    process = started(program)
    assert process.stdout is not None
    output = os.dup(process.stdout.fileno())
    try:
        end(process)
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            assert selector.select(PATIENCE_S)
        assert os.read(output, 1) == b""  # nothing holds its other end
    finally:
        os.close(output)
        process.stdout.close()
