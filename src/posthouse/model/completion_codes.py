"""The completion codes of NetWare's queue and bindery calls in plain words (qms-facts 7.5).

As clients see them: 0x8900 and the byte of the reply. An entry is three lines: code and name, what
it means, what a user can do about it.
"""

from typing import Final

SUCCESS: Final = 0x00
OUT_OF_DISK_SPACE: Final = 0x01
BAD_LENGTH: Final = 0x7E
INVALID_FILE_HANDLE: Final = 0x88
NO_READ_PRIVILEGE: Final = 0x93
NO_WRITE_PRIVILEGE: Final = 0x94
SERVER_OUT_OF_MEMORY: Final = 0x96
DIRECTORY_FULL: Final = 0x99
BAD_DIRECTORY_HANDLE: Final = 0x9B
INVALID_PATH: Final = 0x9C
NO_ACCOUNT_PRIVILEGES: Final = 0xC0
NO_ACCOUNT_BALANCE: Final = 0xC1
CREDIT_LIMIT_EXCEEDED: Final = 0xC2
TOO_MANY_HOLDS: Final = 0xC3
INTRUDER_LOCKOUT: Final = 0xC5
Q_IO_FAILURE: Final = 0xD0
NO_QUEUE: Final = 0xD1
NO_Q_SERVER: Final = 0xD2
NO_Q_RIGHTS: Final = 0xD3
Q_FULL: Final = 0xD4
NO_Q_JOB: Final = 0xD5
NO_Q_JOB_RIGHTS: Final = 0xD6
Q_IN_SERVICE: Final = 0xD7
Q_NOT_ACTIVE: Final = 0xD8
Q_STN_NOT_SERVER: Final = 0xD9
Q_HALTED: Final = 0xDA
Q_MAX_SERVERS: Final = 0xDB
# In the answer to a login these numbers mean something else.
UNENCRYPTED_REFUSED: Final = 0xD6
PASSWORD_TOO_SHORT: Final = 0xD8
TOO_MANY_CONNECTIONS: Final = 0xD9
LOGIN_DISABLED: Final = 0xDC
BAD_PASSWORD: Final = 0xDE
WRITE_TO_SET: Final = 0xE8
MEMBER_EXISTS: Final = 0xE9
NO_SUCH_MEMBER: Final = 0xEA
NOT_A_SET: Final = 0xEB
NO_SUCH_SEGMENT: Final = 0xEC
PROPERTY_EXISTS: Final = 0xED
OBJECT_EXISTS: Final = 0xEE
ILLEGAL_NAME: Final = 0xEF
WILD_CARD_NOT_ALLOWED: Final = 0xF0
INVALID_BINDERY_SECURITY: Final = 0xF1
NO_OBJECT_READ: Final = 0xF2
NO_OBJECT_RENAME: Final = 0xF3
NO_OBJECT_DELETE: Final = 0xF4
NO_OBJECT_CREATE: Final = 0xF5
NO_PROPERTY_DELETE: Final = 0xF6
NO_PROPERTY_CREATE: Final = 0xF7
NO_PROPERTY_WRITE: Final = 0xF8
NO_PROPERTY_READ: Final = 0xF9
NO_SUCH_PROPERTY: Final = 0xFB
UNSUPPORTED: Final = 0xFB
NO_SUCH_OBJECT: Final = 0xFC
BINDERY_LOCKED: Final = 0xFE
FAILURE: Final = 0xFF

SEEN_BY_CLIENTS: Final = 0x8900  # what their libraries add to the byte

TABLE: Final = """\
0x8900 SUCCESSFUL
  The call did what it was asked for.
  Go on.
0x8901 OUT_OF_DISK_SPACE
  There is no room for the data of the job.
  Make room on the disk of the queue manager, or raise `[qms] file_max`.
0x897E BAD_LENGTH
  The request is shorter or longer than its call has it.
  Correct the program that sent it; `posthouse decode` shows what it sent.
0x8988 INVALID_FILE_HANDLE
  No open job file belongs to this handle on this connection.
  Use the handle on the connection that received it, and not after the job was started or ended.
0x8993 NO_READ_PRIVILEGE
  This handle is for writing the job's data only.
  Read the data as a queue server that services the job.
0x8994 NO_WRITE_PRIVILEGE
  This handle is for reading the job's data only.
  Write the data before the job is started.
0x8996 SERVER_OUT_OF_MEMORY
  A limit of the queue manager is reached.
  End what is no longer needed, or raise the limit in the settings.
0x8999 DIRECTORY_FULL
  There is no room for another job file.
  Make room on the disk of the queue manager.
0x899B BAD_DIRECTORY_HANDLE
  Directory handles are not known here.
  Give the whole path and the directory handle 0.
0x899C INVALID_PATH
  The path of the queue directory is empty, too long or not printable.
  Give a path of 1 to 118 ASCII characters, such as SYS:SYSTEM.
0x89C0 ERR_NO_ACCOUNT_PRIVILEGES
  Only objects in ACCOUNT_SERVERS of the file server may charge others.
  Let a supervisor add the server to ACCOUNT_SERVERS.
0x89C1 ERR_NO_ACCOUNT_BALANCE
  The object has no account balance that could be charged.
  Let a supervisor give it the property ACCOUNT_BALANCE.
0x89C2 ERR_CREDIT_LIMIT_EXCEEDED
  Balance and credit limit of the object do not cover this.
  Raise the balance or the credit limit.
0x89C3 ERR_TOO_MANY_HOLDS
  Sixteen servers have reserved amounts of this account already.
  Wait until one of them has charged or cancelled.
0x89C5 INTRUDER_LOCKOUT
  Too many wrong passwords came from there; for a while none is looked at.
  Wait, then log in with the right password.
0x89D0 ERR_Q_IO_FAILURE
  The data of the queue or of the job could not be read or written.
  Look into the log of the queue manager; `posthouse doctor` shows more.
0x89D1 ERR_NO_QUEUE
  No job queue has this identifier.
  List the queues with `posthouse job queue list`, or make one: `posthouse job queue create NAME`.
0x89D2 ERR_NO_Q_SERVER
  This queue server is not attached to the queue.
  Attach it first; the queue status shows who is attached.
0x89D3 ERR_NO_Q_RIGHTS
  The caller is not in the set of the queue that allows this.
  Let a supervisor add it to Q_USERS, Q_OPERATORS or Q_SERVERS of the queue.
0x89D4 ERR_Q_FULL
  The queue holds as many jobs as it may.
  Wait until jobs are serviced, or raise `[qms] jobs_max`.
0x89D5 ERR_NO_Q_JOB
  The queue has no such job, or none that this server may service now.
  List the jobs with `posthouse job list QUEUE`; a server asks again later.
0x89D6 ERR_NO_Q_JOB_RIGHTS
  This job is not the caller's to change, start or end in this way.
  Ask its owner or an operator of the queue.
0x89D7 ERR_Q_IN_SERVICE
  A queue server works on the job, or its submitter still writes it.
  Wait until that is over, or remove the job.
0x89D8 ERR_Q_NOT_ACTIVE
  The queue exists but cannot be used at the moment, or the password is too short.
  Try again later, or choose a longer password.
0x89D9 ERR_Q_STN_NOT_SERVER
  The connection is not attached to the queue as a server, or there are too many connections.
  Attach to the queue first; end connections that are not needed.
0x89DA ERR_Q_HALTED
  An operator has stopped this for the queue.
  Wait, or let an operator clear the status of the queue.
0x89DB ERR_Q_MAX_SERVERS
  As many servers are attached to the queue as may be.
  Detach one of them, or raise `[qms] servers_max`.
0x89DC LOGIN_DISABLED
  The object is disabled, or has no password yet.
  Let an administrator enable it or set its password with `posthouse bindery passwd`.
0x89DE BAD_PASSWORD
  The password is wrong.
  Check the password, and that it is the one of this object and type.
0x89E8 WRITE_PROPERTY_TO_GROUP
  A set has members, not a value.
  Add and delete members instead.
0x89E9 MEMBER_ALREADY_EXISTS
  The object is in the set already.
  Nothing needs to be done.
0x89EA NO_SUCH_MEMBER
  The object is not in the set.
  Read the property to see who is.
0x89EB NOT_GROUP_PROPERTY
  The property is an item: it has a value, not members.
  Write its value instead.
0x89EC NO_SUCH_SEGMENT
  The value of the property has no such segment.
  Read it from segment 1 on, as long as there are more.
0x89ED PROPERTY_ALREADY_EXISTS
  The object has a property of this name.
  Use it, or delete it first.
0x89EE OBJECT_ALREADY_EXISTS
  An object of this name and type exists.
  Use it, or choose another name.
0x89EF ILLEGAL_NAME
  Names are 1 to 47 printable ASCII characters without blanks and any of / \\ : ; , * ?
  Choose another name; those of properties have 1 to 15 characters.
0x89F0 WILD_CARD_NOT_ALLOWED
  Wildcards are for scans only.
  Name the object or property exactly.
0x89F1 INVALID_BINDERY_SECURITY
  There are the levels 0 to 4, and a caller cannot give more than it has.
  Give levels that exist and are yours, such as 0x31.
0x89F2 NO_OBJECT_READ_PRIVILEGE
  The caller may not see this object.
  Log in first, or ask a supervisor.
0x89F3 NO_OBJECT_RENAME_PRIVILEGE
  The caller may not rename this object.
  Ask a supervisor; users keep their names.
0x89F4 NO_OBJECT_DELETE_PRIVILEGE
  The caller may not delete this object.
  Ask a supervisor; some objects always exist.
0x89F5 NO_OBJECT_CREATE_PRIVILEGE
  Only supervisors create objects and change what protects them.
  Ask a supervisor.
0x89F6 NO_PROPERTY_DELETE_PRIVILEGE
  The caller may not delete this property or change what protects it.
  Ask a supervisor.
0x89F7 NO_PROPERTY_CREATE_PRIVILEGE
  The caller may not give this object properties.
  Ask a supervisor.
0x89F8 NO_PROPERTY_WRITE_PRIVILEGE
  The caller may not change this property.
  Ask a supervisor.
0x89F9 NO_PROPERTY_READ_PRIVILEGE
  The caller may not read this property.
  Log in first, or ask a supervisor.
0x89FB NO_SUCH_PROPERTY
  The object has no such property, or the request is not supported.
  Scan the properties of the object; see docs/qms.md for what is supported.
0x89FC NO_SUCH_OBJECT
  No object of this name and type exists, or the scan is at its end.
  List the objects with `posthouse bindery object list`.
0x89FE SERVER_BINDERY_LOCKED
  The bindery is closed at the moment.
  Try again later.
0x89FF FAILURE
  The call failed; after a login: the password is wrong.
  Check the password, or look into the log of the queue manager.
"""
