"""A cable between two interfaces that loses packets and records the others. Standard library only.

    python3 lossy_cable.py LEFT RIGHT LOSS SEED FILE

Carries frames between both interfaces, loses IP packets of PGM and UDP with this probability, and
writes what it carries to a pcap file. It says `ready`, and runs until it is ended.
"""

import select
import socket
import struct
import sys
from random import Random

ETH_P_ALL = 3
MAGIC, ETHERNET = 0xA1B2C3D4, 1
IPV4, UDP, PGM = b"\x08\x00", 17, 113
OUTGOING = 4  # PACKET_OUTGOING: what we have put on the wire ourselves
FRAME_MAX = 65_536


def opened(interface: str) -> socket.socket:
    found = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    found.bind((interface, 0))
    return found


def protocol_of(frame: bytes) -> int:
    return frame[23] if frame[12:14] == IPV4 else 0


def settled(frame: bytes) -> bytes:
    """The system leaves checksums of UDP to the hardware, and there is none: they are optional."""
    if protocol_of(frame) != UDP:
        return frame
    at = 14 + (frame[14] & 0x0F) * 4 + 6
    return frame[:at] + b"\0\0" + frame[at + 2 :]


def main() -> None:
    left, right, loss, seed, file = sys.argv[1:]
    random, chance = Random(int(seed)), float(loss)
    ends = [opened(left), opened(right)]
    with open(file, "wb", buffering=0) as record:
        record.write(struct.pack("<IHHiIII", MAGIC, 2, 4, 0, 0, FRAME_MAX, ETHERNET))
        print("ready", flush=True)
        number = 0
        while True:
            for end in select.select(ends, [], [])[0]:
                frame, address = end.recvfrom(FRAME_MAX)
                if address[2] == OUTGOING:
                    continue
                if protocol_of(frame) in (UDP, PGM) and random.random() < chance:
                    continue
                frame = settled(frame)
                ends[end is ends[0]].send(frame)
                number += 1
                record.write(struct.pack("<IIII", number, 0, len(frame), len(frame)) + frame)


if __name__ == "__main__":
    main()
