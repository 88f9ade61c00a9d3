"""Remote read through samba."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.process.rpc_house import PASSWORD, USER
from tools.peers import PEERS

SCRIPT = Path(__file__).parents[2] / "process" / "samba_client.py"


PYTHON = PEERS["samba"].probe[0]


def samba(
    port: int, options: str, calls: list[Any], user: str = USER, password: str = PASSWORD
) -> Any:
    """What samba says of a conversation; without options it is nobody's."""
    anonymous = options in ("", "ndr64")
    binding = f"ncacn_ip_tcp:127.0.0.1[{','.join(filter(None, (str(port), options)))}]"
    asked = {"binding": binding, "user": "" if anonymous else user, "password": password}
    done = subprocess.run(
        [PYTHON, str(SCRIPT)],
        input=json.dumps({**asked, "calls": calls}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert not done.returncode, done.stderr  # it crashes where it is asked in the wrong way
    return json.loads(done.stdout)
