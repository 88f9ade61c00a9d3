"""The listeners that `posthouse serve` opens: one line each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

from posthouse.protocols.binary.server import BinaryNode, BinaryServer, PingServer
from posthouse.protocols.handlers.audit_trail import Act, AuditTrail, NoTrail
from posthouse.protocols.http.door import Admin
from posthouse.protocols.http.query_runs import QueryRuns
from posthouse.protocols.http.server import AdminServer, ControlSocket
from posthouse.protocols.management.protocol import ANNOTATION, Management
from posthouse.protocols.metrics.exposition import AskMetrics
from posthouse.protocols.metrics.loop_turns import turn_metrics
from posthouse.protocols.metrics.memory import memory_metrics
from posthouse.protocols.metrics.ncp import ncp_metrics
from posthouse.protocols.metrics.pgm import pgm_metrics
from posthouse.protocols.metrics.srmp import srmp_metrics
from posthouse.protocols.ncp.server import NcpNode, NcpServer
from posthouse.protocols.pgm.server import PgmNode
from posthouse.protocols.remote_read.server import (
    EndpointMapperServer,
    RemoteReadNode,
    RemoteReadServer,
)
from posthouse.protocols.rpc_callers import Acted, RemoteAct
from posthouse.protocols.sessions.handles import SessionLimits
from posthouse.protocols.srmp.server import SrmpNode, SrmpServer
from posthouse.rpc.ntlm.authentication import ServerNames
from posthouse.runtime.audit.log import AuditLog
from posthouse.runtime.backup import backup
from posthouse.runtime.key_file import KeyFile
from posthouse.runtime.logs import place_of
from posthouse.runtime.peer_questions import PeerQuestions, parse_peers
from posthouse.runtime.ports import port_of
from posthouse.runtime.process_metrics import certificate_metrics, free_bytes, process_metrics
from posthouse.runtime.serve import DoorAddress, Service, event_writer
from posthouse.runtime.start_checks import (
    check_admin,
    open_keytab,
    span_exporter,
    winbind_library,
)
from posthouse.runtime.telemetry.tracing import (
    MessageTracing,
    TracingDoor,
    span_metrics,
)
from posthouse.runtime.tls_contexts import has_http, has_srmp
from posthouse.runtime.winbind import Winbind
from posthouse.runtime.winbind_logins import WinbindLogins

_AUDIT_TROUBLE = frozenset({"audit_not_written"})


def standard_doors(service: Service) -> list[DoorAddress]:
    """Every listener that the settings ask for; a protocol that is switched off has none."""
    section = service.settings.admin
    audit = _audit_log(service)
    node, reads = binary_node(service), remote_read_node(service, audit)
    # Stations of the API log in with the passwords of NCP, also where there is no such endpoint.
    service.desk.manager.bindery.report_refusals(_login_writer(service, audit, "ncp"))
    ncp = ncp_node(service)
    srmp, pgm = srmp_node(service), pgm_node(service)
    for protocol in [each.protocol for each in (node, srmp, pgm) if each is not None]:
        _tell_active(service, protocol.active)
    more: list[AskMetrics] = [lambda: memory_metrics(service.memory)]
    more += [] if ncp is None else [_ncp_metrics(ncp)]
    more += [] if srmp is None else [lambda: srmp_metrics(srmp.protocol.figures())]
    more += [] if pgm is None else [lambda: pgm_metrics(pgm.protocol.figures())]
    tracing = message_tracing(service)
    more.append(span_metrics if tracing is None else tracing.metrics)
    more.append(lambda: certificate_metrics(service.tls_files))
    admin = make_admin(service, node, reads, more, audit)
    places = [DoorAddress(ControlSocket(admin, service.local_connections()), str(service.home), 0)]
    if section.enabled:
        port = port_of("admin", service.ports) if section.port is None else section.port
        door = AdminServer(
            admin,
            service.connections(),
            service.tls_files.context("admin"),
            _port_forbidder(service),
        )
        service.tls_files.give("admin", door.use_tls)
        places.append(DoorAddress(door, section.listen, port))
    places += [] if node is None else binary_doors(service, node)
    places += [] if srmp is None else srmp_doors(service, srmp, _port_teller(service))
    places += [] if pgm is None else [pgm_door(service, pgm)]
    places += [] if reads is None else remote_read_doors(service, reads)
    places += [] if ncp is None else [ncp_door(service, ncp)]
    return places + ([] if tracing is None else [DoorAddress(TracingDoor(tracing), "", 0)])


def _tell_active(service: Service, active: Callable[[set[int]], None]) -> None:
    """Reports every outgoing queue that has changed to each protocol, which picks its own."""
    driver = service.started.driver
    others = driver.on_active

    def tell(queues: set[int]) -> None:
        others(queues)
        active(queues)

    driver.on_active = tell


def binary_node(service: Service) -> BinaryNode | None:
    """The binary protocol; [MS-MQDMPR] 3.1.1.1: a hardened machine has none."""
    section, ping = service.settings.binary, service.settings.ping
    if not section.enabled or service.settings.queue_manager.hardened:
        return None
    node = BinaryNode(
        service.desk,
        section,
        ping,
        memory=service.memory,
        connections=service.connections(),
    )
    node.protocol.on_event = event_writer(service.log)
    node.turns = service.desk
    return node


def binary_doors(service: Service, node: BinaryNode) -> list[DoorAddress]:
    """The listener of the binary protocol and its ping port."""
    section, ping = service.settings.binary, service.settings.ping
    port = port_of("binary", service.ports) if section.port is None else section.port
    places = [DoorAddress(BinaryServer(node, _port_teller(service)), service.host, port)]
    if ping.answer:
        port = port_of("ping", service.ports) if ping.port is None else ping.port
        places.append(DoorAddress(PingServer(node), service.host, port))
    return places


def remote_read_node(service: Service, audit: AuditTrail | None = None) -> RemoteReadNode | None:
    """Remote read; [MS-MQDMPR] 3.1.1.1: a hardened machine has none."""
    section, machine = service.settings.rpc, service.settings.queue_manager
    if not section.enabled or machine.hardened:
        return None
    domain = f"{service.name}.{machine.dns_domain}" if machine.dns_domain else ""
    node = RemoteReadNode(
        service.desk,
        section,
        ServerNames(service.name, domain),
        memory=service.memory,
        bug=_fault_writer(service),
        kerberos=open_keytab(section, service.home),
        domain=_domain_logins(service),
    )
    node.remote.logins.told = _login_writer(service, audit, "rpc")
    if node.domain is not None:
        service.desk.manager.machine.ask_for_domain_trouble(node.domain.look_at_trouble)
    acted = node.remote.acted = _remote_acts(audit or NoTrail())
    if section.management:
        _add_management(service, node, acted)
    return node


def _remote_acts(audit: AuditTrail) -> Acted:
    """Writes acts over RPC to the audit log."""

    def acted(act: RemoteAct, then: Callable[[], None]) -> None:
        name, about = f"rpc_{act.action}", {"object": act.object}
        entry = Act(act.user, "", "", act.address, name, about)
        outcome = "done" if act.error is None else "refused"
        audit.end(entry, outcome, "" if act.error is None else str(act.error)[:300], {}, then)

    return acted


def _add_management(service: Service, node: RemoteReadNode, acted: Acted) -> None:
    """[MS-MQMR] on the port and with the logins of remote read."""
    management = Management(
        service.desk,
        node.remote.logins,
        service.settings.rpc.minimum_level,
        service.version,
        service.started.store.tidy_thoroughly,
        acted,
    )
    node.add(management.interface, ANNOTATION, management.calls)


def _domain_logins(service: Service) -> WinbindLogins | None:
    section = service.settings.rpc
    library = winbind_library(section)
    if library is None:
        return None
    return WinbindLogins(lambda: Winbind(library), section.winbind_ms)


def remote_read_doors(service: Service, node: RemoteReadNode) -> list[DoorAddress]:
    """The listener of remote read and the endpoint mapper that leads to it."""
    section, epm = service.settings.rpc, service.settings.epm
    port = port_of("rpc", service.ports) if section.port is None else section.port
    door = RemoteReadServer(node, service.connections(), step=section.port is None)
    places = [DoorAddress(door, service.host, port)]
    if epm.enabled is not False:
        port = port_of("epm", service.ports) if epm.port is None else epm.port
        missed = None if epm.enabled else _mapper_misser(service)
        mapper = EndpointMapperServer(node, service.connections(), missed)
        places.append(DoorAddress(mapper, service.host, port))
    return places


def ncp_node(service: Service) -> NcpNode | None:
    """NetWare queue services."""
    section = service.settings.ncp
    if not section.enabled or service.settings.queue_manager.hardened:
        return None
    return NcpNode(
        service.desk,
        section,
        service.name,
        memory=service.memory,
        connections=service.connections(),
    )


def ncp_door(service: Service, node: NcpNode) -> DoorAddress:
    """Its listener: on the loopback until the settings have another address (decision 13)."""
    section = service.settings.ncp
    port = port_of("ncp", service.ports) if section.port is None else section.port
    return DoorAddress(NcpServer(node), section.listen, port)


def srmp_node(service: Service) -> SrmpNode | None:
    """SRMP, where there is a listener for it: without one no receipt would come back."""
    if not has_srmp(service.settings):
        return None
    node = SrmpNode(
        service.desk,
        service.settings.srmp,
        memory=service.memory,
        connections=service.connections(),
    )
    service.tls_files.give("srmp", node.use_trust)
    node.protocol.on_event = event_writer(service.log)
    node.turns = service.desk
    return node


def srmp_doors(service: Service, node: SrmpNode, told: Callable[[int], None]) -> list[DoorAddress]:
    """The endpoints `http` and `https`; `told` is called with their ports before anything is
    sent.
    """
    http, https = service.settings.http, service.settings.https
    places = []
    if has_http(service.settings):
        port = port_of("http", service.ports) if http.port is None else http.port
        places.append(DoorAddress(SrmpServer(node, None, told), service.host, port))
    if https.certificate:
        port = port_of("https", service.ports) if https.port is None else https.port
        door = SrmpServer(node, service.tls_files.context("https"), told)
        service.tls_files.give("https", door.use_tls)
        places.append(DoorAddress(door, service.host, port))
    return places


def _ncp_metrics(node: NcpNode) -> AskMetrics:
    return lambda: ncp_metrics(node.protocol.figures)


def _mapper_misser(service: Service) -> Callable[[str, OSError], None]:
    """A mapper that was not asked for is not a reason not to start."""

    def tell(where: str, error: OSError) -> None:
        service.log.warning(
            "epm_not_listening",
            where=where,
            cause=error.strerror or error,
            remedy="Clients that ask an endpoint mapper do not find this queue manager. Give the "
            "process CAP_NET_BIND_SERVICE, free the port, or set [epm] port; [epm] enabled = false "
            "states that none is wanted.",
        )

    return tell


def _login_writer(
    service: Service, audit: AuditTrail | None, door: str
) -> Callable[[str, str, str], None]:
    trail = audit or NoTrail()

    def write(user: str, address: str, cause: str) -> None:
        service.log.warning("login_refused", door=door, user=user, address=address, cause=cause)
        trail.sign_in_refused(door, user, address, cause)

    return write


def _port_teller(service: Service) -> Callable[[int], None]:
    """Names with the port that we listen on mean us (decision 41)."""

    def tell(port: int) -> None:
        service.desk.decide(lambda manager: manager.queues.add_own_port(port), lambda answer: None)

    return tell


def _port_forbidder(service: Service) -> Callable[[int], None]:
    """No message is ever redirected to our own admin port (decision 11)."""

    def tell(port: int) -> None:
        service.desk.decide(lambda manager: manager.transfer.forbid_port(port), lambda answer: None)

    return tell


def make_admin(
    service: Service,
    node: BinaryNode | None = None,
    reads: RemoteReadNode | None = None,
    more_metrics: Sequence[AskMetrics] = (),
    audit: AuditTrail | None = None,
) -> Admin:
    """What the admin endpoint and the control socket share."""
    section = service.settings.admin
    check_admin(section)
    keys = KeyFile(service.home, service.started.manager.accounts.sealed_records)
    admin = Admin(
        service.desk,
        version=service.version,
        settings=section,
        limits=service.settings.limits,
        qms=service.settings.qms,
        sync_times=service.desk.sync_times,
        backup=_backup_of(service),
        fault=_fault_writer(service),
        healthy=lambda: service.desk.failure is None,
        login_refused=_login_writer(service, audit, "http"),
        session_limits=SessionLimits(frame_size_max=section.body_size_max),
        memory=service.memory,
        binary=None if node is None else node.protocol.figures,
        remote_read=None if reads is None else reads.figures,
        more_metrics=[
            *more_metrics,
            lambda: turn_metrics(service.desk.turn_times),
            lambda: process_metrics(service.home, service.started.store),
        ],
        store=service.started.store,
        refresh=None if service.directory is None else service.directory.refresh,
        busy=lambda: service.desk.busy,
        turns=service.desk,
        audit=audit,
        log=service.log.recent,
        disk_free=lambda: free_bytes(service.home),
        problems=lambda: keys.problems() + service.tls_files.problems(),
        ask_peers=PeerQuestions(service.home, parse_peers(section.explain_peers)).ask,
    )
    if section.queries_max:
        lake = service.home / section.query_lake if section.query_lake else None
        admin.services.query = QueryRuns(admin, lake).run
    return admin


def _audit_log(service: Service) -> AuditLog:
    """The log of what operators do; the process ends when it is written, counts included."""

    def tell(event: str, details: dict[str, object]) -> None:
        (service.log.warning if event in _AUDIT_TROUBLE else service.log.info)(event, **details)

    settings = service.settings.audit
    loop = asyncio.get_running_loop()
    audit = AuditLog(service.home / settings.file, settings, loop.call_soon_threadsafe, tell)
    service.at_end.append(audit.close)
    return audit


def _backup_of(service: Service) -> Callable[[str], Awaitable[object]]:
    async def make(directory: str) -> object:
        service.log.info("backup_begins", directory=directory)
        made = await backup(
            service.desk, service.started.store, Path(directory).absolute(), service.home
        )
        service.log.info("backup_made", directory=directory, bytes=made.size)
        return made

    return make


def _fault_writer(service: Service) -> Callable[[Exception], None]:
    def write(error: Exception) -> None:
        kind = type(error).__name__
        service.log.error("internal_error", kind=kind, cause=error, where=place_of(error))

    return write


def message_tracing(service: Service) -> MessageTracing | None:
    """Traces of messages, where the settings name a collector."""
    settings, loop = service.settings.telemetry, asyncio.get_running_loop()
    exporter = span_exporter(service.settings, service.home, service.name, service.version)
    if exporter is None:
        return None

    def tell(why: str) -> None:
        service.log.warning("spans_not_taken", endpoint=settings.endpoint, why=why)

    def failed(why: str) -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(tell, why)

    return MessageTracing(service.started.driver, settings, exporter, failed)


def pgm_node(service: Service) -> PgmNode | None:
    """PGM; [MS-MQDMPR] 3.1.1.1: a hardened machine has none."""
    section = service.settings.pgm
    if not section.enabled or service.settings.queue_manager.hardened:
        return None
    interface = section.interface or service.host
    node = PgmNode(service.desk, section, interface=interface)
    node.protocol.on_event = event_writer(service.log)
    return node


def pgm_door(service: Service, node: PgmNode) -> DoorAddress:
    """It joins groups when it starts; there is nothing to connect to."""
    return DoorAddress(node, service.host, 0)
