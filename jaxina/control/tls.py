"""Mutual TLS for control calls: every process of a cluster has a certificate of one authority, and asks for one.

Whoever has a certificate of the authority belongs to the cluster. The certificates carry the name ``jaxina``, not those
of hosts, because the addresses of workers are not known beforehand. gRPC's own TLS does the rest, and Python's where
there is no gRPC: in the roll call and for metrics.
"""

from __future__ import annotations

import dataclasses
import datetime
import socket
import ssl
from pathlib import Path

import grpc

from jaxina.config import Configuration, split_address, variable
from jaxina.errors import AuthenticationError, InvalidArgumentError

_HANDSHAKE = 2.0  # seconds
_FILES = "JAXINA_TLS_AUTHORITY, JAXINA_TLS_CERTIFICATE and JAXINA_TLS_KEY"
_SET = f"set {_FILES} to a certificate of its authority"
NAME = "jaxina"
"""The DNS name that every certificate carries."""


@dataclasses.dataclass(frozen=True)
class Tls:
    """The certificate of this process, in files.

    Attributes:
      authority: the certificate of the authority, PEM.
      certificate: this process's own, PEM, perhaps followed by those between it and the authority.
      key: its private key, PEM.
    """

    authority: Path
    certificate: Path
    key: Path

    @property
    def of_server(self) -> grpc.ServerCredentials:
        """gRPC's credentials for a server. Callers must have a certificate too."""
        own = self.key.read_bytes(), self.certificate.read_bytes()
        return grpc.ssl_server_credentials([own], self.authority.read_bytes(), require_client_auth=True)

    @property
    def of_client(self) -> grpc.ChannelCredentials:
        """gRPC's credentials for a client."""
        return grpc.ssl_channel_credentials(
            *(self.authority.read_bytes(), self.key.read_bytes(), self.certificate.read_bytes())
        )

    @property
    def of_listener(self) -> ssl.SSLContext:
        """OpenSSL's context for a server without gRPC. Callers must have a certificate too."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(self.authority)
        context.load_cert_chain(self.certificate, self.key)
        return context

    @property
    def of_caller(self) -> ssl.SSLContext:
        """OpenSSL's context for a client without gRPC. The other end's certificate must carry `NAME`."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.authority)
        context.load_cert_chain(self.certificate, self.key)
        return context


def tls_of(configuration: Configuration) -> Tls | None:
    """Reads the files that the configuration names, and checks them. None if it names none.

    Raises:
      InvalidArgumentError: only some of the files are named, one cannot be read, or the package cryptography is
        missing.
      AuthenticationError: a certificate has expired or is not valid yet, is not the authority's, lacks the name, or the
        key is another's.
    """
    named = {name: getattr(configuration, name) for name in ("tls_authority", "tls_certificate", "tls_key")}
    if not any(named.values()):
        return None
    if missing := [variable(name) for name, file in named.items() if file is None]:
        raise InvalidArgumentError(f"{' and '.join(missing)} must be set too: TLS needs all three files")
    read = {}
    for name, file in named.items():
        try:
            read[name] = Path(file).read_bytes()
        except OSError as error:
            raise InvalidArgumentError(f"{variable(name)}={file}: {error.strerror}") from error
    _check(read, named)
    return Tls(*(Path(file) for file in named.values()))


def why_refused(address: str, tls: Tls | None) -> AuthenticationError | None:
    """Finds out whether a call failed because of TLS. A failed call tells no more than that nobody answers.

    Args:
      address: the other end's, HOST:PORT.
      tls: this process's certificate; None: it uses no TLS.

    Returns:
      The error that says what is wrong; None if it is not TLS.
    """
    if tls is None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    else:
        context = tls.of_caller
    context.set_alpn_protocols(["h2"])
    try:
        with socket.create_connection(split_address(address), timeout=_HANDSHAKE) as connection:
            try:
                with context.wrap_socket(connection, server_hostname=NAME) as secure:
                    if tls is None:
                        return AuthenticationError(f"{address} serves only callers that use TLS: {_SET}")
                    secure.recv(1)  # with TLS 1.3, the other end refuses a certificate only after the handshake
            except ssl.SSLCertVerificationError as error:
                return AuthenticationError(
                    f"the certificate of {address} is not accepted: {error.verify_message}. Issue it a new one by the "
                    "authority that all processes of the cluster have"
                )
            except ssl.SSLError as error:
                if "ALERT" in (error.reason or ""):
                    return AuthenticationError(
                        f"{address} does not accept this process's certificate ({error.reason}): {_SET}"
                    )
                if tls is not None:
                    return AuthenticationError(
                        f"{address} does not use TLS ({error.reason}): start it with {_FILES}, or leave them out here"
                    )
    except OSError:  # not there, or silent: not for TLS to say
        pass
    return None


def _check(read: dict[str, bytes], named: dict[str, str]) -> None:
    try:
        from cryptography import x509
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import serialization
    except ImportError as error:
        raise InvalidArgumentError(
            f"TLS needs the package cryptography: pip install 'jaxina[tls]' ({error})"
        ) from error
    try:
        authorities = x509.load_pem_x509_certificates(read["tls_authority"])
        chain = x509.load_pem_x509_certificates(read["tls_certificate"])
        key = serialization.load_pem_private_key(read["tls_key"], password=None)
    except (ValueError, TypeError) as error:
        raise InvalidArgumentError(
            f"{', '.join(f'{variable(name)}={file}' for name, file in named.items())}: one of these is not in "
            "PEM, or the "
            f"key has a password: {error}"
        ) from error
    own = f"{variable('tls_certificate')}={named['tls_certificate']}"
    for name, certificates in (("tls_authority", authorities), ("tls_certificate", chain)):
        for one in certificates:
            _check_time(f"{variable(name)}={named[name]}", one.not_valid_before_utc, one.not_valid_after_utc)
    spki = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    if key.public_key().public_bytes(*spki) != chain[0].public_key().public_bytes(*spki):
        raise AuthenticationError(
            f"{variable('tls_key')}={named['tls_key']} is not the key of {own}: give the key it was made with"
        )
    if len(chain) == 1:
        for authority in authorities:
            try:
                chain[0].verify_directly_issued_by(authority)
                break
            except (ValueError, TypeError, InvalidSignature):
                continue
        else:
            raise AuthenticationError(
                f"{own} was not issued by {variable('tls_authority')}={named['tls_authority']}: have it issued "
                "there, or give "
                "the authority's certificate that all processes of the cluster have"
            )
    try:
        names = chain[0].extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        known = names.get_values_for_type(x509.DNSName)
    except x509.ExtensionNotFound:
        known = []
    if NAME not in known:
        raise AuthenticationError(
            f"{own} does not carry the DNS name {NAME}, but {known or 'none'}: issue it with subjectAltName=DNS:{NAME}"
        )


def _check_time(which: str, begins: datetime.datetime, ends: datetime.datetime) -> None:
    now = datetime.datetime.now(datetime.UTC)
    if now > ends:
        raise AuthenticationError(f"{which} has expired at {ends:%Y-%m-%d %H:%M} UTC: issue a new one")
    if now < begins:
        raise AuthenticationError(
            f"{which} is not valid before {begins:%Y-%m-%d %H:%M} UTC, and this host's clock says "
            f"{now:%Y-%m-%d %H:%M}: set the "
            "clock (`jaxina doctor` compares those of all hosts), or issue a new one"
        )
