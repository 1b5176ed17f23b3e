"""The HTTP endpoint that Prometheus scrapes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from jaxina.config import split_address
from jaxina.control.interfaces import described, resolve_bind, with_port
from jaxina.errors import InvalidArgumentError

_log = logging.getLogger("jaxina")


class Endpoint:
    """Serves metrics over HTTP, from construction to `stop`.

    Args:
      bind: HOST:PORT, or INTERFACE:PORT. Port 0 picks a free one.
      offset: is added to the port, so that the workers of a host may have one setting.
      collector: makes what is served, a collector of prometheus-client.

    Attributes:
      address: HOST:PORT at which it listens.

    Raises:
      InvalidArgumentError: the package prometheus-client is missing, or the endpoint cannot listen there.
    """

    def __init__(self, bind: str, offset: int, collector: Callable[[], Any]):
        try:
            from prometheus_client import CollectorRegistry, start_http_server
        except ImportError as error:
            raise InvalidArgumentError(
                f"JAXINA_METRICS={bind} needs the package prometheus-client: pip install 'jaxina[metrics]' ({error})"
            ) from error
        host, port = split_address(resolve_bind(bind, "JAXINA_METRICS"))
        port += offset if port else 0
        registry = CollectorRegistry()
        registry.register(collector())
        try:
            self._server, self._thread = start_http_server(port, host, registry)
        except (OSError, OverflowError) as error:
            raise InvalidArgumentError(
                f"the metrics cannot be served at {described(with_port(host, port))} (JAXINA_METRICS={bind}): "
                f"{error}. Give "
                "an address of this host and free ports: worker r uses the port plus r"
            ) from error
        self.address = with_port(host, self._server.server_address[1])
        _log.info("metrics at http://%s/metrics", self.address)

    def stop(self) -> None:
        """Ends the endpoint."""
        self._server.shutdown()
        self._server.server_close()
        if self._thread is not threading.current_thread():
            self._thread.join()
