"""What the process asks of the system; in a child, because limits cannot be taken back."""

from __future__ import annotations

import subprocess
import sys

from posthouse.runtime.limits import FileLimit

CHILD = """
import os, resource
from posthouse.runtime.limits import keep_private, raise_file_limit
resource.setrlimit(resource.RLIMIT_NOFILE, (64, {hard}))
print(*raise_file_limit({connections}, 10))
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
keep_private()
print(os.umask(0), *resource.getrlimit(resource.RLIMIT_CORE)[:1])
"""


def run(hard: int, connections: int) -> list[str]:
    program = CHILD.format(hard=hard, connections=connections)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_the_soft_limit_is_raised_to_what_the_settings_need() -> None:
    assert run(1000, 100)[:2] == ["622 622 522", "622"]


def test_the_hard_limit_stays_and_it_is_said_that_it_is_too_low() -> None:
    assert run(300, 100)[:2] == ["300 622 522", "300"]
    assert not FileLimit(300, 622).enough
    assert FileLimit(622, 622).enough


def test_connections_get_what_the_store_leaves_and_at_least_a_quarter() -> None:
    assert FileLimit(2000, 2000, 600).for_connections == 1400
    assert FileLimit(600, 2000, 600).for_connections == 150


def test_what_the_process_makes_is_its_users_alone_and_its_memory_is_not_dumped() -> None:
    assert run(1000, 100)[2] == f"{0o077} 0"


def test_threads_let_the_loop_have_the_interpreter_soon() -> None:
    code = (
        "import sys\n"
        "from posthouse.runtime.limits import switch_soon\n"
        "before = sys.getswitchinterval()\n"
        "switch_soon()\n"
        "print(sys.getswitchinterval() < before)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
