"""Certificates and tokens."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography import x509

from corral.core.admission import UserInfo
from corral.server.access.authentication import read_token_file
from corral.server.access.certificates import Authority, load_authority, load_pair, write_private
from corral.server.access.tokens import InvalidToken, Signer, claims_for, read_claims

NOW = 1_800_000_000.0
ACCOUNT = {"metadata": {"name": "bot", "namespace": "ns", "uid": "u1"}}


def test_client_certificates_carry_user_and_groups() -> None:
    pair = Authority.create("ca", NOW).issue_client("alice", ("devs", "ops"), NOW)
    subject = x509.load_pem_x509_certificate(pair.certificate).subject
    names = {(attribute.oid._name, attribute.value) for attribute in subject}
    assert names == {("commonName", "alice"), ("organizationName", "devs"), ("organizationName", "ops")}


def test_a_pair_can_be_served(tmp_path: Path) -> None:
    pair = Authority.create("ca", NOW).issue_server(["localhost", "127.0.0.1"], NOW)
    load_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), pair)


def test_authority_is_kept_between_starts(tmp_path: Path) -> None:
    first = load_authority(tmp_path, "ca", NOW)
    assert load_authority(tmp_path, "ca", NOW).certificate == first.certificate
    assert (tmp_path / "ca.key").stat().st_mode & 0o777 == 0o600


def test_private_files_replace_what_was_there(tmp_path: Path) -> None:
    write_private(tmp_path / "sub" / "f", b"1")
    write_private(tmp_path / "sub" / "f", b"2")
    assert (tmp_path / "sub" / "f").read_bytes() == b"2"


def test_tokens_say_whose_they_are() -> None:
    signer = Signer.load(None)
    pod = {"kind": "Pod", "metadata": {"name": "p", "uid": "u2"}}
    token = signer.sign(claims_for(ACCOUNT, ["api"], NOW, 600, "id", pod))
    claims = read_claims(signer.verify(token), NOW + 599)
    assert (claims.namespace, claims.name, claims.uid) == ("ns", "bot", "u1")
    assert (claims.bound_kind, claims.bound_name, claims.bound_uid) == ("pod", "p", "u2")


def test_tokens_expire_and_cannot_be_forged() -> None:
    signer = Signer.load(None)
    token = signer.sign(claims_for(ACCOUNT, ["api"], NOW, 600, "id"))
    with pytest.raises(InvalidToken):
        read_claims(signer.verify(token), NOW + 601)
    with pytest.raises(InvalidToken):
        Signer.load(None).verify(token)
    head, payload, signature = token.split(".")
    with pytest.raises(InvalidToken):
        signer.verify(f"{head}.{payload[:-2]}AA.{signature}")
    for noise in ("", "a.b.c", "....", "\udcff.x.y", token + "A"):
        with pytest.raises(InvalidToken):
            signer.verify(noise)


def test_token_files_are_csv() -> None:
    found = read_token_file('t1,admin,1,"system:masters,ops"\nt2,bob,2\n\nbroken\n')
    assert found == {"t1": UserInfo("admin", ("system:masters", "ops"), "1"), "t2": UserInfo("bob", (), "2")}
