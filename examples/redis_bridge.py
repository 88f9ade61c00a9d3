"""Bridges a foreign site to streams of Redis, both ways (docs/connector.md).

`out` hands what is sent to queues of the foreign system to streams of the same names, each message
once: the same script of Redis that adds an entry remembers the key of the message, so one that
comes again after somebody was killed adds nothing. `in` sends every entry of a stream to a
transactional queue, each once as well: how far it has come is kept with the messages.

python examples/redis_bridge.py out --site Streams --redis redis://127.0.0.1:6379
python examples/redis_bridge.py in --stream results './private$/results' --redis redis://127.0.0.1:6379
"""

import argparse
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import redis

import posthouse
from posthouse.connector import Connector, Incoming, Inlet, Parcel, Refused

CONNECTOR_TYPE = "5f0c9c3e-6f27-4a39-9c1b-2f6d1f0f7f11"  # which connector this is; one of your own
REMEMBERED_S = 7 * 24 * 3600  # longer than any message is tried again
BATCH = 100
QUEUES_MAX = 100_000
LABEL_MAX = 249  # UTF-16 units of a message's label
WAIT_MS = 500
PAUSE_S = 0.5

# Redis takes nothing back of a script that fails: what can fail, adding, comes before remembering.
ADD_ONCE = """
if redis.call('EXISTS', KEYS[2]) == 1 then
    return false
end
local id = redis.call('XADD', KEYS[1], '*', unpack(ARGV, 2))
redis.call('SET', KEYS[2], id, 'EX', ARGV[1])
return id
"""


def streams_of(manager: posthouse.QueueManagerClient) -> dict[str, str]:
    """By format name, the queues of the directory under the names that streams get."""
    found = manager.find_queues(limit=QUEUES_MAX)  # one that is not found is refused
    return {queue.format_name: queue.path.rpartition("\\")[2] for queue in found}


def outlet(manager: posthouse.QueueManagerClient, store: Any) -> Callable[[Parcel], None]:
    """What is done with each message for the foreign system."""
    add_once, names = store.register_script(ADD_ONCE), streams_of(manager)

    def hand_over(parcel: Parcel) -> None:
        if parcel.destination not in names:
            names.update(streams_of(manager))
        stream = names.get(parcel.destination)
        if stream is None:
            raise Refused("bad-dest-queue")
        message = parcel.message
        fields = {"id": message.id, "label": message.label, "body": message.body}
        pairs = [part for pair in fields.items() for part in pair]
        add_once(keys=[stream, f"posthouse:{parcel.key}"], args=[REMEMBERED_S, *pairs])

    return hand_over


def run_out(manager: posthouse.QueueManagerClient, store: Any, site: str) -> None:
    """From connector queues into streams, until it is stopped."""
    with Connector(manager, site) as connector:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: connector.stop())
        print("ready", flush=True)
        connector.run(
            outlet(manager, store), on_trouble=lambda trouble: print(trouble, file=sys.stderr)
        )


def label_of(fields: dict[bytes, bytes]) -> str:
    """The label of an entry, made valid: one that cannot be sent would block all later entries."""
    text = fields.get(b"label", b"").decode(errors="replace").replace("\0", " ")
    return text.encode("utf-16-le")[: 2 * LABEL_MAX].decode("utf-16-le", "ignore")


def run_in(manager: posthouse.QueueManagerClient, store: Any, stream: str, queue: str) -> None:
    """From a stream into a queue, until it is stopped."""
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    inlet = Inlet(manager, f".\\private$\\from-{stream}", connector_type=CONNECTOR_TYPE)
    print("ready", flush=True)
    while not stopped.is_set():
        try:
            found = store.xread({stream: inlet.position or "0"}, count=BATCH, block=WAIT_MS)
        except redis.RedisError as trouble:  # away, silent, loading: it is read on afterwards
            print(trouble, file=sys.stderr)
            stopped.wait(PAUSE_S)
            continue
        for _, entries in found or ():
            incoming = [
                Incoming(queue, fields.get(b"body", b""), label=label_of(fields))
                for _, fields in entries
            ]
            inlet.bring(incoming, entries[-1][0].decode())


def main() -> None:
    parser = argparse.ArgumentParser(description="A bridge to streams of Redis.")
    ways = parser.add_subparsers(dest="way", required=True)
    out, back = ways.add_parser("out"), ways.add_parser("in")
    out.add_argument("--site", required=True, help="the foreign site whose systems are streams")
    back.add_argument("--stream", nargs=2, required=True, metavar=("STREAM", "QUEUE"))
    for way in (out, back):
        way.add_argument("--redis", default="redis://127.0.0.1:6379")
        way.add_argument("--home", help="of the queue manager, if it is on this computer")
        way.add_argument("--url", help="of its admin endpoint otherwise, with --token-file")
        way.add_argument("--token-file")
    given = parser.parse_args()
    store = redis.Redis.from_url(given.redis)
    access = {"home": given.home, "url": given.url, "token_file": given.token_file}
    with posthouse.connect(**{name: value for name, value in access.items() if value}) as manager:
        if given.way == "out":
            run_out(manager, store, given.site)
        else:
            run_in(manager, store, *given.stream)


if __name__ == "__main__":
    main()
