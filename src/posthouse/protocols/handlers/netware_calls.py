"""Routes that make one call on job queues or the bindery without a result, as a table.

The method of the engine and its arguments are those of the entry in `wire/ncp`, where there is one.
Routes that show something afterwards, write the audit or have no station of their own have handlers
in `bindery.py`, `jobs.py`, `job_queues.py` and `stations.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final

import msgspec

from posthouse.api.types import Done
from posthouse.engine.manager import QueueManager
from posthouse.model.bindery import parse_type
from posthouse.protocols.handlers.caller_stations import working
from posthouse.protocols.handlers.context import Context
from posthouse.protocols.handlers.job_json import queue_id_of
from posthouse.wire.ncp.bindery_calls import DELETE_PROPERTY
from posthouse.wire.ncp.calls import EngineCall, NcpCall
from posthouse.wire.ncp.queue_calls import ATTACH, CLIENT_RIGHTS, DETACH, REMOVE_JOB

Argument = Callable[[QueueManager, Any], Any]
_SPELLED: Final[dict[str, Argument]] = {
    "queue": lambda manager, params: queue_id_of(manager, params.queue),
    "object_type": lambda manager, params: parse_type(params.type),
    "property_name": lambda manager, params: params.property,
}
"""Arguments that a path spells in another way."""


def carries_out(
    engine: NcpCall[Any, Any] | str, summary: str
) -> Callable[[QueueManager, Context, Any, msgspec.Struct], Done]:
    """The handler of a route: arguments are parameters of the route, else fields of its body.

    `tests/protocols/admin/test_api_job_entries.py` holds them against routes and signatures.
    """
    entry = EngineCall.parse(engine, ()) if isinstance(engine, str) else engine.engine
    assert entry is not None
    method_of = attrgetter(f"{entry.part}.{entry.method}")

    def handle(manager: QueueManager, context: Context, params: Any, body: msgspec.Struct) -> Done:
        with working(manager, context, params.station) as station:
            values = [_value(manager, params, body, name) for name in entry.arguments]
            method_of(manager)(station, *values)
        return Done()

    handle.__doc__ = summary
    return handle


def _value(manager: QueueManager, params: Any, body: Any, name: str) -> Any:
    if name in _SPELLED:
        return _SPELLED[name](manager, params)
    return getattr(params if name in params.__struct_fields__ else body, name)


attach_server: Final = carries_out(
    ATTACH, "Attaches the station as a queue server (NWAttachQueueServerToQueue)."
)
detach_server: Final = carries_out(
    DETACH, "Detaches it; jobs that it services are aborted (NWDetachQueueServerFromQueue)."
)
remove_job: Final = carries_out(
    REMOVE_JOB, "Removes a job with its file, also while it is serviced (NWRemoveJobFromQueue)."
)
take_client_rights: Final = carries_out(
    CLIENT_RIGHTS, "Gives the station the rights of the job's client (NWChangeToClientRights)."
)
delete_property: Final = carries_out(DELETE_PROPERTY, "Takes a property away (NWDeleteProperty).")
finish_job: Final = carries_out(
    "jobs.finish_servicing_queue_job(queue, number, charge, result)",
    "The job is done, and gone with its file (NWFinishServicingQueueJob).",
)
report_job_progress: Final = carries_out(
    "jobs.report_progress(queue, number, done, total, text)",
    "Reports the progress of the server; everybody who may see the job sees it.",
)
