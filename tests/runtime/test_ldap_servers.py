"""Directory servers of a domain, asked from a real name service."""

from __future__ import annotations

import socketserver
import threading

import dns.message
import dns.rcode
import dns.resolver
import dns.rrset
import pytest

from posthouse.directory.authority import AuthorityAway
from posthouse.directory.ldap.settings import LdapSettings, Server
from posthouse.runtime.ldap.connection import LdapConnection, looked_up

RECORDS = {
    "_ldap._tcp.example.test.": ("20 0 389 late.example.test.", "10 5 3389 DC1.example.test."),
    "_ldap._tcp.dc._msdcs.corp.test.": ("0 0 389 dc.corp.test.",),
    "_ldap._tcp.corp.test.": ("0 0 389 another.corp.test.",),
    "_ldap._tcp.forged.test.": (
        "0 0 389 evil.test.",
        "1 0 389 notforged.test.",
        "2 0 389 .",
    ),
}


class _Answers(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        data, socket = self.request
        question = dns.message.from_wire(data)
        answer = dns.message.make_response(question)
        name = question.question[0].name
        if rows := RECORDS.get(str(name)):
            answer.answer.append(dns.rrset.from_text(name, 60, "IN", "SRV", *rows))
        else:
            answer.set_rcode(dns.rcode.NXDOMAIN)
        socket.sendto(answer.to_wire(), self.client_address)


@pytest.mark.spec("MS-MQDMPR 3.1.3/5")
def test_a_connection_without_an_address_asks_the_name_service(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socketserver.ThreadingUDPServer(("127.0.0.1", 0), _Answers) as names:
        thread = threading.Thread(target=names.serve_forever)
        thread.start()
        resolver = dns.resolver.Resolver(configure=False)
        resolver.nameservers = ["127.0.0.1"]
        resolver.port = names.server_address[1]
        monkeypatch.setattr(dns.resolver, "Resolver", lambda: resolver)  # that of the machine
        connection = LdapConnection(LdapSettings(domain="corp.test", connect_s=1))
        with pytest.raises(AuthorityAway, match=r"dc\.corp\.test:389: "):
            connection.opened()
        connection = LdapConnection(LdapSettings(domain="other.test", connect_s=1))
        with pytest.raises(AuthorityAway, match="there is no directory server to ask"):
            connection.opened()
        names.shutdown()
        thread.join()


@pytest.mark.spec("MS-MQDMPR 3.1.3/5")
def test_servers_of_a_domain_are_looked_up() -> None:
    with socketserver.ThreadingUDPServer(("127.0.0.1", 0), _Answers) as names:
        thread = threading.Thread(target=names.serve_forever)
        thread.start()
        resolver = dns.resolver.Resolver(configure=False)
        resolver.nameservers = ["127.0.0.1"]
        resolver.port = names.server_address[1]
        found = looked_up("example.test", resolver)
        controllers = looked_up("corp.test", resolver)
        missing = looked_up("other.test", resolver)
        forged = looked_up("Forged.test.", resolver)
        names.shutdown()
        thread.join()
    assert found == [
        Server("ldap", "dc1.example.test", 3389),
        Server("ldap", "late.example.test", 389),
    ]
    assert controllers == [Server("ldap", "dc.corp.test", 389)]
    assert (missing, forged, looked_up("")) == ([], [], [])
