"""A collector of OpenTelemetry for tests: takes OTLP over HTTP and keeps the spans."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


class Got(NamedTuple):
    """A span that came."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: int
    instance: str
    attributes: dict[str, Any]
    links: list[str]
    fault: str
    took_ns: int
    state: str

    @property
    def operation(self) -> str:
        return str(self.attributes["messaging.operation.name"])


class Collector:
    """Listens on the loopback; `answer` may make it slow or broken."""

    def __init__(self, answer: Callable[[], int] = lambda: 200) -> None:
        self.spans: list[Got] = []
        self.requests: list[dict[str, str]] = []  # their headers
        collector = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.requests.append({k.lower(): v for k, v in self.headers.items()})
                status = answer()
                if status == 200:
                    collector.take(gzip.decompress(body))
                content = ExportTraceServiceResponse().SerializeToString()
                self.send_response(status)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1/traces"

    def take(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            about = {one.key: one.value.string_value for one in resource.resource.attributes}
            for scope in resource.scope_spans:
                for span in scope.spans:
                    values = {
                        one.key: getattr(one.value, str(one.value.WhichOneof("value")))
                        for one in span.attributes
                    }
                    self.spans.append(
                        Got(
                            span.name,
                            span.trace_id.hex(),
                            span.span_id.hex(),
                            span.parent_span_id.hex(),
                            span.kind,
                            about["service.instance.id"],
                            values,
                            [link.trace_id.hex() for link in span.links],
                            span.status.message,
                            span.end_time_unix_nano - span.start_time_unix_nano,
                            span.trace_state,
                        )
                    )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
