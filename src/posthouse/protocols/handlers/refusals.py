"""Errors as answers: the HTTP status and the one JSON form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from posthouse.api.types import ErrorBody, ErrorJson
from posthouse.model import errors
from posthouse.model.errors import QueueError


class BadRequest(errors.InvalidParameter):
    """The request breaks the form that the API's document states."""

    http_status: Final = 400


class BadRow(QueueError):
    """A row that cannot be a message: what refuses it, which row it is, and the column."""

    http_status: Final = 400

    def __init__(self, error: QueueError, row: int, column: str) -> None:
        super().__init__(f"row {row}, column {column}: {error.cause}", error.remedy)
        self.code, self.name = error.code, error.name
        self.row = row
        self.column = column


class Unauthorized(errors.AccessDenied):
    """No token, or one that is not good."""

    http_status: Final = 401
    default_remedy = (
        "Make one on the server's machine: `posthouse token create > FILE`. Commands take it by "
        "--token-file FILE; programs send the header Authorization: Bearer pht_..."
    )


class WrongToken(Unauthorized):
    """A token was shown, and it is not good."""


class TooManyLogins(errors.AccessDenied):
    """Passwords from this address are not looked at for a while."""

    http_status: Final = 429

    def __init__(self, cause: str, wait_ms: int) -> None:
        self.wait_s = -(-wait_ms // 1000)
        super().__init__(cause, f"Wait {self.wait_s} s, or use a token.")


class TooManyTokens(TooManyLogins):
    """Many wrong tokens came from this address: its connection is closed."""


class TooManyScans(errors.InsufficientResources):
    """A user has as many searches under way as one may have."""

    http_status: Final = 429


class TooManyQueries(errors.InsufficientResources):
    """As many queries are in progress as may be."""

    http_status: Final = 429


class NoSuchPath(QueueError):
    """The API has nothing under that path."""

    http_status: Final = 404
    default_remedy = "GET /api/v1/openapi.json lists every path."


class AuditNotWritten(QueueError):
    """An act was not begun, since the audit log has to have it first and cannot be written."""

    http_status: Final = 507
    default_remedy = (
        "Make room on the disk of the home, or set [audit] required = false and restart."
    )


class NoSuchUser(errors.IllegalUser):
    """There is no account of that name."""

    http_status: Final = 404
    default_remedy = "`posthouse user list` shows the users; `posthouse user create NAME` adds one."


class UserExists(errors.IllegalUser):
    """There is an account of that name."""

    http_status: Final = 409
    default_remedy = "Choose another name."


class NoSuchToken(QueueError):
    """There is no token with that identifier."""

    http_status: Final = 404
    default_remedy = "`posthouse token list` shows the tokens; the identifier is not the secret."


class NoSuchTransaction(errors.TransactionSequence):
    """The transaction is unknown or has ended."""

    http_status: Final = 404
    default_remedy = "`posthouse transaction list` shows them; it may have ended by itself."


class NoSuchDamage(QueueError):
    """There is no undecided damage at that place."""

    http_status: Final = 404


class NoSuchCertificate(QueueError):
    """There is no certificate or key of that name."""

    http_status: Final = 404
    default_remedy = "`posthouse cert list` shows the certificates."


class NoSuchOperation(QueueError):
    """There is no operation of that number, or it is another user's."""

    http_status: Final = 404
    default_remedy = "`posthouse operation list` shows the operations."


class OperationState(QueueError):
    """The operation does not stand so that this could be done."""

    http_status: Final = 409
    default_remedy = "`posthouse operation list` shows how each stands."


class NoSuchPeer(QueueError):
    """There is no peer of that name."""

    http_status: Final = 404
    default_remedy = "`posthouse peer list` shows the peers; `posthouse peer create` adds one."


class NoSuchGroup(QueueError):
    """The queue has no group of that name."""

    http_status: Final = 404
    default_remedy = "`posthouse group list PATH` shows the groups of the queue."


class MethodNotAllowed(QueueError):
    """The path is there, but not for this method."""

    http_status: Final = 405
    default_remedy = "The Allow header names the methods of this path."

    def __init__(self, cause: str, allowed: Iterable[str] = ()) -> None:
        super().__init__(cause)
        self.allowed = tuple(sorted(allowed))


class BodyTooLarge(QueueError):
    """The body of the request is larger than any that could be meant."""

    http_status: Final = 413
    default_remedy = "Send large messages over a client session: posthouse send, or Python."


class NotJson(QueueError):
    """The body is of another content type."""

    http_status: Final = 415
    default_remedy = "Send the header Content-Type: application/json."


class Unavailable(QueueError):
    """This server was started without what the request needs."""

    http_status: Final = 501
    default_remedy = "Use the command line on the server's machine instead."


class OurFault(QueueError):
    """The server failed over the request; its log has the reason."""

    http_status: Final = 500
    default_remedy = "Check the log of the server, and report the problem."


_STATUS: Final[dict[int, int]] = {
    kind.code: status
    for status, kinds in {
        403: (errors.AccessDenied, errors.PrivilegeNotHeld),
        404: (
            errors.QueueNotFound,
            errors.MessageNotFound,
            errors.MessageAlreadyReceived,
            errors.QueueDeleted,
            errors.QueueNotAvailable,
            errors.MachineNotFound,
            errors.StatusNotFound,
        ),
        409: (
            errors.QueueExists,
            errors.SharingViolation,
            errors.TransactionSequence,
            errors.MessageLockedUnderTransaction,
        ),
        503: (errors.ServiceNotAvailable, errors.OperationCancelled),
        507: (errors.InsufficientResources,),
    }.items()
    for kind in kinds
}
STATUSES: Final = (400, 401, 403, 404, 405, 409, 413, 415, 422, 500, 501, 503, 507)
"""Every status that a refusal can have."""
SEMANTIC: Final = 422
"""The form is right, but the queue manager cannot do that."""


def status_of(error: QueueError) -> int:
    """The status of HTTP for a refusal."""
    status: int | None = getattr(error, "http_status", None)
    return status or _STATUS.get(error.code, SEMANTIC)


def error_body(error: QueueError) -> ErrorBody:
    """A refusal as answers carry it."""
    body = ErrorBody.of(error)
    if isinstance(error, BadRow):
        body.row, body.column = error.row, error.column
    return body


def error_json(error: QueueError) -> ErrorJson:
    """The whole answer of a refused request."""
    return ErrorJson(error=error_body(error))
