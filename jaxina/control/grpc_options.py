"""How gRPC connections behave: those of the control service, and those of `jaxina.fabric`'s scheduler."""

from __future__ import annotations

import grpc

from jaxina.config import split_address
from jaxina.control import limits
from jaxina.control.interfaces import described
from jaxina.control.tls import NAME, Tls
from jaxina.errors import InvalidArgumentError

OF_SERVER = (
    ("grpc.so_reuseport", 0),  # otherwise a second switch could share the port and would get half of the calls
    # A host that vanishes does not close its connections. Only missing answers to pings show that it is gone.
    ("grpc.keepalive_time_ms", 2000),
    ("grpc.keepalive_timeout_ms", 5000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 500),
    ("grpc.http2.max_ping_strikes", 0),
    # Limits on what strangers may make gRPC hold.
    ("grpc.max_receive_message_length", limits.MAX_MESSAGE_BYTES),
    ("grpc.max_concurrent_streams", limits.STREAMS_PER_CONNECTION),
    # max_connection_idle is left out: a call would fail if it was sent while its idle connection was being closed.
    ("grpc.server_handshake_timeout_ms", int(1000 * limits.HANDSHAKE)),
)

OF_CLIENT = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),  # a connection of our own, which fails and recovers by itself
    # gRPC repeats a call by itself if its connection closes before the server saw it. If connections close often, such
    # a call sometimes never ends, whatever its deadline (grpcio 1.76 to 1.85).
    ("grpc.enable_retries", 0),
    # A refused connection is tried again after 100 to 500 ms. The option named min is gRPC's time limit for an attempt,
    # the server's first frame included. A busy host may need seconds for that.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.min_reconnect_backoff_ms", 5000),
    ("grpc.keepalive_time_ms", 2000),
    ("grpc.keepalive_timeout_ms", 5000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", limits.MAX_REPLY_BYTES),
)


def channel(address: str, tls: Tls | None = None) -> grpc.Channel:
    """Opens a channel to HOST:PORT, with TLS if `tls` is given."""
    if tls is None:
        return grpc.insecure_channel(address, options=OF_CLIENT)
    # The other end proves that it belongs to the cluster, not which host it is.
    options = (*OF_CLIENT, ("grpc.ssl_target_name_override", NAME))
    return grpc.secure_channel(address, tls.of_client, options=options)


def listen(server: grpc.aio.Server, bind: str, perhaps: str, tls: Tls | None = None) -> str:
    """Lets a server listen at HOST:PORT, and returns the address with the port that it got.

    Args:
      server: not started yet.
      bind: HOST:PORT; port 0 picks a free one.
      perhaps: which of our programs may have the port already.
      tls: if given, only callers with a certificate of the same authority are served.

    Raises:
      InvalidArgumentError: it cannot listen there.
    """
    host, _ = split_address(bind)
    try:
        port = server.add_insecure_port(bind) if tls is None else server.add_secure_port(bind, tls.of_server)
    except RuntimeError as error:
        raise InvalidArgumentError(
            f"cannot listen at {described(bind)}: the port is in use by another program (perhaps {perhaps} "
            "that already runs), or "
            f"the address is not one of this host. Choose another by --bind HOST:PORT ({error})"
        ) from error
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
