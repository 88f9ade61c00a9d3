"""The listeners that `posthouse serve` opens: one line each."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from posthouse.protocols.binary.server import BinaryNode, BinaryServer, PingServer
from posthouse.protocols.http.server import Admin, AdminServer, ControlSocket
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
from posthouse.protocols.sessions.handles import SessionLimits
from posthouse.rpc.kerberos import KerberosMissing, KerberosService
from posthouse.rpc.ntlm import ServerNames
from posthouse.runtime.backup import backup
from posthouse.runtime.ports import port_of
from posthouse.runtime.process_metrics import process_metrics
from posthouse.runtime.serve import NotStarted, Place, Service, event_writer, place_of
from posthouse.runtime.srmp_doors import srmp_doors, srmp_node


def standard_doors(service: Service) -> list[Place]:
    """Every listener that the settings ask for; a protocol that is switched off has none."""
    section = service.settings.admin
    node, reads, ncp = binary_node(service), remote_read_node(service), ncp_node(service)
    srmp, pgm = srmp_node(service), pgm_node(service)
    for protocol in [each.protocol for each in (node, srmp, pgm) if each is not None]:
        _tell_active(service, protocol.active)
    more: list[AskMetrics] = [lambda: memory_metrics(service.memory)]
    more += [] if ncp is None else [_ncp_metrics(ncp)]
    more += [] if srmp is None else [lambda: srmp_metrics(srmp.protocol.figures())]
    more += [] if pgm is None else [lambda: pgm_metrics(pgm.protocol.figures())]
    admin = make_admin(service, node, reads, more)
    places = [Place(ControlSocket(admin, service.local_connections()), str(service.home), 0)]
    if section.enabled:
        port = port_of("admin", service.ports) if section.port is None else section.port
        door = AdminServer(
            admin, service.connections(), tls_context(service), _port_forbidder(service)
        )
        places.append(Place(door, section.listen, port))
    places += [] if node is None else binary_doors(service, node)
    places += [] if srmp is None else srmp_doors(service, srmp, _port_teller(service))
    places += [] if pgm is None else [pgm_door(service, pgm)]
    places += [] if reads is None else remote_read_doors(service, reads)
    return places + ([] if ncp is None else [ncp_door(service, ncp)])


def _tell_active(service: Service, active: Callable[[set[int]], None]) -> None:
    """Each protocol hears of every outgoing queue that has changed, and knows its own."""
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


def binary_doors(service: Service, node: BinaryNode) -> list[Place]:
    """The listener of the binary protocol and its ping port."""
    section, ping = service.settings.binary, service.settings.ping
    port = port_of("binary", service.ports) if section.port is None else section.port
    places = [Place(BinaryServer(node, _port_teller(service)), service.host, port)]
    if ping.answer:
        port = port_of("ping", service.ports) if ping.port is None else ping.port
        places.append(Place(PingServer(node), service.host, port))
    return places


def remote_read_node(service: Service) -> RemoteReadNode | None:
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
        kerberos=kerberos_service(service),
    )
    node.remote.logins.told = _login_writer(service, "rpc")
    if section.management:
        _add_management(service, node)
    return node


def _add_management(service: Service, node: RemoteReadNode) -> None:
    """[MS-MQMR] on the port and with the logins of remote read."""
    management = Management(
        service.desk,
        node.remote.logins,
        service.settings.rpc.minimum_level,
        service.version,
        service.started.store.tidy_thoroughly,
    )
    node.add(management.interface, ANNOTATION, management.calls)


def kerberos_service(service: Service) -> KerberosService | None:
    """Kerberos with the key table of the settings; its path is relative to the home."""
    keytab = service.settings.rpc.keytab
    if not keytab:
        return None
    try:
        return KerberosService(str(service.home / keytab))
    except KerberosMissing as error:
        raise NotStarted(f"[rpc] keytab cannot be used: {error}") from None


def remote_read_doors(service: Service, node: RemoteReadNode) -> list[Place]:
    """The listener of remote read and the endpoint mapper that leads to it."""
    section, epm = service.settings.rpc, service.settings.epm
    port = port_of("rpc", service.ports) if section.port is None else section.port
    door = RemoteReadServer(node, service.connections(), step=section.port is None)
    places = [Place(door, service.host, port)]
    if epm.enabled is not False:
        port = port_of("epm", service.ports) if epm.port is None else epm.port
        missed = None if epm.enabled else _mapper_misser(service)
        mapper = EndpointMapperServer(node, service.connections(), missed)
        places.append(Place(mapper, service.host, port))
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


def ncp_door(service: Service, node: NcpNode) -> Place:
    """Its listener: on the loopback until the settings have another address (decision 13)."""
    section = service.settings.ncp
    port = port_of("ncp", service.ports) if section.port is None else section.port
    return Place(NcpServer(node), section.listen, port)


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


def _login_writer(service: Service, door: str) -> Callable[[str, str, str], None]:
    def write(user: str, address: str, cause: str) -> None:
        service.log.warning("login_refused", door=door, user=user, address=address, cause=cause)

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
) -> Admin:
    """What the admin endpoint and the control socket share."""
    section = service.settings.admin
    return Admin(
        service.desk,
        version=service.version,
        settings=section,
        limits=service.settings.limits,
        qms=service.settings.qms,
        sync_times=service.desk.sync_times,
        backup=_backup_of(service),
        fault=_fault_writer(service),
        healthy=lambda: service.desk.failure is None,
        login_refused=_login_writer(service, "http"),
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
    )


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


def tls_context(service: Service) -> ssl.SSLContext | None:
    """TLS with the certificate of the settings; paths are relative to the home."""
    section = service.settings.admin
    if not section.certificate:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(
            service.home / section.certificate, service.home / section.private_key
        )
    except OSError as error:  # ssl.SSLError is one
        raise NotStarted(f"the certificate of [admin] cannot be used: {error}") from None
    return context


def pgm_node(service: Service) -> PgmNode | None:
    """PGM; [MS-MQDMPR] 3.1.1.1: a hardened machine has none."""
    section = service.settings.pgm
    if not section.enabled or service.settings.queue_manager.hardened:
        return None
    interface = section.interface or service.host
    node = PgmNode(service.desk, section, interface=interface)
    node.protocol.on_event = event_writer(service.log)
    return node


def pgm_door(service: Service, node: PgmNode) -> Place:
    """It joins groups when it starts; there is nothing to connect to."""
    return Place(node, service.host, 0)
