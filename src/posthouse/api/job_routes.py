"""The routes of bindery, stations, job queues and jobs."""

from __future__ import annotations

from typing import Final

from posthouse.api import bindery as tb
from posthouse.api import jobs as tj
from posthouse.api import types as t
from posthouse.api.route import ADMINISTER, LOOK, OCTETS, OPERATE, READ, Route, route

_OBJECTS = "/bindery/objects"
_OBJECT = _OBJECTS + "/{type}/{name}"
_PROPERTY = _OBJECT + "/properties/{property}"
_STATION = "/stations/{station}"
_QUEUE = "/job-queues/{queue}"
_JOB = _QUEUE + "/jobs/{number}"
_N, _O, _P = t.Nothing, tb.ObjectParams, tb.PropertyParams
_S, _Q, _J = tj.StationParams, tj.JobQueueParams, tj.JobParams

BINDERY_ROUTES: Final[tuple[Route, ...]] = (
    route("GET", _OBJECTS, LOOK, "list_objects", tb.ObjectListJson, tb.ObjectsParams),
    route(
        "POST",
        _OBJECTS,
        ADMINISTER,
        "create_object",
        tb.ObjectJson,
        tb.BinderyParams,
        tb.ObjectCreateBody,
        status=201,
    ),
    route("GET", _OBJECT, LOOK, "show_object", tb.ObjectJson, _O),
    route("PATCH", _OBJECT, ADMINISTER, "set_object", tb.ObjectJson, _O, tb.ObjectSetBody),
    route("DELETE", _OBJECT, ADMINISTER, "delete_object", t.Done, _O),
    route(
        "POST",
        _OBJECT + "/password",
        ADMINISTER,
        "set_object_password",
        t.Done,
        _O,
        tb.ObjectPasswordBody,
    ),
    route(
        "POST",
        _OBJECT + "/verify",
        OPERATE,
        "verify_object_password",
        t.Done,
        _O,
        tb.ObjectPasswordBody,
    ),
    route(
        "GET",
        "/bindery/ids/{id}",
        LOOK,
        "show_object_of_id",
        tb.ObjectJson,
        tb.ObjectIdParams,
    ),
    route(
        "GET",
        "/bindery/access",
        LOOK,
        "show_bindery_access",
        tb.BinderyAccessJson,
        tb.BinderyParams,
    ),
    route("GET", _OBJECT + "/properties", READ, "list_properties", tb.PropertyListJson, _O),
    route(
        "POST",
        _OBJECT + "/properties",
        ADMINISTER,
        "create_property",
        tb.PropertyJson,
        _O,
        tb.PropertyCreateBody,
        status=201,
    ),
    route("GET", _PROPERTY, READ, "show_property", tb.PropertyJson, _P),
    route(
        "PATCH",
        _PROPERTY,
        ADMINISTER,
        "set_property",
        tb.PropertyJson,
        _P,
        tb.PropertySetBody,
    ),
    route("DELETE", _PROPERTY, ADMINISTER, "delete_property", t.Done, _P),
    route("POST", _PROPERTY + "/add", ADMINISTER, "add_member", t.Done, _P, tb.MemberBody),
    route("POST", _PROPERTY + "/remove", ADMINISTER, "remove_member", t.Done, _P, tb.MemberBody),
    route(
        "POST",
        _PROPERTY + "/contains",
        READ,
        "contains_member",
        tb.MembershipJson,
        _P,
        tb.MemberBody,
    ),
)

STATION_ROUTES: Final[tuple[Route, ...]] = (
    route(
        "POST",
        "/stations",
        OPERATE,
        "open_station",
        tj.StationJson,
        _N,
        tj.StationBody,
        status=201,
    ),
    route("POST", _STATION + "/renew", OPERATE, "renew_station", tj.StationJson, _S),
    route(
        "POST",
        _STATION + "/login",
        OPERATE,
        "login_station",
        tj.StationJson,
        _S,
        tj.LoginBody,
    ),
    route("POST", _STATION + "/logout", OPERATE, "logout_station", tj.StationJson, _S),
    route("POST", _STATION + "/restore-rights", OPERATE, "restore_rights", t.Done, _S),
    route("DELETE", _STATION, OPERATE, "end_station", t.Done, _S),
)

QUEUE_ROUTES: Final[tuple[Route, ...]] = (
    route("GET", "/job-queues", LOOK, "list_job_queues", tj.JobQueueListJson, tj.JobQueuesParams),
    route(
        "POST",
        "/job-queues",
        ADMINISTER,
        "create_job_queue",
        tj.JobQueueJson,
        tb.BinderyParams,
        tj.JobQueueCreateBody,
        status=201,
    ),
    route("GET", _QUEUE, LOOK, "show_job_queue", tj.JobQueueJson, _Q),
    route("PATCH", _QUEUE, OPERATE, "set_job_queue", tj.JobQueueJson, _Q, tj.JobQueueSetBody),
    route("DELETE", _QUEUE, ADMINISTER, "delete_job_queue", t.Done, _Q),
    route("GET", _QUEUE + "/status", LOOK, "show_job_queue_status", tj.JobQueueStatusJson, _Q),
    route("POST", _QUEUE + "/attach", OPERATE, "attach_server", t.Done, _Q),
    route("POST", _QUEUE + "/detach", OPERATE, "detach_server", t.Done, _Q),
    route(
        "GET",
        _QUEUE + "/servers/{server}/{server_station}",
        LOOK,
        "show_server_status",
        tj.ServerStatusJson,
        tj.ServerParams,
    ),
    route(
        "POST",
        _QUEUE + "/server-status",
        OPERATE,
        "set_server_status",
        t.Done,
        _Q,
        tj.ServerStatusBody,
    ),
    route(
        "GET",
        "/job-history",
        LOOK,
        "list_job_history",
        tj.JobHistoryJson,
        tj.HistoryParams,
    ),
)

ROUTES_OF_JOBS: Final[tuple[Route, ...]] = (
    route("GET", _QUEUE + "/jobs", READ, "list_jobs", tj.JobListJson, tj.JobsParams),
    route("GET", _QUEUE + "/numbers", LOOK, "list_job_numbers", tj.JobNumbersJson, tj.JobsParams),
    route(
        "POST",
        _QUEUE + "/jobs",
        OPERATE,
        "submit_job",
        tj.JobJson,
        _Q,
        tj.JobBody,
        status=201,
    ),
    route("GET", _JOB, READ, "show_job", tj.JobJson, _J),
    route("PATCH", _JOB, OPERATE, "change_job", tj.JobJson, _J, tj.JobChangeBody),
    route("DELETE", _JOB, OPERATE, "remove_job", t.Done, _J),
    route("GET", _JOB + "/size", LOOK, "show_job_size", tj.JobSizeJson, _J),
    route(
        "PUT",
        _JOB + "/file",
        OPERATE,
        "write_job_file",
        t.Done,
        tj.FileParams,
        consumes=OCTETS,
    ),
    route(
        "GET",
        _JOB + "/file",
        OPERATE,
        "read_job_file",
        t.Nothing,
        tj.FileParams,
        produces=OCTETS,
    ),
    route("POST", _JOB + "/close", OPERATE, "close_job_file", t.Done, _J),
    route("POST", _JOB + "/start", OPERATE, "start_job", tj.JobJson, _J),
    route("POST", _JOB + "/position", OPERATE, "place_job", tj.JobJson, _J, tj.JobPositionBody),
    route("POST", _JOB + "/move", OPERATE, "move_job", tj.MovedJson, _J, tj.MoveBody),
    route("POST", _QUEUE + "/service", OPERATE, "service_job", tj.JobJson, _Q, tj.ServiceBody),
    route("POST", _JOB + "/progress", OPERATE, "report_job_progress", t.Done, _J, tj.ProgressBody),
    route("POST", _JOB + "/finish", OPERATE, "finish_job", t.Done, _J, tj.FinishBody),
    route("POST", _JOB + "/abort", OPERATE, "abort_job", t.Done, _J, tj.AbortBody),
    route("POST", _JOB + "/client-rights", OPERATE, "take_client_rights", t.Done, _J),
    route(
        "POST",
        _JOB + "/token",
        OPERATE,
        "make_client_token",
        tj.StationTokenJson,
        _J,
        tj.TokenBody,
    ),
)

JOB_ROUTES: Final = (*BINDERY_ROUTES, *STATION_ROUTES, *QUEUE_ROUTES, *ROUTES_OF_JOBS)
