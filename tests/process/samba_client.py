"""samba's DCE/RPC client, for tests; run by the system's Python, which has samba's library.

Reads a JSON object: `binding` (`host[port]` with options such as seal, ntlm, ndr64), `user` and
`password` (empty: nobody), `calls` (opnum and hexadecimal stub) for RemoteRead, where `<n>` stands
for the context handle that the answer to call n begins with. It opens the endpoint mapper, looks
everything up there, then binds RemoteRead on the same connection, which is an alter_context, and
makes the calls. Writes a JSON object: what came of each.

Imports nothing of ours, and nothing that is not in the standard library or samba's.
"""

import json
import re
import sys
from typing import Any

from samba import NTSTATUSError, param
from samba.credentials import DONT_USE_KERBEROS, Credentials
from samba.dcerpc import base, epmapper, misc

REMOTE_READ = ("1a9134dd-7b39-45ba-ad88-44d01ca47f28", 1)


def credentials(settings: Any, user: str, password: str) -> Any:
    """Those of a user, or anonymous ones."""
    found = Credentials()
    found.guess(settings)
    if user:
        found.set_kerberos_state(DONT_USE_KERBEROS)
        found.set_username(user)
        found.set_password(password)
        found.set_domain("")
        found.set_workstation("SAMBA")
    else:
        found.set_anonymous()
    return found


def tcp_ports(tower: Any) -> list:
    return [floor.rhs.port for floor in tower.floors if floor.lhs.protocol == 7]


def look_up(mapper: Any) -> list:
    """Everything in the map: UUID and version, as they are sent, and ports of each."""
    nobody = misc.policy_handle()
    _, entries, status = mapper.epm_Lookup(0, None, None, 1, nobody, 100)
    assert status == 0, hex(status)
    return [
        (entry.tower.tower.floors[0].lhs.lhs_data.hex(), tcp_ports(entry.tower.tower))
        for entry in entries
    ]


def run(asked: dict) -> dict:
    """What came of it; `refused` is the status that a login or the first call ended with."""
    try:
        return converse(asked)
    except NTSTATUSError as error:
        return {"refused": error.args[0] & 0xFFFFFFFF}


def converse(asked: dict) -> dict:
    settings = param.LoadParm()
    settings.load_default()
    who = credentials(settings, asked["user"], asked["password"])
    mapper = epmapper.epmapper(asked["binding"], settings, who)
    # What samba has of that interface is NDR even where NDR64 was agreed upon.
    listed = [] if "ndr64" in asked["binding"] else look_up(mapper)
    reader = base.ClientConnection(
        asked["binding"], REMOTE_READ, settings, who, basis_connection=mapper
    )
    transfer = str(reader.transfer_syntax[0])
    return {"listed": listed, "transfer": transfer, "answers": make_calls(reader, asked["calls"])}


def make_calls(reader: Any, calls: list) -> list:
    """The stub of each answer, or the status of a fault as samba names it."""
    answers: list = []
    for opnum, text in calls:
        stub = re.sub(r"<(\d+)>", lambda found: answers[int(found[1])][:40], text)
        try:
            answers.append(reader.request(opnum, bytes.fromhex(stub)).hex())
        except Exception as error:
            answers.append({"status": error.args[0] & 0xFFFFFFFF, "text": str(error.args[1])})
    return answers


if __name__ == "__main__":
    json.dump(run(json.load(sys.stdin)), sys.stdout)
