"""The certificates of one cluster: its own authority, the server's certificate and certificates for users.

EC P-256 throughout: a key and a certificate cost a tenth of a millisecond, so they are made at first start.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import ssl
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from corral.runtime.secrets import private_key

_TEN_YEARS = datetime.timedelta(days=3650)
_ONE_YEAR = datetime.timedelta(days=365)
SKEW_S = 300.0
"""How far a certificate begins in the past, for clocks that are behind."""
_SKEW = datetime.timedelta(seconds=SKEW_S)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """A certificate authority that signs for one cluster."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self._certificate = x509.load_pem_x509_certificate(pair.certificate)
        key = serialization.load_pem_private_key(pair.key, None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self._key = key

    @classmethod
    def create(cls, name: str, now: float, life_s: float = _TEN_YEARS.total_seconds()) -> Authority:
        key = private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _builder(subject, subject, key.public_key(), now, datetime.timedelta(seconds=life_s))
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(_key_usage(signs_certificates=True), critical=True)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        return cls(Pair(_pem(builder.sign(key, hashes.SHA256())), key_pem(key)))

    @property
    def certificate(self) -> bytes:
        return self.pair.certificate

    def issue_server(
        self,
        hosts: Sequence[str],
        now: float,
        *,
        name: str = "kube-apiserver",
        life_s: float = _ONE_YEAR.total_seconds(),
    ) -> Pair:
        """A serving certificate for DNS names and addresses."""
        names: list[x509.GeneralName] = []
        for host in hosts:
            try:
                names.append(x509.IPAddress(ipaddress.ip_address(host)))
            except ValueError:
                names.append(x509.DNSName(host))
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage, life = ExtendedKeyUsageOID.SERVER_AUTH, datetime.timedelta(seconds=life_s)
        return self._issue(subject, usage, now, x509.SubjectAlternativeName(names), life)

    def issue_client(self, user: str, groups: Sequence[str], now: float) -> Pair:
        """A client certificate: the user is the common name, the groups are organizations."""
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        return self._issue(subject, ExtendedKeyUsageOID.CLIENT_AUTH, now)

    def sign_request(self, request: bytes, now: float, seconds: int) -> bytes:
        """A client certificate for the key and subject of a PEM request; ValueError when it is not properly signed."""
        asked = x509.load_pem_x509_csr(request)
        if not asked.is_signature_valid:
            raise ValueError("the request is not signed with its own key")
        life = datetime.timedelta(seconds=seconds)
        builder = _builder(asked.subject, self._certificate.subject, asked.public_key(), now, life)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_key_usage(signs_certificates=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        return _pem(builder.sign(self._key, hashes.SHA256()))

    def _issue(
        self,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        now: float,
        names: x509.SubjectAlternativeName | None = None,
        life: datetime.timedelta = _ONE_YEAR,
    ) -> Pair:
        key = private_key(ec.SECP256R1())
        builder = _builder(subject, self._certificate.subject, key.public_key(), now, life)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_key_usage(signs_certificates=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        return Pair(_pem(builder.sign(self._key, hashes.SHA256())), key_pem(key))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: CertificatePublicKeyTypes, now: float, life: datetime.timedelta
) -> x509.CertificateBuilder:
    start = datetime.datetime.fromtimestamp(now, datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - _SKEW)
        .not_valid_after(start + life)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=not signs_certificates,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def write_private(path: Path, data: bytes) -> None:
    """Write a file only its owner can read, complete or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
    temporary.replace(path)


def read_pair(directory: Path, name: str) -> Pair | None:
    certificate, key = directory / f"{name}.crt", directory / f"{name}.key"
    if not (certificate.exists() and key.exists()):
        return None
    return Pair(certificate.read_bytes(), key.read_bytes())


def save_pair(directory: Path, name: str, pair: Pair) -> None:
    write_private(directory / f"{name}.key", pair.key)
    write_private(directory / f"{name}.crt", pair.certificate)


def load_authority(directory: Path | None, name: str, now: float, file: str = "ca") -> Authority:
    """The authority kept in `directory` under `file`, made at first use; one that is never written when there is no directory."""
    pair = read_pair(directory, file) if directory is not None else None
    if pair is not None:
        return Authority(pair)
    authority = Authority.create(name, now)
    if directory is not None:
        save_pair(directory, file, authority.pair)
    return authority


def load_pair(context: ssl.SSLContext, pair: Pair) -> None:
    """Give a context its certificate; the ssl module only reads files."""
    with tempfile.NamedTemporaryFile("wb", suffix=".pem") as file:
        file.write(pair.certificate + pair.key)
        file.flush()
        context.load_cert_chain(file.name)
