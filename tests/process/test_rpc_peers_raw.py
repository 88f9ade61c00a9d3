"""samba's own tests of raw DCE/RPC, which its authors hold against Windows, on our runtime."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.process.raw_rpc_server import PASSWORD, USER
from tests.support.process.network_namespaces import Network, inside
from tools.peers import PEERS

SUITE = "samba.tests.dcerpc.raw_protocol.TestDCERPC_BIND.test_"
# The others of that suite need SMB, Kerberos or anonymous logins, or hold a server to choices that
# are not ours: which faults are flagged as not executed (ours: all that are), fragments of one call
# at a time, sizes of fragments, the upper bits of context ids.
NAMES = Path(__file__).with_name("samba_raw_tests.txt")


@pytest.mark.peer("namespaces", "samba")
@pytest.mark.spec("RPC/12", "RPC/13", "RPC/14")
def test_samba_finds_a_runtime_like_that_of_windows(tmp_path: Path) -> None:
    settings = tmp_path / "smb.conf"
    settings.touch()
    place = {"SERVER": "127.0.0.1", "TARGET_HOSTNAME": "127.0.0.1", "DOMAIN": "ALPHA"}
    login = {"USERNAME": USER, "PASSWORD": PASSWORD, "REALM": "ALPHA.TEST"}
    samba = {"SMB_CONF_PATH": str(settings), "IGNORE_RANDOM_PAD": "1"}
    with ExitStack() as running:
        network = Network(running)
        serve = inside(network.one, sys.executable, "-m", "tests.process.raw_rpc_server", "135")
        server = running.enter_context(
            subprocess.Popen(serve, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        )
        assert server.stdout is not None
        assert server.stdout.readline() == b"127.0.0.1:135\n"
        python, names = PEERS["samba"].probe[0], NAMES.read_text().split()
        done = subprocess.run(
            inside(network.one, python, "-B", "-m", "unittest", *(SUITE + name for name in names)),
            env={**os.environ, **place, **login, **samba},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        server.communicate()
    assert not done.returncode, done.stderr
    assert f"Ran {len(names)} tests" in done.stderr
