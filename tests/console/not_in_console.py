"""Routes of the API that no page of the console calls, each with the reason.

A page that begins to call one takes it out of here; tests/console/test_sources.py holds it.
"""

from __future__ import annotations

from typing import Final

ALREADY: Final = "the page has the same from another route"
STATIONS: Final = "for the station that has the job open or services it: a program"
PROGRAMS: Final = "for programs: a person would lose messages or jobs with it"
OPERATIONS: Final = "the console has the server do it as an operation"
PIPELINES: Final = "for readers and writers of pipelines"
MIGRATE: Final = "for posthouse migrate, which moves the messages themselves"
DEFINITIONS: Final = "for definitions as one file: posthouse definitions"
LEASES: Final = "for an operator whose reader is lost: posthouse lease; a queue has its holders"
BINDERY: Final = "for NetWare administrators: posthouse bindery"

NOT_IN_CONSOLE: Final = {
    "move_messages": OPERATIONS,
    "copy_messages": OPERATIONS,
    "delete_messages": OPERATIONS,
    "resend_messages": OPERATIONS,
    "return_messages": OPERATIONS,
    "lease_messages": PROGRAMS,
    "end_lease": PROGRAMS,
    "renew_lease": PROGRAMS,
    "list_leases": LEASES,
    "release_lease": LEASES,
    "set_access": DEFINITIONS,
    "receive_message": PROGRAMS,
    "receive_messages": PROGRAMS,
    "read_arrow": PIPELINES,
    "plan_reads": PIPELINES,
    "split_range": PIPELINES,
    "list_queue_groups": ALREADY,
    "lease_group": PIPELINES,
    "claim_messages": PIPELINES,
    "put_stage": PIPELINES,
    "publish_batch": PIPELINES,
    "show_query": PIPELINES,
    "forget_query": PIPELINES,
    "list_pulls": MIGRATE,
    "begin_pull": MIGRATE,
    "list_pulled": MIGRATE,
    "take_messages": MIGRATE,
    "end_pull": MIGRATE,
    "forget_pull": MIGRATE,
    "list_objects": BINDERY,
    "create_object": BINDERY,
    "show_object": BINDERY,
    "set_object": BINDERY,
    "delete_object": BINDERY,
    "set_object_password": BINDERY,
    "verify_object_password": BINDERY,
    "show_object_of_id": BINDERY,
    "show_bindery_access": BINDERY,
    "list_properties": BINDERY,
    "create_property": BINDERY,
    "show_property": BINDERY,
    "set_property": BINDERY,
    "delete_property": BINDERY,
    "add_member": BINDERY,
    "remove_member": BINDERY,
    "contains_member": BINDERY,
    "open_station": STATIONS,
    "renew_station": STATIONS,
    "login_station": STATIONS,
    "logout_station": STATIONS,
    "restore_rights": STATIONS,
    "end_station": STATIONS,
    "show_job_queue_status": ALREADY,
    "attach_server": STATIONS,
    "detach_server": STATIONS,
    "set_server_status": STATIONS,
    "list_job_numbers": ALREADY,
    "show_job_size": ALREADY,
    "write_job_file": STATIONS,
    "read_job_file": STATIONS,
    "close_job_file": STATIONS,
    "start_job": STATIONS,
    "service_job": STATIONS,
    "report_job_progress": STATIONS,
    "finish_job": STATIONS,
    "abort_job": STATIONS,
    "take_client_rights": STATIONS,
    "make_client_token": STATIONS,
}
