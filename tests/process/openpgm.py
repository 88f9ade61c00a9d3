"""OpenPGM as a program: sends or receives application data units over PGM. Standard library only.

    python3 openpgm.py send|receive INTERFACE GROUP PORT raw|udp SECONDS [COUNT]

`send` takes lines of hexadecimal digits and sends each as a unit; then it repairs until the time is
up. `receive` prints each unit as such a line, and ends after COUNT of them.
"""

import ctypes
import os
import sys
import time
from ctypes import POINTER, byref, c_bool, c_char, c_int, c_size_t, c_uint16, c_uint32, c_void_p
from ctypes.util import find_library

LEVEL = 113  # IPPROTO_PGM
IPPROTO_UDP = 17
AF_INET = 2
SOCK_SEQPACKET = 5
MSG_DONTWAIT = 0x40
ERROR, NORMAL, RESET = 0, 1, 2
STORAGE_SIZE = 128
OPTIONS = (
    *("SEND_SOCK", "RECV_SOCK", "REPAIR_SOCK", "PENDING_SOCK", "ACK_SOCK", "TIME_REMAIN"),
    *("RATE_REMAIN", "IP_ROUTER_ALERT", "MTU", "MSSS", "MSS", "PDU", "MULTICAST_LOOP"),
    *("MULTICAST_HOPS", "TOS", "AMBIENT_SPM", "HEARTBEAT_SPM", "TXW_BYTES", "TXW_SQNS"),
    *("TXW_SECS", "TXW_MAX_RTE", "PEER_EXPIRY", "SPMR_EXPIRY", "RXW_BYTES", "RXW_SQNS"),
    *("RXW_SECS", "RXW_MAX_RTE", "NAK_BO_IVL", "NAK_RPT_IVL", "NAK_RDATA_IVL"),
    *("NAK_DATA_RETRIES", "NAK_NCF_RETRIES", "USE_FEC", "USE_CR", "USE_PGMCC", "SEND_ONLY"),
    *("RECV_ONLY", "PASSIVE", "ABORT_ON_RESET", "NOBLOCK", "SEND_GROUP", "JOIN_GROUP"),
    *("LEAVE_GROUP", "BLOCK_SOURCE", "UNBLOCK_SOURCE", "JOIN_SOURCE_GROUP"),
    *("LEAVE_SOURCE_GROUP", "MSFILTER", "UDP_ENCAP_UCAST_PORT", "UDP_ENCAP_MCAST_PORT"),
)
CODES = {name: 0x2000 + at for at, name in enumerate(OPTIONS)}
MS = 1000  # in microseconds


class GroupSource(ctypes.Structure):
    """struct pgm_group_source_req."""

    _fields_ = [
        ("interface", c_uint32),
        ("padding", c_uint32),
        ("group", c_char * STORAGE_SIZE),
        ("source", c_char * STORAGE_SIZE),
        ("address", c_char * STORAGE_SIZE),
    ]


class Addresses(ctypes.Structure):
    """struct pgm_addrinfo_t."""

    _fields_ = [
        ("family", c_uint16),
        ("receive_count", c_uint32),
        ("receive", POINTER(GroupSource)),
        ("send_count", c_uint32),
        ("send", POINTER(GroupSource)),
    ]


class SessionAddress(ctypes.Structure):
    """struct pgm_sockaddr_t."""

    _fields_ = [("port", c_uint16), ("gsi", c_char * 6), ("source_port", c_uint16)]


class Interface(ctypes.Structure):
    """struct pgm_interface_req_t."""

    _fields_ = [("interface", c_uint32), ("scope", c_uint32), ("address", c_char * STORAGE_SIZE)]


class Failure(ctypes.Structure):
    """struct pgm_error_t."""

    _fields_ = [("domain", c_int), ("code", c_int), ("message", ctypes.c_char_p)]


class OpenPgm:
    """A socket of OpenPGM."""

    def __init__(self, interface: str, group: str, port: int, udp: bool, sending: bool) -> None:
        self.library = ctypes.CDLL(find_library("pgm-5.3") or "libpgm-5.3.so.0")
        self.error = POINTER(Failure)()
        self.socket = c_void_p()
        self._check("pgm_init", byref(self.error))
        found = POINTER(Addresses)()
        where = f"{interface};{group}".encode()
        self._check("pgm_getaddrinfo", where, None, byref(found), byref(self.error))
        protocol = IPPROTO_UDP if udp else LEVEL
        arguments = AF_INET, SOCK_SEQPACKET, protocol, byref(self.error)
        self._check("pgm_socket", byref(self.socket), *arguments)
        if udp:
            self.set("UDP_ENCAP_UCAST_PORT", 3055)
            self.set("UDP_ENCAP_MCAST_PORT", 3056)
        self._set_role(sending)
        self.set("MTU", 1_500)
        self.set("IP_ROUTER_ALERT", 0 if udp else 1)
        self._bind(found.contents, port)
        for name, one in (
            ("JOIN_GROUP", found.contents.receive),
            ("SEND_GROUP", found.contents.send),
        ):
            self._check_option(name, one, 264 + STORAGE_SIZE)
        self.set("MULTICAST_LOOP", 0)
        self.set("MULTICAST_HOPS", 4)
        self.set("NOBLOCK", 1)
        self._check("pgm_connect", self.socket, byref(self.error))

    def _set_role(self, sending: bool) -> None:
        if sending:
            self.set("SEND_ONLY", 1)
            self.set("TXW_SQNS", 4_000)
            self.set("TXW_MAX_RTE", 400_000)
            self.set("AMBIENT_SPM", 500 * MS)
            beats = (c_int * 4)(*(ms * MS for ms in (100, 200, 500, 1_000)))
            self._check_option("HEARTBEAT_SPM", beats, ctypes.sizeof(beats))
            return
        self.set("RECV_ONLY", 1)
        self.set("PASSIVE", 0)
        self.set("RXW_SQNS", 4_000)
        self.set("PEER_EXPIRY", 300_000 * MS)
        self.set("SPMR_EXPIRY", 250 * MS)
        self.set("NAK_BO_IVL", 50 * MS)
        self.set("NAK_RPT_IVL", 750 * MS)
        self.set("NAK_RDATA_IVL", 2_000 * MS)
        self.set("NAK_DATA_RETRIES", 10)
        self.set("NAK_NCF_RETRIES", 10)

    def _bind(self, found: Addresses, port: int) -> None:
        address = SessionAddress(port, os.urandom(6).replace(b"\0", b"x"), 0)
        here = Interface(found.receive[0].interface, 0)
        ctypes.memmove(
            ctypes.addressof(here) + 8, ctypes.addressof(found.send[0]) + 264, STORAGE_SIZE
        )
        size = ctypes.sizeof(here)
        self._check(
            "pgm_bind3",
            self.socket,
            byref(address),
            ctypes.sizeof(address),
            *(byref(here), size, byref(here), size),
            byref(self.error),
        )

    def _check(self, name: str, *arguments: object) -> None:
        function = getattr(self.library, name)
        function.restype = c_bool
        if not function(*arguments):
            words = self.error.contents.message if self.error else b""
            raise OSError(f"{name}: {(words or b'').decode()}")

    def set(self, name: str, value: int) -> None:
        self._check_option(name, byref(c_int(value)), ctypes.sizeof(c_int))

    def _check_option(self, name: str, value: object, size: int) -> None:
        try:
            self._check("pgm_setsockopt", self.socket, LEVEL, CODES[name], value, size)
        except OSError as error:
            raise OSError(f"{name}: {error}") from None

    def receive(self) -> bytes | None:
        """The next unit; None: none now. Timers and NAKs are looked after on the way."""
        buffer, size = ctypes.create_string_buffer(65_536), c_size_t()
        status = self.library.pgm_recv(
            self.socket, buffer, len(buffer), MSG_DONTWAIT, byref(size), byref(self.error)
        )
        if status == RESET:
            raise OSError("lost for ever")
        if status == ERROR:
            raise OSError(self.error.contents.message if self.error else "pgm_recv failed")
        return buffer.raw[: size.value] if status == NORMAL else None

    def send(self, unit: bytes) -> None:
        """Sends a unit as soon as the rate allows it."""
        size, written = c_size_t(len(unit)), c_size_t()
        while self.library.pgm_send(self.socket, unit, size, byref(written)) != NORMAL:
            self.receive()
            time.sleep(0.001)


def main() -> None:
    role, interface, group, port, encapsulation, seconds, *count = sys.argv[1:]
    pgm = OpenPgm(interface, group, int(port), encapsulation == "udp", role == "send")
    print("ready", flush=True)
    until = time.monotonic() + float(seconds)
    if role == "send":
        for line in sys.stdin:
            pgm.send(bytes.fromhex(line))
        print("sent", flush=True)
    wanted = int(count[0]) if count else 1 << 30
    while time.monotonic() < until and wanted:
        unit = pgm.receive()
        if unit is None:
            time.sleep(0.002)
            continue
        print(unit.hex(), flush=True)
        wanted -= 1


if __name__ == "__main__":
    main()
