"""The exception tree: one class per result code that the queue manager raises ([MS-MQMQ] 2.4).

Three kinds of wrong: the caller's fault is a `QueueError`, the peer's fault a
`RemoteProtocolError`, our own an assertion.
"""

from typing import ClassVar, Self, TypeVar

from posthouse.model.completion_codes import SEEN_BY_CLIENTS
from posthouse.model.error_table import ERROR_CODES as ERROR_CODES
from posthouse.model.error_table import STATUS_CODES as STATUS_CODES
from posthouse.model.error_table import ErrorCode as ErrorCode
from posthouse.model.error_table import explain as explain

E = TypeVar("E", bound=Exception)


def hex_code(code: int) -> str:
    """Return a result code as MSMQ's own tools print it."""
    return f"0x{code:08X}"


_CLASS_OF_CODE: "dict[int, type[QueueError]]" = {}


class QueueError(Exception):
    """A request that the queue manager refuses; `code` is the MQ_ERROR value the caller gets."""

    code: int = 0xC00E0001
    name: str = "MQ_ERROR"
    default_remedy: ClassVar[str] = ""
    """Better advice than the one of the code, for classes with more detail."""

    def __init__(self, cause: str, remedy: str = "") -> None:
        super().__init__(cause, remedy)
        self.cause = cause
        self.remedy = remedy or self.default_remedy or explain(self.code).remedy

    def __init_subclass__(cls) -> None:
        if "code" in cls.__dict__:
            cls.name = explain(cls.code).name
            _CLASS_OF_CODE.setdefault(cls.code, cls)

    def __str__(self) -> str:
        return f"{self.name} ({hex_code(self.code)}): {self.cause.rstrip('. ')}. {self.remedy}"


def without_frames(error: E) -> E:
    """The error alone: its frames would keep what they hold, connections and all, as a circle.

    The error that it was made from has frames of its own.
    """
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


class IllegalProperty(QueueError):
    """One of the properties given with a call is wrong."""

    code = 0xC00E0002


class QueueNotFound(QueueError):
    """No queue of that name, or none the caller may see."""

    code = 0xC00E0003


class QueueNotActive(QueueError):
    """The queue has no state to report: it is not open, and nothing waits in it."""

    code = 0xC00E0004


class QueueExists(QueueError):
    """The path name is in use."""

    code = 0xC00E0005


class InvalidParameter(QueueError):
    """An argument is missing, out of range or contradicts another."""

    code = 0xC00E0006


class InvalidHandle(QueueError):
    """The handle stands for no open queue or cursor."""

    code = 0xC00E0007


class OperationCancelled(QueueError):
    """A waiting operation was called off."""

    code = 0xC00E0008


class SharingViolation(QueueError):
    """The queue is open to one reader only."""

    code = 0xC00E0009


class ServiceNotAvailable(QueueError):
    """The queue manager is not ready."""

    code = 0xC00E000B


class MachineNotFound(QueueError):
    """The computer is not in the directory."""

    code = 0xC00E000D


class IllegalUser(QueueError):
    """The account is not valid for the operation."""

    code = 0xC00E0011


class NoDs(QueueError):
    """The directory cannot be reached."""

    code = 0xC00E0013


class IllegalQueuePathname(QueueError):
    """The text is not a path name ([MS-MQMQ] 2.1.1)."""

    code = 0xC00E0014


class IllegalPropertyValue(QueueError):
    """A property value is outside its limits."""

    code = 0xC00E0018


class IllegalPropertyVt(QueueError):
    """A property has the wrong variant type."""

    code = 0xC00E0019


class BufferOverflow(QueueError):
    """The buffer of the caller is too small for the message."""

    code = 0xC00E001A


class IoTimeout(QueueError, TimeoutError):
    """No message came within the waiting time."""

    code = 0xC00E001B

    def __init__(self, cause: str, remedy: str = "") -> None:
        super().__init__(cause, remedy)
        self.errno = self.strerror = None  # a TimeoutError takes two arguments for these


class IllegalCursorAction(QueueError):
    """The cursor cannot step on from where it stands."""

    code = 0xC00E001C


class MessageAlreadyReceived(QueueError):
    """The message under the cursor is gone."""

    code = 0xC00E001D


class IllegalFormatName(QueueError):
    """The text is not a format name, or names nothing ([MS-MQMQ] 2.1)."""

    code = 0xC00E001E


class UnsupportedFormatNameOperation(QueueError):
    """This kind of name does not allow the operation."""

    code = 0xC00E0020


class IllegalSecurityDescriptor(QueueError):
    """The security descriptor is not valid."""

    code = 0xC00E0021


class AccessDenied(QueueError):
    """The caller lacks the right for the operation."""

    code = 0xC00E0025


class PrivilegeNotHeld(QueueError):
    """The caller lacks a system-wide privilege."""

    code = 0xC00E0026


class InsufficientResources(QueueError):
    """Memory, disk or quota is used up."""

    code = 0xC00E0027


class MessageStorageFailed(QueueError):
    """The message could not be made durable and was not accepted."""

    code = 0xC00E002A


class InvalidCertificate(QueueError):
    """The certificate cannot be used."""

    code = 0xC00E002C


class CorruptedSecurityData(QueueError):
    """Keys or signed data are damaged."""

    code = 0xC00E0030


class ComputerDoesNotSupportEncryption(QueueError):
    """The destination has no key to encrypt for."""

    code = 0xC00E0033


class IllegalPropertyId(QueueError):
    """The property identifier is unknown for this object."""

    code = 0xC00E0039


class IllegalPropertySize(QueueError):
    """An identifier does not have its fixed length."""

    code = 0xC00E003B


class PropertyNotAllowed(QueueError):
    """The property cannot be set by this call."""

    code = 0xC00E003E


class InsufficientProperties(QueueError):
    """A required property is missing."""

    code = 0xC00E003F


class MachineExists(QueueError):
    """The directory has this computer already."""

    code = 0xC00E0040


class DsError(QueueError):
    """The directory failed."""

    code = 0xC00E0043


class InvalidOwner(QueueError):
    """The path names a computer that is not ours, or the owner is not valid."""

    code = 0xC00E0044


class UnsupportedAccessMode(QueueError):
    """Access and share mode do not go together."""

    code = 0xC00E0045


class QueueNotAvailable(QueueError):
    """A queue of another computer cannot be read now."""

    code = 0xC00E004B


class TransactionImport(QueueError):
    """A foreign transaction could not be taken over."""

    code = 0xC00E004E


class TransactionUsage(QueueError):
    """A transaction is missing, or used where none is possible."""

    code = 0xC00E0050


class TransactionSequence(QueueError):
    """The transaction has ended, is unknown or out of order."""

    code = 0xC00E0051


class MissingConnectorType(QueueError):
    """A connector property was set without a connector type."""

    code = 0xC00E0055


class StaleHandle(QueueError):
    """The handle is older than the last restart."""

    code = 0xC00E0056


class TransactionEnlist(QueueError):
    """The queue manager cannot join the transaction."""

    code = 0xC00E0058


class QueueDeleted(QueueError):
    """The queue was deleted while open."""

    code = 0xC00E005A


class LabelTooLong(QueueError):
    """The label exceeds its limit."""

    code = 0xC00E005D


class RemoteMachineNotAvailable(QueueError):
    """The other computer does not answer."""

    code = 0xC00E0069


class UnsupportedOperation(QueueError):
    """The operation needs a directory."""

    code = 0xC00E006A


class EncryptionProviderNotSupported(QueueError):
    """The cryptographic provider is unknown."""

    code = 0xC00E006B


class CertificateNotProvided(QueueError):
    """A message is to be signed without a certificate."""

    code = 0xC00E006D


class FailVerifySignature(QueueError):
    """The signature does not fit the message."""

    code = 0xC00E0082


class PropertiesConflict(QueueError):
    """Two properties exclude each other."""

    code = 0xC00E0087


class MessageNotFound(QueueError):
    """The message is not in the queue."""

    code = 0xC00E0088


class OperationNotSupportedByRemoteComputer(QueueError):
    """The other queue manager lacks the operation."""

    code = 0xC00E008B


class BadXmlFormat(QueueError):
    """An XML property is not well-formed."""

    code = 0xC00E0092


class ResolveAddress(QueueError):
    """The address of the computer cannot be resolved."""

    code = 0xC00E0099


class TooManyProperties(QueueError):
    """More than 128 properties in one call."""

    code = 0xC00E009A


class MessageNotAuthenticated(QueueError):
    """The queue takes authenticated messages only."""

    code = 0xC00E009B


class MessageLockedUnderTransaction(QueueError):
    """The message belongs to an open transaction."""

    code = 0xC00E009C


class StatusInvalidHandle(QueueError):
    """A handle or cursor of a remote reader that is none, or somebody else's ([MS-MQRR] 3.1.4)."""

    code = 0xC0000008


class StatusInvalidParameter(QueueError):
    """Source and target of a move are not of one queue ([MS-MQRR] 3.1.4.10)."""

    code = 0xC000000D


class StatusAccessDenied(QueueError):
    """A remote reader may not do that with the queue it has open (decision 93)."""

    code = 0xC0000022


class StatusNotFound(QueueError):
    """No waiting operation carries the tag ([MS-MQDMPR] 3.1.7.1.17)."""

    code = 0xC0000225


class QueueQuotaExceeded(InsufficientResources):
    """The quota of the queue has no room for the message ([MS-MQDMPR] 3.1.7.1.9)."""

    status: ClassVar[int] = 1
    default_remedy = "Receive or purge messages of the queue or its subqueues, or raise its quota."


class TooLittleMemory(InsufficientResources):
    """A request waited for memory in vain: it may be asked again."""


class MachineQuotaExceeded(InsufficientResources):
    """The queue manager has no room for the message ([MS-MQDMPR] 3.1.7.1.9)."""

    status: ClassVar[int] = 2
    default_remedy = "Receive or purge messages of any queue, or raise the machine quota."


class TimedOutInTransit(QueueError):
    """The message arrived after its time to reach the queue ([MS-MQDMPR] 3.1.7.1.9)."""

    # The document has a bare status 3 here; a timeout is the nearest result code.
    code = 0xC00E001B
    status: ClassVar[int] = 3
    default_remedy = "Send the message again with a longer time to reach the queue."


class QmsError(QueueError):
    """A NetWare call that is refused (qms-facts 7.5).

    `completion` is the byte that NCP clients get; `code` is what their libraries make of it.
    """

    def __init__(self, completion: int, cause: str, remedy: str = "") -> None:
        self.completion = completion
        self.code = SEEN_BY_CLIENTS + completion
        self.name = explain(self.code).name
        super().__init__(cause, remedy)

    def __reduce__(self) -> tuple[type[Self], tuple[int, str, str]]:
        return type(self), (self.completion, self.cause, self.remedy)


class RemoteProtocolError(Exception):
    """A peer broke its protocol; its session is to be closed."""


class Truncated(RemoteProtocolError):
    """The bytes end before the structure does."""


class MalformedPacket(RemoteProtocolError):
    """The bytes contradict the structure they claim to be."""


def error_for(code: int, cause: str) -> QueueError:
    """The exception for a result code; a plain `QueueError` where the code has no class."""
    if code & ~0xFF == SEEN_BY_CLIENTS:
        return QmsError(code & 0xFF, cause)
    kind = _CLASS_OF_CODE.get(code)
    if kind is not None:
        return kind(cause)
    error = QueueError(cause, explain(code).remedy)
    error.code = code
    error.name = explain(code).name
    return error
