"""Capture files made by hand: frames of TCP and UDP in pcap and pcapng."""

from __future__ import annotations

import struct
from ipaddress import ip_address
from typing import NamedTuple

from posthouse.wire.capture.packets import Endpoint

CLIENT, SERVER = Endpoint("192.0.2.7", 50_000), Endpoint("192.0.2.1", 1801)
FIN, SYN, RST, ACK = 1, 2, 4, 16
LINKS = {
    "ethernet": (1, bytes(12)),
    "vlan": (1, bytes(12) + b"\x81\x00\x00\x07"),
    "two tags": (1, bytes(12) + b"\x88\xa8\x00\x07\x81\x00\x00\x08"),
    "cooked": (113, bytes(14)),
    "cooked 2": (276, b""),
    "loopback": (0, b""),
    "loop": (108, b""),
    "raw": (101, b""),
}


class TimedFrame(NamedTuple):
    at_us: int
    ip: bytes


def ip_packet(
    source: str, target: str, protocol: int, payload: bytes, *, fragment: tuple[int, int] = (0, 0)
) -> bytes:
    """An IP packet; `fragment` is the identification and the word of flags and offset."""
    here, there = ip_address(source), ip_address(target)
    if here.version == 4:
        size = 20 + len(payload)
        head = struct.pack(">BBHHHBBH", 0x45, 0, size, fragment[0], fragment[1], 64, protocol, 0)
        return head + here.packed + there.packed + payload
    if fragment[0]:
        word = (fragment[1] & 0x1FFF) << 3 | bool(fragment[1] & 0x2000)
        payload = struct.pack(">BBHI", protocol, 0, word, fragment[0]) + payload
        protocol = 44
    head = struct.pack(">IHBB", 6 << 28, len(payload), protocol, 64)
    return head + here.packed + there.packed + payload


def fragments(source: str, target: str, protocol: int, payload: bytes, size: int) -> list[bytes]:
    """The same in fragments of this size, which is a multiple of 8."""
    parts = [payload[at : at + size] for at in range(0, len(payload), size)]
    return [
        ip_packet(
            source,
            target,
            protocol,
            part,
            fragment=(77, number * size // 8 | (0x2000 if number < len(parts) - 1 else 0)),
        )
        for number, part in enumerate(parts)
    ]


def segment(
    source: Endpoint, target: Endpoint, number: int, data: bytes = b"", flags: int = ACK
) -> bytes:
    """A TCP segment in its IP packet."""
    head = struct.pack(
        ">HHIIBBHHH", source.port, target.port, number % 2**32, 0, 0x50, flags, 8192, 0, 0
    )
    return ip_packet(source.address, target.address, 6, head + data)


def datagram(source: Endpoint, target: Endpoint, data: bytes) -> bytes:
    """A UDP datagram in its IP packet."""
    head = struct.pack(">HHHH", source.port, target.port, 8 + len(data), 0)
    return ip_packet(source.address, target.address, 17, head + data)


def conversation(
    *parts: tuple[bool, bytes],
    client: Endpoint = CLIENT,
    server: Endpoint = SERVER,
    start: int = 4_294_967_000,
    size: int = 1_000_000,
) -> list[bytes]:
    """Segments of a whole connection: (of the client, bytes); numbers wrap around soon."""
    numbers = {True: start, False: start // 2}
    ends = {True: (client, server), False: (server, client)}
    frames = [
        segment(*ends[True], numbers[True] - 1, flags=SYN),
        segment(*ends[False], numbers[False] - 1, flags=SYN | ACK),
    ]
    for of_client, data in parts:
        for at in range(0, len(data), size):
            frames.append(segment(*ends[of_client], numbers[of_client], data[at : at + size]))
            numbers[of_client] += len(data[at : at + size])
    frames += [segment(*ends[way], numbers[way], flags=FIN | ACK) for way in (True, False)]
    return frames


def timed(packets: list[bytes], step_us: int = 1000) -> list[TimedFrame]:
    begin = 1_700_000_000_000_000
    return [TimedFrame(begin + step_us * at, packet) for at, packet in enumerate(packets)]


def on_link(link: str, ip: bytes, order: str = "<") -> bytes:
    """A frame around an IP packet."""
    version = ip[0] >> 4 if ip else 0
    kind, front = LINKS[link]
    ether = struct.pack(">H", 0x0800 if version == 4 else 0x86DD)
    if kind in (1, 113):
        return front + ether + ip
    if kind == 276:
        return ether + bytes(18) + ip
    if kind == 0:
        return struct.pack(f"{order}I", 2 if version == 4 else 30) + ip
    return (struct.pack(">I", 2 if version == 4 else 24) if kind == 108 else b"") + ip


def pcap(
    frames: list[TimedFrame], link: str = "raw", order: str = "<", *, nanoseconds: bool = False
) -> bytes:
    magic = 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    data = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 65535, LINKS[link][0])
    for at_us, ip in frames:
        frame = on_link(link, ip, order)
        rest = at_us % 1_000_000 * (1000 if nanoseconds else 1)
        data += struct.pack(f"{order}IIII", at_us // 1_000_000, rest, len(frame), len(frame))
        data += frame
    return data


def block(order: str, kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    size = struct.pack(f"{order}I", 12 + len(body))
    return struct.pack(f"{order}I", kind) + size + body + size


def pcapng(frames: list[TimedFrame], link: str = "raw", order: str = "<") -> bytes:
    """A section with blocks that nobody has to know, an interface in nanoseconds, and frames."""
    section = struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1)
    option = struct.pack(f"{order}HHBxxx", 9, 1, 9) + struct.pack(f"{order}HH", 0, 0)
    interface = struct.pack(f"{order}HHI", LINKS[link][0], 0, 65535) + option
    data = block(order, 0x0A0D0D0A, section) + block(order, 1, interface)
    data += block(order, 0x0BAD, b"unknown")
    for at_us, ip in frames:
        frame, stamp = on_link(link, ip, order), at_us * 1000
        head = struct.pack(
            f"{order}IIIII", 0, stamp >> 32, stamp & 0xFFFFFFFF, len(frame), len(frame)
        )
        data += block(order, 6, head + frame)
    return data
