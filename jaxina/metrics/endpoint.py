"""The HTTP endpoint that Prometheus scrapes. With TLS, it serves only callers with a certificate of the cluster."""

from __future__ import annotations

import logging
import socket
import socketserver
import ssl
import threading
import wsgiref.simple_server
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jaxina.config import split_address
from jaxina.control.interfaces import described, resolve_bind, with_port
from jaxina.errors import InvalidArgumentError

if TYPE_CHECKING:
    from jaxina.control.tls import Tls

_log = logging.getLogger("jaxina")

_PATIENCE = 30.0  # seconds that a caller may be silent


class _Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    """A server with a thread for each caller. TLS's handshakes are made there, so a silent caller stops nobody else."""

    daemon_threads = True
    context: ssl.SSLContext | None = None  # of TLS

    def finish_request(self, request: Any, client_address: Any) -> None:
        request.settimeout(_PATIENCE)
        if self.context is None:
            super().finish_request(request, client_address)
            return
        with self.context.wrap_socket(request, server_side=True) as secure:
            super().finish_request(secure, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        _log.debug("a caller of the metrics at %s failed", client_address, exc_info=True)


class _Handler(wsgiref.simple_server.WSGIRequestHandler):
    """Logs no requests."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Endpoint:
    """Serves metrics over HTTP, from construction to `stop`.

    Args:
      bind: HOST:PORT, or INTERFACE:PORT. Port 0 picks a free one.
      offset: is added to the port, so that the workers of a host may have one setting.
      collector: makes what is served, a collector of prometheus-client.
      tls: this process's certificate. If given, callers need one of the same authority. None: no TLS.

    Attributes:
      address: HOST:PORT at which it listens.

    Raises:
      InvalidArgumentError: the package prometheus-client is missing, or the endpoint cannot listen there.
    """

    def __init__(self, bind: str, offset: int, collector: Callable[[], Any], tls: Tls | None):
        try:
            from prometheus_client import CollectorRegistry, make_wsgi_app
        except ImportError as error:
            raise InvalidArgumentError(
                f"JAXINA_METRICS={bind} needs the package prometheus-client: pip install 'jaxina[metrics]' ({error})"
            ) from error
        host, port = split_address(resolve_bind(bind, "JAXINA_METRICS"))
        port += offset if port else 0
        if port > 65535:
            raise InvalidArgumentError(
                f"JAXINA_METRICS={bind}: worker {offset} would use port {port}, which is none, because worker r uses "
                "the port plus r. Give a smaller port"
            )
        registry = CollectorRegistry()
        registry.register(collector())
        try:
            (family, *_), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            kind: type[_Server] = type("_ServerOfFamily", (_Server,), {"address_family": family})
            self._server = wsgiref.simple_server.make_server(host, port, make_wsgi_app(registry), kind, _Handler)
        except OSError as error:
            raise InvalidArgumentError(
                f"the metrics cannot be served at {described(with_port(host, port))} (JAXINA_METRICS={bind}): "
                f"{error}. Give "
                "an address of this host and free ports: worker r uses the port plus r"
            ) from error
        if tls is not None:
            self._server.context = tls.of_listener
        self._thread = threading.Thread(target=self._server.serve_forever, name="jaxina-metrics", daemon=True)
        self._thread.start()
        self.address = with_port(host, self._server.server_address[1])
        _log.info("metrics at %s://%s/metrics", "http" if tls is None else "https", self.address)

    def stop(self) -> None:
        """Ends the endpoint."""
        self._server.shutdown()
        self._server.server_close()
        if self._thread is not threading.current_thread():
            self._thread.join()
