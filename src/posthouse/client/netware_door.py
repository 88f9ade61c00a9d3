"""The interface of a NetWare file server: one method for each call of the document.

One declaration for all ways to a file server: types and documentation are written here once.
Over client sessions and embedded that is `posthouse.qms.sessions.SessionDoor`, over NCP
`posthouse.client.ncp.calls.NcpCalls`. Queues are object ids, jobs their numbers, and job files
handles, which are good on the station that got them. A refusal is a `QmsError`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from posthouse.model.bindery import (
    NWOT_USER,
    NWOT_WILD,
    AccessLevel,
    ObjectInfo,
    PropertyInfo,
    PropertyValue,
)
from posthouse.model.qms import JobList, NWQueueJobStruct, QueueStatus

FIRST: Final = 0xFFFF_FFFF  # where a scan begins
P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


class BinderyDoor(Protocol):
    """The bindery calls (qms-facts 4.2)."""

    def login(self, name: str, type: int = NWOT_USER, password: str = "") -> None:
        """NWLoginToServerPlatform: the station is this object from now on."""

    def logout(self) -> None:
        """The station stays open, without a login."""

    def create_object(self, name: str, type: int, flags: int = 0, security: int = 0x31) -> None:
        """NWCreateObject."""

    def delete_object(self, name: str, type: int) -> None:
        """NWDeleteObject."""

    def rename_object(self, name: str, type: int, new_name: str) -> None:
        """NWRenameObject."""

    def get_object_id(self, name: str, type: int) -> int:
        """NWGetObjectID."""

    def get_object_name(self, id: int) -> tuple[str, int]:
        """NWGetObjectName: name and type."""

    def scan_object(
        self, last_id: int = FIRST, type: int = NWOT_WILD, pattern: str = "*"
    ) -> ObjectInfo:
        """NWScanObject: the next one after an id; 0xFC when there is none."""

    def change_object_security(self, name: str, type: int, security: int) -> None:
        """NWChangeObjectSecurity."""

    def create_property(
        self, name: str, type: int, property: str, flags: int, security: int
    ) -> None:
        """NWCreateProperty."""

    def delete_property(self, name: str, type: int, property: str) -> None:
        """NWDeleteProperty."""

    def change_property_security(self, name: str, type: int, property: str, security: int) -> None:
        """NWChangePropertySecurity."""

    def scan_property(
        self, name: str, type: int, pattern: str = "*", instance: int = FIRST
    ) -> PropertyInfo:
        """NWScanProperty: the next one; 0xFB when there is none."""

    def read_property_value(
        self, name: str, type: int, property: str, segment: int = 1
    ) -> PropertyValue:
        """NWReadPropertyValue: one segment, from 1 on."""

    def write_property_value(
        self,
        name: str,
        type: int,
        property: str,
        segment: int,
        value: bytes,
        more: bool = False,
    ) -> None:
        """NWWritePropertyValue."""

    def add_object_to_set(
        self, name: str, type: int, property: str, member_name: str, member_type: int
    ) -> None:
        """NWAddObjectToSet."""

    def delete_object_from_set(
        self, name: str, type: int, property: str, member_name: str, member_type: int
    ) -> None:
        """NWDeleteObjectFromSet."""

    def is_object_in_set(
        self, name: str, type: int, property: str, member_name: str, member_type: int
    ) -> bool:
        """NWIsObjectInSet."""

    def change_object_password(self, name: str, type: int, old: str, new: str) -> None:
        """NWChangeObjectPassword."""

    def verify_object_password(self, name: str, type: int, password: str) -> None:
        """NWVerifyObjectPassword: refused if it is another one."""

    def get_bindery_access_level(self) -> AccessLevel:
        """NWGetBinderyAccessLevel."""


class QueueDoor(Protocol):
    """The queue calls (qms-facts 3), and reading and writing of job files."""

    def create_queue(self, name: str, type: int, path: str) -> int:
        """NWCreateQueue: the id of the new queue."""

    def destroy_queue(self, id: int) -> None:
        """NWDestroyQueue."""

    def read_queue_current_status(self, id: int) -> QueueStatus:
        """NWReadQueueCurrentStatus."""

    def set_queue_current_status(self, id: int, status: int) -> None:
        """NWSetQueueCurrentStatus."""

    def create_queue_file(self, id: int, job: NWQueueJobStruct) -> NWQueueJobStruct:
        """NWCreateQueueFile: the job as QMS filled it in, with the handle of its file."""

    def write_file(self, handle: int, offset: int, data: bytes) -> None:
        """NWWriteFile."""

    def read_file(self, handle: int, offset: int, count: int) -> bytes:
        """NWReadFile: fewer bytes at the end of the file."""

    def file_size(self, handle: int) -> int:
        """The size of an open job file."""

    def close_file(self, handle: int) -> None:
        """NWCloseFile."""

    def close_file_and_start_queue_job(self, id: int, number: int) -> None:
        """NWCloseFileAndStartQueueJob."""

    def remove_job_from_queue(self, id: int, number: int) -> None:
        """NWRemoveJobFromQueue."""

    def get_queue_job_list(self, id: int, start: int = 1) -> JobList:
        """NWGetQueueJobList: numbers in queue order from a position on, some at a time."""

    def read_queue_job_entry(self, id: int, number: int) -> NWQueueJobStruct:
        """NWReadQueueJobEntry."""

    def change_queue_job_entry(self, id: int, job: NWQueueJobStruct) -> None:
        """NWChangeQueueJobEntry: the job is named by its number."""

    def change_queue_job_position(self, id: int, number: int, position: int) -> None:
        """NWChangeQueueJobPosition."""

    def attach_queue_server_to_queue(self, id: int) -> None:
        """NWAttachQueueServerToQueue."""

    def detach_queue_server_from_queue(self, id: int) -> None:
        """NWDetachQueueServerFromQueue."""

    def service_queue_job(self, id: int, job_types: Sequence[int] = ()) -> NWQueueJobStruct:
        """NWServiceQueueJob; without types: any. 0xD5 when there is nothing to do."""

    def finish_servicing_queue_job(self, id: int, number: int, charge: int = 0) -> None:
        """NWFinishServicingQueueJob."""

    def abort_servicing_queue_job(self, id: int, number: int) -> None:
        """NWAbortServicingQueueJob."""

    def change_to_client_rights(self, id: int, number: int) -> None:
        """NWChangeToClientRights."""

    def restore_queue_server_rights(self) -> None:
        """NWRestoreQueueServerRights."""

    def read_queue_server_current_status(self, id: int, server_id: int, station: int) -> bytes:
        """NWReadQueueServerCurrentStatus: 64 bytes."""

    def set_queue_server_current_status(self, id: int, record: bytes) -> None:
        """NWSetQueueServerCurrentStatus."""

    def get_queue_job_size(self, id: int, number: int) -> int:
        """NWGetQueueJobSize."""

    def move_queue_job(self, id: int, number: int, destination_id: int) -> int:
        """Moves a job to another queue; returns its number there."""


class Door(BinderyDoor, QueueDoor, Protocol):
    """All of it."""

    def close(self) -> None:
        """The station ends: open jobs and jobs in service are treated by their flags."""


def as_declared(
    declared: Callable[Concatenate[Any, P], R],
    names: Sequence[str],
    ask: Callable[[S, dict[str, Any]], Any],
) -> Callable[Concatenate[S, P], R]:
    """A method of a door from its declaration: `ask` gets its arguments under these names.

    Signature, types and documentation are those of the declaration, so that each call is declared
    once and every way to a file server adds one line for it.
    """
    signature = inspect.signature(declared)

    def method(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        values = list(bound.arguments.values())[1:]
        answer: R = ask(self, dict(zip(names, values, strict=True)))
        return answer

    functools.update_wrapper(method, declared)
    return method
