"""`posthouse doctor --peer`: whether messages will pass to and from another machine."""

from __future__ import annotations

from pathlib import Path

import msgspec
import typer

from posthouse.cli.exit_codes import DONE, REFUSED
from posthouse.cli.machines.options import DEFAULT_EPM_PORT, login, places_of
from posthouse.cli.output import print_json, say
from posthouse.client.msmq import BINARY_PORT
from posthouse.client.remote.peer_check import PeerCheck, PeerFinding


def examine(
    peer: str,
    user: str | None,
    password_file: Path | None,
    binary_port: int | None,
    timeout_s: float,
    *,
    json: bool,
) -> None:
    """Tries everything, reports each finding as it comes, and ends with 1 if something failed."""
    (place,) = places_of([peer], None, DEFAULT_EPM_PORT)
    as_whom = login(user, password_file, None, None)
    check = PeerCheck(place, as_whom, binary_port=binary_port or BINARY_PORT, timeout_s=timeout_s)
    healthy = True
    for finding in check.run():
        healthy = healthy and finding.state != "failed"
        if json:
            print_json({"peer": place.host, **msgspec.structs.asdict(finding)})
        else:
            _tell(finding)
    raise typer.Exit(DONE if healthy else REFUSED)


def _tell(finding: PeerFinding) -> None:
    say(f"{finding.state.upper():<8} {finding.check}: {finding.found}.")
    if finding.remedy and finding.state != "ok":
        say(f"         {finding.remedy}")
