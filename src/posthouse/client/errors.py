"""Errors between a client and its queue manager, beside those that the queue manager raises."""

from __future__ import annotations

from posthouse.model.errors import InsufficientResources, QueueError, error_for
from posthouse.wire.frames.payloads import Refusal


class ClientConnectionError(ConnectionError):
    """Something about the connection, not about a queue: why, and what to do."""

    default_remedy = "Check that the queue manager runs and can be reached."

    def __init__(self, cause: str, remedy: str = "") -> None:
        super().__init__(cause)
        self.cause = cause
        self.remedy = remedy or self.default_remedy

    def __str__(self) -> str:
        return f"{self.cause.rstrip('. ')}. {self.remedy}"


class ServerUnreachable(ClientConnectionError):
    """The queue manager does not answer. What was asked for and not answered may be done."""

    default_remedy = "Start it with `posthouse serve`, or name its home or address."


class CertificateNotTrusted(ClientConnectionError):
    """The certificate of the queue manager is not one that this client trusts."""

    default_remedy = (
        "Pass tls=ssl.create_default_context(cafile=...) with its certificate or that of its "
        "authority, and use a host name that is in the certificate."
    )


class CertificateExpired(CertificateNotTrusted):
    """The certificate of the queue manager is out of date, or the clock here is wrong."""

    default_remedy = (
        "Renew it where the queue manager runs, which reads the new files without a restart. If it "
        "is valid, correct the clock of this machine."
    )


class SessionLost(ClientConnectionError):
    """The connection broke, and this cannot be asked again: it may be done or not."""

    default_remedy = "Check whether it took effect before you try again."


class TransactionAborted(SessionLost):
    """The transaction's session broke before the commit: nothing of it was done."""

    default_remedy = "Begin a new transaction and do its work again."


class TransactionInDoubt(SessionLost):
    """The session broke over the commit: whether it is done is not known.

    Joined databases wait for the decision.
    """

    default_remedy = "Close the databases' connections; qm.recover(connection) settles them."


class TransactionUnconfirmed(ClientConnectionError):
    """The transaction is committed, and a joined database has still to carry that out."""

    default_remedy = "Do not repeat the work: qm.recover(connection), or the next join, ends it."


class MessageReturned(SessionLost):
    """A received message went back to its queue: the session broke, or its consumer was closed."""

    default_remedy = "Receive it again; its `in_doubt` will be set if its end is not known."


class SessionEnded(ClientConnectionError):
    """The queue manager ended the session."""

    default_remedy = "Connect again."


def rebuilt(refusal: Refusal) -> QueueError:
    """The exception that an ERROR frame stands for."""
    return refused(refusal.code, refusal.cause, refusal.remedy)


def refused(code: int, cause: str, remedy: str) -> QueueError:
    """The exception of a result code with the queue manager's own words."""
    error = error_for(code, cause)
    if remedy:
        error.remedy = remedy
    return error


def transaction_lost() -> TransactionAborted:
    """Return the error of a transaction whose connection broke."""
    return TransactionAborted("the connection broke, and the transaction was aborted with it")


def cursor_lost() -> SessionLost:
    """Return the error of a cursor whose connection broke."""
    return SessionLost("the connection broke, and the cursor went with it", "Open a new cursor.")


def request_too_large(size: int, limit: int) -> InsufficientResources:
    """Return the error of a request that would end the session."""
    return InsufficientResources(
        f"the request takes {size} bytes, the queue manager allows {limit}",
        "Send less at a time, or raise `body_size_max` in its section [admin].",
    )
