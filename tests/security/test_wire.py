"""What two readers could understand differently is no request: bytes, versions of TLS and tokens that are only almost right."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import ssl
import warnings

import pytest
from tests.security.test_limits import Anybody, connected

from corral.server.access.certificates import Authority, load_pair
from corral.server.access.tokens import InvalidToken, Signer
from corral.server.http.listener import server_context
from corral.server.http.message import Request, Response
from corral.server.http.shared import MAX_HEAD, Shared

NOW = 1_800_000_000.0
INNER = b"GET /inner HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /outer HTTP/1.1\r\nHost: x\r\nAuthorization: me\r\n"


class Noting(Anybody):
    """An application that knows what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def answer_now(self, request: Request) -> Response:
        self.asked.append(request.path)
        return super().answer_now(request)


AMBIGUOUS = {
    "length and chunks": POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + INNER,
    "chunks and length": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + INNER,
    "two lengths": POST + b"Content-Length: 0\r\nContent-Length: 33\r\n\r\n" + INNER,
    "a list of lengths": POST + b"Content-Length: 0, 33\r\n\r\n" + INNER,
    "a signed length": POST + b"Content-Length: +0\r\n\r\n" + INNER,
    "a negative length": POST + b"Content-Length: -1\r\n\r\n" + INNER,
    "a hexadecimal length": POST + b"Content-Length: 0x0\r\n\r\n" + INNER,
    "an endless length": POST + b"Content-Length: " + b"9" * 40 + b"\r\n\r\n" + INNER,
    "another encoding": POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + INNER,
    "an encoding nobody knows": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + INNER,
    "a space before the colon": POST + b"Content-Length : 0\r\n\r\n" + INNER,
    "a folded header": POST + b"X: a\r\n Content-Length: 33\r\n\r\n" + INNER,
    "a bare line feed": b"GET /outer HTTP/1.1\nHost: x\n\n" + INNER,
    "a bare carriage return": b"GET /outer HTTP/1.1\r\nHost: x\rX: y\r\n\r\n" + INNER,
    "a null in a header": b"GET /outer HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n" + INNER,
    "a null in a name": b"GET /outer HTTP/1.1\r\nHost: x\r\nX\x00: a\r\n\r\n" + INNER,
    "a chunk of no size": POST + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n" + INNER,
    "a chunk of a negative size": POST + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n" + INNER,
    "a chunk of a huge size": POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 17 + b"\r\n" + INNER,
    "another version": b"GET /outer HTTP/3.7\r\nHost: x\r\n\r\n" + INNER,
    "another protocol": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + INNER,
    "no request at all": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + INNER,
}


@pytest.mark.parametrize("what", AMBIGUOUS)
async def test_bytes_of_two_meanings_are_refused_and_nothing_behind_them_is_a_request(what: str) -> None:
    app = Noting()
    made, wire = connected(Shared(app))
    made.data_received(AMBIGUOUS[what])
    made.data_received(INNER)
    assert wire.written.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 413 "))
    assert wire.written.count(b"HTTP/1.1 ") == 1
    assert app.asked == []
    made.connection_lost(None)


async def test_a_request_behind_another_is_one_where_both_are_clear() -> None:
    app = Noting()
    made, wire = connected(Shared(app))
    made.data_received(POST + b"Content-Length: 5\r\n\r\nhello" + INNER)
    assert app.asked == ["/outer", "/inner"]
    assert wire.written.count(b"HTTP/1.1 200 ") == 2
    made.connection_lost(None)


async def test_a_head_without_end_is_refused() -> None:
    made, wire = connected(Shared(Noting()))
    made.data_received(b"GET / HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X%d: y\r\n" % n for n in range(MAX_HEAD // 8)))
    assert wire.written.startswith(b"HTTP/1.1 431 ")
    made.connection_lost(None)


def agreed(client: ssl.SSLContext) -> str:
    """The version of TLS that our server and a client come to use."""
    context = server_context()
    load_pair(context, Authority.create("ca", NOW).issue_server(["x"], NOW))
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asks, serves = client.wrap_bio(to_client, to_server), context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (asks, serves):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return str(serves.version())


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_old_versions_of_tls_are_refused(version: ssl.TLSVersion) -> None:
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        client.minimum_version = client.maximum_version = version
    with pytest.raises(ssl.SSLError):
        agreed(client)


@pytest.mark.parametrize("ciphers", ["NULL", "aNULL", "AES128-SHA", "ECDHE-RSA-AES128-SHA", "DES-CBC3-SHA", "RC4"])
def test_weak_ciphers_are_refused(ciphers: str) -> None:
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    try:
        client.set_ciphers(f"{ciphers}:@SECLEVEL=0")
    except ssl.SSLError:
        pytest.skip(f"this OpenSSL has no {ciphers}")
    with pytest.raises(ssl.SSLError):
        agreed(client)


def test_new_versions_of_tls_are_agreed_upon() -> None:
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    assert agreed(client) == "TLSv1.3"
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    assert agreed(client) == "TLSv1.2"


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@pytest.mark.parametrize("algorithm", ["none", "None", "", "HS256", "ES384", "RS256"])
def test_a_token_signed_in_another_way_is_none_of_ours(algorithm: str) -> None:
    signer = Signer.load(None)
    genuine = signer.sign({"sub": "x"})
    _, payload, signature = genuine.split(".")
    known = json.dumps(signer.key_set()["keys"][0]).encode()
    for header in ({"alg": algorithm}, {"alg": algorithm, "kid": signer.key_id}, {"alg": "ES256", "jwk": {}}):
        message = f"{encoded(json.dumps(header).encode())}.{payload}"
        with_public_key = encoded(hmac.digest(known, message.encode(), hashlib.sha256))
        for forged in ("", signature, encoded(bytes(64)), with_public_key):
            with pytest.raises(InvalidToken):
                signer.verify(f"{message}.{forged}")
    for forged in ("", encoded(bytes(64)), encoded(b"\x01" * 64), signature[:-4], signature + "AAAA"):
        with pytest.raises(InvalidToken):
            signer.verify(f"{genuine.rpartition('.')[0]}.{forged}")
    assert signer.verify(genuine) == {"sub": "x"}
