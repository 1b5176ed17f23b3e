"""An authority that issues certificates, for tests of TLS."""

import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NOW = datetime.datetime.now(datetime.UTC)
HOUR = datetime.timedelta(hours=1)


class Authority:
    """Issues certificates into a folder. They have what OpenSSL's strict checks demand, as Python's from 3.13 on do."""

    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        signs = dict.fromkeys(
            (
                *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
                *("key_agreement", "encipher_only", "decipher_only"),
            ),
            False,
        ) | {"key_cert_sign": True, "crl_sign": True}
        own = (
            self._builder(self.subject, self.key, NOW - HOUR, NOW + HOUR)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.KeyUsage(**signs), critical=True)
        )
        self.file = self._write(
            f"{name}.pem", own.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        )

    def _builder(self, subject, key, begins, ends):
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begins)
            .not_valid_after(ends)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
        )

    def _write(self, name, content):
        (self.folder / name).write_bytes(content)
        return str(self.folder / name)

    def issue(self, name="worker", begins=NOW - HOUR, ends=NOW + HOUR, dns="jaxina"):
        """Returns the settings of a process with a certificate of its own."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        signed = (
            self._builder(subject, key, begins, ends)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(dns)]), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return {
            "JAXINA_TLS_AUTHORITY": self.file,
            "JAXINA_TLS_CERTIFICATE": self._write(
                f"{self.name}-{name}.pem", signed.public_bytes(serialization.Encoding.PEM)
            ),
            "JAXINA_TLS_KEY": self._write(f"{self.name}-{name}.key", private),
        }
