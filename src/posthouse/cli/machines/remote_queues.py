"""`posthouse queue list --machine` and `queue show --machine`: queues of one other machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import typer

from posthouse.cli.exit_codes import DONE, NOT_REACHABLE, REFUSED
from posthouse.cli.machines.options import login, places_of
from posthouse.cli.machines.scan import tell_machine
from posthouse.cli.output import print_json, print_pairs
from posthouse.client.remote.inventory import scan_machine
from posthouse.client.remote.management import RemoteManagement
from posthouse.model.guids import format_guid
from posthouse.model.names import FormatName, PathName, far_name_of, parse_name
from posthouse.model.property_ids import QUEUE_MANAGEMENT_PROPERTIES, Vt
from posthouse.rpc.propvariant import Variant
from posthouse.wire.packet.sequence import SEQUENCE_INFO

MACHINE_S: Final = 30.0


def list_far_queues(
    machine: str, user: str | None, password_file: Path | None, *, json: bool
) -> None:
    """Every queue of a machine; what could not be asked is told, too."""
    (place,) = places_of([machine])
    found = scan_machine(place, login(user, password_file, None, None), MACHINE_S)
    if not json:
        tell_machine(found)
    else:
        for queue in (*found.queues, *found.dead_letters, *found.outgoing):
            print_json(queue)
        for problem in found.problems:
            print_json({"problem": problem})
    if not found.complete:
        raise typer.Exit(REFUSED if found.answers else NOT_REACHABLE)
    raise typer.Exit(DONE)


def show_far_queue(
    path: str, machine: str, user: str | None, password_file: Path | None, *, json: bool
) -> None:
    """Every management property of a queue there."""
    (place,) = places_of([machine])
    management = RemoteManagement(
        place, login(user, password_file, None, None), timeout_s=MACHINE_S
    )
    try:
        values = management.queue(_name(path, place.host), *QUEUE_MANAGEMENT_PROPERTIES)
    finally:
        management.close()
    shown = {_word(propid): _plain(propid, value) for propid, value in values.items()}
    if json:
        print_json(shown)
    else:
        print_pairs({name.replace("_", " "): _told(value) for name, value in shown.items()})


def _name(path: str, host: str) -> FormatName:
    """A path without a computer is one of that machine's."""
    parsed = parse_name(path)
    if not isinstance(parsed, PathName):
        return parsed
    named = parsed.with_computer(host) if parsed.computer == "." else parsed
    return far_name_of(named)


def _word(propid: int) -> str:
    return QUEUE_MANAGEMENT_PROPERTIES[propid].name.removeprefix("PROPID_MGMT_QUEUE_").lower()


def _plain(propid: int, variant: Variant) -> Any:
    """The value for JSON: places in sequences taken apart, GUIDs as text."""
    vt, value = variant
    if vt == Vt.BLOB and isinstance(value, bytes) and len(value) == SEQUENCE_INFO.size:
        sequence, number, previous = SEQUENCE_INFO.unpack(value)
        return {"sequence": sequence, "number": number, "previous": previous}
    if vt == Vt.VECTOR | Vt.CLSID and isinstance(value, tuple):
        return [format_guid(one) for one in value]
    if isinstance(value, tuple):
        return [_plain(propid, one) if isinstance(one, Variant) else one for one in value]
    return value


def _told(value: Any) -> str:
    if value is None or value == []:
        return ""
    if isinstance(value, dict):
        return f"{value['sequence'] >> 32}\\{value['sequence'] & 0xFFFFFFFF} {value['number']:,}"
    if isinstance(value, list):
        return ", ".join(filter(None, map(_told, value)))
    return f"{value:,}" if isinstance(value, int) else str(value)
