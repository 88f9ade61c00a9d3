"""The result codes of message queuing in plain words ([MS-MQMQ] 2.4).

One entry is three lines: code and name, what it means, what a user can do about it.
"""

from types import MappingProxyType
from typing import NamedTuple

from posthouse.model.completion_codes import TABLE as _COMPLETION_CODES

_RESULT_CODES = """\
0x400E0001 MQ_INFORMATION_PROPERTY
  The call succeeded, but at least one of the properties passed with it drew a warning.
  Read the status of each property and correct the ones that are not zero.
0x400E0002 MQ_INFORMATION_ILLEGAL_PROPERTY
  A property identifier was not recognised and was passed over.
  Remove the unknown identifier, or look it up in the property tables.
0x400E0003 MQ_INFORMATION_PROPERTY_IGNORED
  A property was recognised but has no meaning for this call.
  Leave the property out, or pass it to the call that uses it.
0x400E0004 MQ_INFORMATION_UNSUPPORTED_PROPERTY
  A property is known, yet this queue manager does not support it and skipped it.
  Go on without the property, or use a queue manager that supports it.
0x400E0005 MQ_INFORMATION_DUPLICATE_PROPERTY
  The same property was given twice; only the first value counted.
  Pass each property once, with the value that is meant.
0x400E0006 MQ_INFORMATION_OPERATION_PENDING
  The operation was started and will finish later.
  Wait for its completion before using the result.
0x400E0009 MQ_INFORMATION_FORMATNAME_BUFFER_TOO_SMALL
  The queue was created, but the buffer had no room for its format name.
  Do not create it again: ask for the format name of the path with a larger buffer.
0x400E000A MQ_INFORMATION_INTERNAL_USER_CERT_EXIST
  The user already owns an internal certificate, and it was kept.
  Use the certificate that exists, or delete it first to get a new one.
0x400E000B MQ_INFORMATION_OWNER_IGNORED
  The security descriptor was applied except for its owner.
  Set the owner separately with an account that may take ownership.
0xC00E0001 MQ_ERROR
  Something failed for which there is no more specific code.
  Look into the log of the queue manager for the entry of the same moment.
0xC00E0002 MQ_ERROR_PROPERTY
  At least one of the given properties is wrong.
  Check the properties one by one; the status of each shows which was refused.
0xC00E0003 MQ_ERROR_QUEUE_NOT_FOUND
  No queue of this name exists here, or you may not see it.
  Check the spelling with `posthouse queue list`, or create the queue.
0xC00E0004 MQ_ERROR_QUEUE_NOT_ACTIVE
  The queue holds nothing to send and is not open, so there is no state to report.
  Open the queue or send a message to it, then ask again.
0xC00E0005 MQ_ERROR_QUEUE_EXISTS
  A queue with this path name exists already; letter case does not distinguish names.
  Use the existing queue or choose another name.
0xC00E0006 MQ_ERROR_INVALID_PARAMETER
  An argument of the call is missing, out of range or does not fit the others.
  Compare the arguments with the description of the call and correct the one named here.
0xC00E0007 MQ_ERROR_INVALID_HANDLE
  The handle does not stand for an open queue or cursor.
  Open the queue again and use the new handle; do not use one after closing it.
0xC00E0008 MQ_ERROR_OPERATION_CANCELLED
  The operation was called off before it was done, usually because its queue was closed.
  Start it again if it is still wanted.
0xC00E0009 MQ_ERROR_SHARING_VIOLATION
  Another reader has the queue open for itself alone, or you asked for that while others read.
  Wait until the other reader closes the queue, or open it in shared mode.
0xC00E000B MQ_ERROR_SERVICE_NOT_AVAILABLE
  The queue manager is not running or is not ready for requests.
  Start it with `posthouse serve` and try again.
0xC00E000D MQ_ERROR_MACHINE_NOT_FOUND
  The computer is not known to the directory.
  Check the computer name, or register it with `posthouse directory machine`.
0xC00E0010 MQ_ERROR_ILLEGAL_SORT
  The sort order of the query is not valid, for example because a column is named twice.
  Name every sort column once and only columns that can be sorted.
0xC00E0011 MQ_ERROR_ILLEGAL_USER
  The user is not valid for this operation.
  Call again with an account that `posthouse user list` shows.
0xC00E0013 MQ_ERROR_NO_DS
  The directory cannot be reached, and the operation needs it.
  Use a direct format name, which needs no directory, or bring the directory back.
0xC00E0014 MQ_ERROR_ILLEGAL_QUEUE_PATHNAME
  The text is not a path name of a queue.
  Write COMPUTER\\private$\\NAME, with a dot for the local computer.
0xC00E0018 MQ_ERROR_ILLEGAL_PROPERTY_VALUE
  The value of a property is outside what is allowed for it.
  Choose a value within the limits of the property.
0xC00E0019 MQ_ERROR_ILLEGAL_PROPERTY_VT
  A property was given with the wrong variant type.
  Use the variant type that the property table lists for this identifier.
0xC00E001A MQ_ERROR_BUFFER_OVERFLOW
  A property of the message is longer than the buffer; the message stays in its queue.
  Enlarge the buffer to the reported size and read the message again.
0xC00E001B MQ_ERROR_IO_TIMEOUT
  No suitable message came within the time allowed for waiting.
  Give a longer time to wait, or check that the senders reach this queue.
0xC00E001C MQ_ERROR_ILLEGAL_CURSOR_ACTION
  The cursor cannot step on from where it stands.
  Peek at the current position first, or open a new cursor.
0xC00E001D MQ_ERROR_MESSAGE_ALREADY_RECEIVED
  The message under the cursor was taken by somebody else in the meantime.
  Move the cursor to the next message.
0xC00E001E MQ_ERROR_ILLEGAL_FORMATNAME
  The text is not a valid format name, or it names something that does not exist.
  Write for example DIRECT=OS:host\\private$\\name and check each part.
0xC00E001F MQ_ERROR_FORMATNAME_BUFFER_TOO_SMALL
  The buffer for the format name has too little room.
  Call again with a buffer of the length that was returned.
0xC00E0020 MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION
  This kind of format name does not allow the operation.
  Address the queue by a name that fits: a single direct name of TCP or OS can do most.
0xC00E0021 MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR
  The security descriptor is damaged or holds rights that do not exist for this object.
  Build the descriptor again, or set the rights with `posthouse queue grant`.
0xC00E0022 MQ_ERROR_SENDERID_BUFFER_TOO_SMALL
  The identifier of the sender does not fit into the buffer given for it.
  Provide as many bytes as the sender identifier length property has.
0xC00E0023 MQ_ERROR_SECURITY_DESCRIPTOR_TOO_SMALL
  The security descriptor does not fit into the buffer given for it.
  Ask for the needed length first and pass a buffer of that size.
0xC00E0024 MQ_ERROR_CANNOT_IMPERSONATE_CLIENT
  The server could not act in the name of the caller.
  Log in with an account of the server and allow it to use your identity.
0xC00E0025 MQ_ERROR_ACCESS_DENIED
  The caller lacks the right that this operation needs.
  Ask an administrator for it: `posthouse queue access PATH` shows who has which right.
0xC00E0026 MQ_ERROR_PRIVILEGE_NOT_HELD
  The account lacks a system-wide privilege, such as reading audit settings.
  Repeat the call as an administrator.
0xC00E0027 MQ_ERROR_INSUFFICIENT_RESOURCES
  There is not enough memory, disk space or quota left.
  Free space, receive or purge messages, or raise the quota.
0xC00E0028 MQ_ERROR_USER_BUFFER_TOO_SMALL
  A buffer of the caller is smaller than the data that belongs into it.
  Allocate the size that the call returned and repeat it.
0xC00E002A MQ_ERROR_MESSAGE_STORAGE_FAILED
  The message could not be written to disk and was therefore not accepted.
  Check free space and health of the disk under the home directory, then send it again.
0xC00E002B MQ_ERROR_SENDER_CERT_BUFFER_TOO_SMALL
  The certificate of the sender does not fit into the buffer given for it.
  Read the length property of the certificate and pass that many bytes.
0xC00E002C MQ_ERROR_INVALID_CERTIFICATE
  The user certificate cannot be used: it is damaged, expired or of the wrong kind.
  Import a valid certificate with `posthouse cert import`.
0xC00E002D MQ_ERROR_CORRUPTED_INTERNAL_CERTIFICATE
  The internal certificate of the user is damaged.
  Delete it and make a new one with `posthouse cert create`.
0xC00E002E MQ_ERROR_INTERNAL_USER_CERT_EXIST
  An internal certificate of this user is registered already.
  Keep using it, or remove it before registering another.
0xC00E002F MQ_ERROR_NO_INTERNAL_USER_CERT
  The user has no internal certificate to sign with.
  Create one with `posthouse cert create`, or sign with an external certificate.
0xC00E0030 MQ_ERROR_CORRUPTED_SECURITY_DATA
  A cryptographic function refused its keys or data.
  Check the keys of this account with `posthouse cert list` and renew the damaged ones.
0xC00E0031 MQ_ERROR_CORRUPTED_PERSONAL_CERT_STORE
  The personal certificate store cannot be read.
  Restore the certificates from a backup.
0xC00E0033 MQ_ERROR_COMPUTER_DOES_NOT_SUPPORT_ENCRYPTION
  The destination computer has published no key for encrypted messages.
  Send without privacy, or let the administrator of that computer publish its key.
0xC00E0035 MQ_ERROR_BAD_SECURITY_CONTEXT
  The prepared security context is not valid or belongs to another user.
  Obtain a new security context and send with that.
0xC00E0036 MQ_ERROR_COULD_NOT_GET_USER_SID
  The security identifier of the calling user could not be found out.
  Log in with an account that has a security identifier.
0xC00E0037 MQ_ERROR_COULD_NOT_GET_ACCOUNT_INFO
  The details of the user account could not be read.
  Check that the account exists and that its directory answers.
0xC00E0038 MQ_ERROR_ILLEGAL_MQCOLUMNS
  The list of columns of the query is missing or empty.
  Name at least one property to be returned.
0xC00E0039 MQ_ERROR_ILLEGAL_PROPID
  A property identifier is not valid in this place.
  Use only identifiers that the property table lists for this kind of object.
0xC00E003A MQ_ERROR_ILLEGAL_RELATION
  A comparison in the search condition is not a known relation.
  Use one of the six relations: less, at most, greater, at least, equal, not equal.
0xC00E003B MQ_ERROR_ILLEGAL_PROPERTY_SIZE
  A message or correlation identifier does not have its fixed length.
  Pass exactly 20 bytes.
0xC00E003C MQ_ERROR_ILLEGAL_RESTRICTION_PROPID
  A search condition uses a property that cannot be searched by.
  Search by label, service type, path or times instead.
0xC00E003D MQ_ERROR_ILLEGAL_MQQUEUEPROPS
  The structure with the queue properties is missing or holds none.
  Pass at least the path name of the queue.
0xC00E003E MQ_ERROR_PROPERTY_NOTALLOWED
  This property cannot be set by this call; it is fixed or managed by the system.
  Leave the property out; what is fixed at creation needs a new queue.
0xC00E003F MQ_ERROR_INSUFFICIENT_PROPERTIES
  A property that the call cannot do without is missing.
  Add the required property and call again.
0xC00E0040 MQ_ERROR_MACHINE_EXISTS
  The directory has an entry for a computer of this name already.
  Use that entry, or remove it before adding the computer again.
0xC00E0041 MQ_ERROR_ILLEGAL_MQQMPROPS
  The structure with the computer properties is missing or holds none.
  Pass at least one property of the computer to be read.
0xC00E0042 MQ_ERROR_DS_IS_FULL
  The directory takes no more objects.
  Delete directory entries that are no longer used.
0xC00E0043 MQ_ERROR_DS_ERROR
  The directory answered with an internal error.
  Look into the log of the directory server, then repeat the operation.
0xC00E0044 MQ_ERROR_INVALID_OWNER
  The owner of the object is not valid, or the path names another computer as its host.
  Create the queue at the queue manager that is to hold it.
0xC00E0045 MQ_ERROR_UNSUPPORTED_ACCESS_MODE
  This combination of access and share mode does not exist for this queue.
  Ask for a single kind of access; deny others only when receiving.
0xC00E0046 MQ_ERROR_RESULT_BUFFER_TOO_SMALL
  The results of the query do not fit into the buffer.
  Fetch fewer rows at a time or give more room.
0xC00E0048 MQ_ERROR_DELETE_CN_IN_USE
  The connected network still has members and cannot be deleted.
  Take all computers out of the network first.
0xC00E0049 MQ_ERROR_NO_RESPONSE_FROM_OBJECT_SERVER
  The server that owns the directory object did not answer; the change may have been made.
  Read the object back before changing it again.
0xC00E004A MQ_ERROR_OBJECT_SERVER_NOT_AVAILABLE
  The server that owns the directory object is down.
  Try again when that server is back.
0xC00E004B MQ_ERROR_QUEUE_NOT_AVAILABLE
  The queue is on another computer and cannot be read at the moment.
  Check that the other queue manager runs and that its remote read port is open.
0xC00E004C MQ_ERROR_DTC_CONNECT
  The transaction coordinator cannot be reached.
  Start the coordinator, or use a transaction of the queue manager itself.
0xC00E004E MQ_ERROR_TRANSACTION_IMPORT
  The transaction of another system could not be taken over.
  Begin the transaction here, or connect both systems with `posthouse peer create`.
0xC00E0050 MQ_ERROR_TRANSACTION_USAGE
  A transaction was used where none is possible, or none where one is required.
  Use a transaction exactly when sending to or moving within transactional queues.
0xC00E0051 MQ_ERROR_TRANSACTION_SEQUENCE
  The transaction has ended, is unknown, or the steps came in the wrong order.
  Begin a new transaction and repeat its steps in order.
0xC00E0055 MQ_ERROR_MISSING_CONNECTOR_TYPE
  A property reserved for connectors was set without naming the connector.
  Set the connector type as well, or drop the property.
0xC00E0056 MQ_ERROR_STALE_HANDLE
  The queue manager was restarted since this handle was opened.
  Close the handle and open the queue again.
0xC00E0058 MQ_ERROR_TRANSACTION_ENLIST
  The queue manager could not join the transaction.
  Use a transaction of this queue manager or of one of its peers.
0xC00E005A MQ_ERROR_QUEUE_DELETED
  The queue was deleted while it was open.
  Close the handle; create the queue again if it is still needed.
0xC00E005B MQ_ERROR_ILLEGAL_CONTEXT
  The context of the query is not valid.
  Begin the query again from the start and keep its context.
0xC00E005C MQ_ERROR_ILLEGAL_SORT_PROPID
  The query is to be sorted by a property that does not allow it.
  Sort by a property of a simple type, such as label or creation time.
0xC00E005D MQ_ERROR_LABEL_TOO_LONG
  The label is longer than 249 characters for a message or 124 for a queue.
  Shorten the label; characters beyond U+FFFF count twice.
0xC00E005E MQ_ERROR_LABEL_BUFFER_TOO_SMALL
  The label of the message does not fit into the buffer given for it.
  Give room for 250 characters, which any label fits into.
0xC00E005F MQ_ERROR_MQIS_SERVER_EMPTY
  The list of directory servers is empty.
  Enter at least one directory server in the settings.
0xC00E0060 MQ_ERROR_MQIS_READONLY_MODE
  The directory accepts no changes at the moment.
  Wait until its maintenance is over, or change it at a writable server.
0xC00E0061 MQ_ERROR_SYMM_KEY_BUFFER_TOO_SMALL
  The symmetric key does not fit into the buffer given for it.
  Read the length property of the key and pass a buffer that large.
0xC00E0062 MQ_ERROR_SIGNATURE_BUFFER_TOO_SMALL
  The signature does not fit into the buffer given for it.
  Read the length property of the signature and reserve as much.
0xC00E0063 MQ_ERROR_PROV_NAME_BUFFER_TOO_SMALL
  The name of the cryptographic provider does not fit into the buffer given for it.
  Read the length property of the provider name and reserve as many characters.
0xC00E0064 MQ_ERROR_ILLEGAL_OPERATION
  A foreign system does not support this operation.
  Do it with the tools of that system, or on a queue manager of message queuing.
0xC00E0065 MQ_ERROR_WRITE_NOT_ALLOWED
  Another directory server is being set up, so nothing may be written.
  Repeat the change when the set-up is complete.
0xC00E0066 MQ_ERROR_WKS_CANT_SERVE_CLIENT
  This computer does not act as a server for dependent clients.
  Point the client to a supporting server.
0xC00E0067 MQ_ERROR_DEPEND_WKS_LICENSE_OVERFLOW
  The server already serves as many clients as it is allowed to.
  Disconnect clients that are idle, or raise the limit.
0xC00E0068 MQ_CORRUPTED_QUEUE_WAS_DELETED
  The stored definition of a queue was damaged and has been removed.
  Create the queue again; its messages can be restored from a backup.
0xC00E0069 MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE
  The other computer does not answer.
  Check its name, the network and that its queue manager runs.
0xC00E006A MQ_ERROR_UNSUPPORTED_OPERATION
  The operation needs a directory, and this queue manager works without one.
  Use private queues and direct format names, or set up the directory.
0xC00E006B MQ_ERROR_ENCRYPTION_PROVIDER_NOT_SUPPORTED
  The cryptographic provider of the message is unknown here.
  Send with the default provider.
0xC00E006C MQ_ERROR_CANNOT_SET_CRYPTO_SEC_DESCR
  The key files could not be protected against other users.
  Check owner and mode of the key files in the home directory.
0xC00E006D MQ_ERROR_CERTIFICATE_NOT_PROVIDED
  The message is to be signed, but no certificate was given.
  Name a certificate of yours, or send the message unsigned.
0xC00E006E MQ_ERROR_Q_DNS_PROPERTY_NOT_SUPPORTED
  The directory cannot search or sort by DNS path names.
  Search by the ordinary path name instead.
0xC00E006F MQ_ERROR_CANNOT_CREATE_CERT_STORE
  The certificate store for the internal certificate could not be created.
  Check that the account may write to its certificate directory.
0xC00E0070 MQ_ERROR_CANNOT_OPEN_CERT_STORE
  The certificate store for the internal certificate could not be opened.
  Check that the store exists and is readable for this account.
0xC00E0071 MQ_ERROR_ILLEGAL_ENTERPRISE_OPERATION
  The enterprise object does not allow this operation.
  Change its settings instead; it can be neither created nor deleted this way.
0xC00E0072 MQ_ERROR_CANNOT_GRANT_ADD_GUID
  The right to add objects with a chosen GUID could not be granted.
  Let an administrator of the directory grant it by hand.
0xC00E0073 MQ_ERROR_CANNOT_LOAD_MSMQOCM
  A library of the set-up program is missing on that computer.
  Install message queuing there again.
0xC00E0074 MQ_ERROR_NO_ENTRY_POINT_MSMQOCM
  A library of the set-up program does not fit the installed version.
  Bring message queuing and its set-up program to the same version.
0xC00E0075 MQ_ERROR_NO_MSMQ_SERVERS_ON_DC
  No domain controller runs a message queuing server.
  Install a message queuing server on a domain controller.
0xC00E0076 MQ_ERROR_CANNOT_JOIN_DOMAIN
  The computer could not join the directory and keeps working without it.
  Check the domain membership and the rights of the computer account, then restart.
0xC00E0077 MQ_ERROR_CANNOT_CREATE_ON_GC
  The object could not be created on the global catalog server.
  Create it at a domain controller of the computer's own domain.
0xC00E0078 MQ_ERROR_GUID_NOT_MATCHING
  The GUID in the directory is not the one of this queue manager.
  Remove the outdated directory entry and register the queue manager again.
0xC00E0079 MQ_ERROR_PUBLIC_KEY_NOT_FOUND
  No public key of the computer was found in the directory.
  Publish the key of the destination, or send unencrypted.
0xC00E007A MQ_ERROR_PUBLIC_KEY_DOES_NOT_EXIST
  The computer has an entry without any public key in it.
  Renew the keys of that computer so that one is published.
0xC00E007B MQ_ERROR_ILLEGAL_MQPRIVATEPROPS
  The structure with the private computer properties is missing or not valid.
  Pass at least one known private property.
0xC00E007C MQ_ERROR_NO_GC_IN_DOMAIN
  The domain has no global catalog server.
  Make one domain controller a global catalog server.
0xC00E007D MQ_ERROR_NO_MSMQ_SERVERS_ON_GC
  No global catalog server runs a message queuing server.
  Install a message queuing server on a global catalog server.
0xC00E007E MQ_ERROR_CANNOT_GET_DN
  The own distinguished name could not be read from the directory.
  Check that the computer account exists in the directory.
0xC00E007F MQ_ERROR_CANNOT_HASH_DATA_EX
  Hashing the message for its signature failed.
  Choose another hash algorithm, for example SHA-512.
0xC00E0080 MQ_ERROR_CANNOT_SIGN_DATA_EX
  Signing the hash failed, mostly because the private key is not accessible.
  Check that the certificate has a private key which this account may use.
0xC00E0081 MQ_ERROR_CANNOT_CREATE_HASH_EX
  The cryptographic library offers no such hash algorithm.
  Pick an algorithm that is installed and not switched off by policy.
0xC00E0082 MQ_ERROR_FAIL_VERIFY_SIGNATURE_EX
  The signature does not fit the message.
  Do not trust the message; ask the sender to sign and send it again.
0xC00E0083 MQ_ERROR_CANNOT_DELETE_PSC_OBJECTS
  The object belongs to an old site controller and can be deleted only there.
  Delete it at the site controller that owns it.
0xC00E0084 MQ_ERROR_NO_MQUSER_OU
  The container for users of other domains is missing in the directory.
  Create the container in the directory, then register the certificate again.
0xC00E0085 MQ_ERROR_CANNOT_LOAD_MQAD
  The library for directory access could not be loaded.
  Repair the installation of message queuing on that computer.
0xC00E0086 MQ_ERROR_CANNOT_LOAD_MQDSSRV
  The library of the old directory server could not be loaded; the code is obsolete.
  Use a directory server of a current version.
0xC00E0087 MQ_ERROR_PROPERTIES_CONFLICT
  Two of the given properties exclude each other.
  Keep only one of them.
0xC00E0088 MQ_ERROR_MESSAGE_NOT_FOUND
  The message is not in the queue, or no longer.
  Peek at the queue for the identifiers of the messages it holds now.
0xC00E0089 MQ_ERROR_CANT_RESOLVE_SITES
  The sites of the computer could not be found out.
  Check the subnets and sites in the directory.
0xC00E008A MQ_ERROR_NOT_SUPPORTED_BY_DEPENDENT_CLIENTS
  Dependent clients cannot use this function.
  Run the program on a computer with a queue manager of its own.
0xC00E008B MQ_ERROR_OPERATION_NOT_SUPPORTED_BY_REMOTE_COMPUTER
  The other queue manager is too old for this operation.
  Do it locally there, or update that queue manager.
0xC00E008C MQ_ERROR_NOT_A_CORRECT_OBJECT_CLASS
  The directory object is of another class than the operation works on.
  Check the kind of object that the name or GUID stands for.
0xC00E008D MQ_ERROR_MULTI_SORT_KEYS
  The directory can sort by one key only.
  Ask for one sort key and sort the rest yourself.
0xC00E008E MQ_ERROR_GC_NEEDED
  An entry with a chosen GUID can be created only at a global catalog server.
  Run the set-up where a global catalog server is reachable.
0xC00E008F MQ_ERROR_DS_BIND_ROOT_FOREST
  The root of the directory forest could not be contacted.
  Check the connection to the controllers of the root domain.
0xC00E0090 MQ_ERROR_DS_LOCAL_USER
  A local user account has no access to the directory.
  Call with an account of the domain.
0xC00E0091 MQ_ERROR_Q_ADS_PROPERTY_NOT_SUPPORTED
  The directory cannot search or sort by directory paths of queues.
  Search by queue path or label and read the directory path afterwards.
0xC00E0092 MQ_ERROR_BAD_XML_FORMAT
  The text of an XML property is not well-formed.
  Check the XML with a parser before setting the property.
0xC00E0093 MQ_ERROR_UNSUPPORTED_CLASS
  Directory objects of this class cannot be created here.
  Create only queues, computers, sites, links and users.
0xC00E0094 MQ_ERROR_UNINITIALIZED_OBJECT
  The management object was used before it was told which queue or computer it manages.
  Initialise the object with a computer and a format name first.
0xC00E0095 MQ_ERROR_CANNOT_CREATE_PSC_OBJECTS
  Objects of an old site controller can be created only there.
  Create it at the site controller of that site.
0xC00E0096 MQ_ERROR_CANNOT_UPDATE_PSC_OBJECTS
  The object belongs to an old site controller and can be changed only there.
  Change it at the site controller that owns it.
0xC00E0099 MQ_ERROR_RESOLVE_ADDRESS
  The address of the computer could not be resolved.
  Check the host name and the DNS settings, or address it by IP with DIRECT=TCP.
0xC00E009A MQ_ERROR_TOO_MANY_PROPERTIES
  More than 128 properties were given at once.
  Split them over several calls.
0xC00E009B MQ_ERROR_MESSAGE_NOT_AUTHENTICATED
  The queue accepts only authenticated messages, and this one is not.
  Sign the message, or switch authentication of the queue off.
0xC00E009C MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION
  The message is part of a transaction that has not ended yet.
  Try again after that transaction has committed or aborted.
0xC00E0504 MQDS_UNKNOWN_SOURCE
  A change record came from a directory server that is not known.
  Make the server known to the directory, or discard the record.
"""

# Codes from outside [MS-MQMQ] 2.4 that our documents use.
_STATUS_CODES = """\
0x00000000 MQ_OK
  The operation succeeded.
  There is nothing to do.
0xC0000008 STATUS_INVALID_HANDLE
  The remote handle is not open, or belongs to another connection or user.
  Open the remote queue again on this connection.
0xC000000D STATUS_INVALID_PARAMETER
  A remote call carried an argument that is not valid.
  Correct the arguments of the remote call.
0xC0000022 STATUS_ACCESS_DENIED
  The remote caller lacks the right for this call on an open handle.
  Open the queue with the access that the call needs, or ask for the right.
0xC0000225 STATUS_NOT_FOUND
  No waiting operation carries this tag; it may have ended already.
  Nothing needs cancelling; check whether its result has arrived.
"""


class ErrorCode(NamedTuple):
    """A result code with what it means and what to do about it ([MS-MQMQ] 2.4)."""

    code: int
    name: str
    explanation: str
    remedy: str


def _read(table: str) -> MappingProxyType[int, ErrorCode]:
    lines = table.splitlines()
    entries: dict[int, ErrorCode] = {}
    for head, explanation, remedy in zip(lines[::3], lines[1::3], lines[2::3], strict=True):
        code, name = head.split()
        number = int(code, 16)
        entries[number] = ErrorCode(number, name, explanation.strip(), remedy.strip())
    return MappingProxyType(entries)


ERROR_CODES = _read(_RESULT_CODES)
"""Every code of [MS-MQMQ] 2.4."""

STATUS_CODES = _read(_STATUS_CODES)
"""Success, and the NTSTATUS values that [MS-MQDMPR] and [MS-MQRR] return."""

COMPLETION_CODES = _read(_COMPLETION_CODES)
"""Those of NetWare's queue and bindery calls, as clients see them: 0x8900 and the code."""


def explain(code: int) -> ErrorCode:
    """What a result code means; never fails, so that any peer's code can be shown."""
    known = ERROR_CODES.get(code) or STATUS_CODES.get(code) or COMPLETION_CODES.get(code)
    if known is not None:
        return known
    return ErrorCode(
        code,
        "UNKNOWN_CODE",
        f"The code 0x{code & 0xFFFFFFFF:08X} is not one of message queuing.",
        "Look the code up in the documentation of the program that returned it.",
    )
