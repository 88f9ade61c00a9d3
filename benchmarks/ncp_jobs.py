"""Jobs over NCP, for the rows of `qms`: submitted, taken and finished by this many connections.

A submit is three requests: create, write, start. Each connection has one request under way, as the
protocol has it; several of them share the syncs of the log.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from threading import Thread
from typing import NamedTuple

from posthouse.client.ncp.calls import NcpCalls
from posthouse.client.ncp.link import Transport
from posthouse.model.bindery import NWOT_JOB_SERVER, NWOT_USER
from posthouse.model.qms import NWQueueJobStruct

HOST = "127.0.0.1"


class NcpRates(NamedTuple):
    """Jobs per second."""

    submits: float
    services: float
    finishes: float


class Login(NamedTuple):
    """Who works: an object of the bindery with its password."""

    name: str
    password: str


def ncp_rates(
    port: int,
    queue: int,
    submitter: Login,
    server: Login,
    *,
    count: int,
    clients: int = 1,
    transport: Transport = "tcp",
    size: int = 1024,
) -> NcpRates:
    """Submits `count` jobs of `size` bytes, then services all, then finishes all.

    The submitter has to be in Q_USERS of the queue, the server (a job server) in Q_SERVERS; the
    queue needs room for `count` jobs (`[qms] jobs_max`).
    """
    share, data = count // clients, bytes(size)
    with ExitStack() as running:
        submitters = _connected(running, port, submitter, NWOT_USER, clients, transport)
        servers = _connected(running, port, server, NWOT_JOB_SERVER, clients, transport)
        for each in servers:
            each.attach_queue_server_to_queue(queue)
        taken: list[list[int]] = [[] for _ in servers]

        def submit(at: int) -> None:
            for _ in range(share):
                job = submitters[at].create_queue_file(queue, NWQueueJobStruct())
                submitters[at].write_file(job.job_file_handle, 0, data)
                submitters[at].close_file_and_start_queue_job(queue, job.job_number)

        def service(at: int) -> None:
            for _ in range(share):
                taken[at].append(servers[at].service_queue_job(queue).job_number)

        def finish(at: int) -> None:
            for number in taken[at]:
                servers[at].finish_servicing_queue_job(queue, number)

        done = clients * share
        return NcpRates(*(done / _timed(step, clients) for step in (submit, service, finish)))


def _connected(
    running: ExitStack, port: int, who: Login, kind: int, clients: int, transport: Transport
) -> Sequence[NcpCalls]:
    made = []
    for _ in range(clients):
        calls = running.enter_context(NcpCalls.connect(HOST, port, transport=transport))
        calls.login(who.name, kind, who.password)
        made.append(calls)
    return made


def _timed(step: Callable[[int], None], clients: int) -> float:
    """Seconds that all connections together took for a step."""
    failures: list[BaseException] = []

    def run(at: int) -> None:
        try:
            step(at)
        except BaseException as error:
            failures.append(error)

    threads = [Thread(target=run, args=(at,)) for at in range(clients)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begun
    if failures:
        raise failures[0]
    return seconds
