"""The listeners for messages over HTTP and HTTPS, and their certificates."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

from posthouse.protocols.srmp.server import SrmpNode, SrmpServer
from posthouse.runtime.ports import port_of
from posthouse.runtime.serve import DoorAddress, NotStarted, Service, event_writer

_VERIFICATION = {
    "none": ssl.CERT_NONE,
    "optional": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


def srmp_node(service: Service) -> SrmpNode | None:
    """SRMP, where there is a listener for it: without one no receipt would come back."""
    if not _has_http(service) and not service.settings.https.certificate:
        return None
    node = SrmpNode(
        service.desk,
        service.settings.srmp,
        memory=service.memory,
        connections=service.connections(),
        trust=trust_context(service),
    )
    node.protocol.on_event = event_writer(service.log)
    node.turns = service.desk
    return node


def _has_http(service: Service) -> bool:
    """[MS-MQDMPR] 3.1.1.1: a hardened machine takes messages over HTTPS only."""
    return service.settings.http.enabled and not service.settings.queue_manager.hardened


def srmp_doors(service: Service, node: SrmpNode, told: Callable[[int], None]) -> list[DoorAddress]:
    """The endpoints `http` and `https`; `told` is called with their ports before anything is
    sent.
    """
    http, https = service.settings.http, service.settings.https
    places = []
    if _has_http(service):
        port = port_of("http", service.ports) if http.port is None else http.port
        places.append(DoorAddress(SrmpServer(node, None, told), service.host, port))
    if https.certificate:
        port = port_of("https", service.ports) if https.port is None else https.port
        context = server_context(service)
        places.append(DoorAddress(SrmpServer(node, context, told), service.host, port))
    return places


def server_context(service: Service) -> ssl.SSLContext:
    """TLS of the endpoint `https`; paths are relative to the home."""
    section, home = service.settings.https, service.home
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load("[https] certificate", context, home / section.certificate, home / section.private_key)
    if section.client_authorities:
        _trust("[https] client_authorities", context, home / section.client_authorities)
    context.verify_mode = _VERIFICATION[section.client_verification]
    return context


def trust_context(service: Service) -> ssl.SSLContext:
    """TLS of connections to others; by default their certificates are checked."""
    section, home = service.settings.srmp, service.home
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if section.authorities:
        _trust("[srmp] authorities", context, home / section.authorities)
    if section.client_certificate:
        files = home / section.client_certificate, home / section.client_key
        _load("[srmp] client_certificate", context, *files)
    if not section.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _load(setting: str, context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    try:
        context.load_cert_chain(certificate, key)
    except OSError as error:  # ssl.SSLError is one
        raise NotStarted(f"{setting} cannot be used: {error}") from None


def _trust(setting: str, context: ssl.SSLContext, authorities: Path) -> None:
    try:
        context.load_verify_locations(authorities)
    except OSError as error:
        raise NotStarted(f"{setting} cannot be used: {error}") from None
