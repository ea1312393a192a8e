"""ServiceAccount tokens: JSON Web Tokens signed with the cluster's own key (ES256), and the key set that verifies them."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from corral.core.meta import Obj, name_of, namespace_of, uid_of
from corral.runtime.secrets import private_key
from corral.server.access.certificates import key_pem, write_private

ISSUER = "https://kubernetes.default.svc.cluster.local"
MIN_SECONDS = 600
MAX_SECONDS = 1 << 32
LONGEST_S = 365 * 24 * 3600
"""How long a token lives at most: one asked for longer is shorter, and says so."""

_PRIVATE_CLAIM = "kubernetes.io"


class InvalidToken(Exception):
    """The token is not one of ours, was tampered with, or has expired."""


@dataclass(frozen=True, slots=True)
class Claims:
    """Who a verified token speaks for, and until when."""

    namespace: str
    name: str
    uid: str
    audiences: tuple[str, ...]
    expires: float
    token_id: str
    bound_kind: str = ""
    bound_name: str = ""
    bound_uid: str = ""
    node_name: str = ""
    node_uid: str = ""


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class Signer:
    """Signs and verifies tokens with one key."""

    def __init__(self, pem: bytes) -> None:
        key = serialization.load_pem_private_key(pem, None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self._key = key
        public = key.public_key()
        numbers = public.public_numbers()
        self._x, self._y = _encode(numbers.x.to_bytes(32)), _encode(numbers.y.to_bytes(32))
        der = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        self.key_id = _encode(hashlib.sha256(der).digest())
        self._header = _encode(json.dumps({"alg": "ES256", "kid": self.key_id}, separators=(",", ":")).encode())

    @classmethod
    def load(cls, directory: Path | None) -> Signer:
        """The key kept in `directory`, made at first use."""
        path = directory / "sa.key" if directory is not None else None
        if path is not None and path.exists():
            return cls(path.read_bytes())
        pem = key_pem(private_key(ec.SECP256R1()))
        if path is not None:
            write_private(path, pem)
        return cls(pem)

    def sign(self, claims: dict[str, Any]) -> str:
        message = f"{self._header}.{_encode(json.dumps(claims, separators=(',', ':')).encode())}"
        r, s = decode_dss_signature(self._key.sign(message.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{message}.{_encode(r.to_bytes(32) + s.to_bytes(32))}"

    def verify(self, token: str) -> dict[str, Any]:
        """The claims of a token signed with this key; InvalidToken otherwise. Times are not checked."""
        try:
            header, payload, signature = token.split(".")
            raw = _decode(signature)
            if header != self._header or len(raw) != 64:
                raise InvalidToken("not signed by this cluster")
            der = encode_dss_signature(int.from_bytes(raw[:32]), int.from_bytes(raw[32:]))
            self._key.public_key().verify(der, f"{header}.{payload}".encode(), ec.ECDSA(hashes.SHA256()))
            claims = json.loads(_decode(payload))
        except (ValueError, InvalidSignature) as error:
            raise InvalidToken("not signed by this cluster") from error
        if not isinstance(claims, dict):
            raise InvalidToken("claims are not an object")
        return claims

    def key_set(self) -> Obj:
        """The JSON Web Key Set served to other verifiers."""
        key = {
            "use": "sig",
            "kty": "EC",
            "kid": self.key_id,
            "crv": "P-256",
            "alg": "ES256",
            "x": self._x,
            "y": self._y,
        }
        return {"keys": [key]}


def claims_for(
    account: Obj,
    audiences: Sequence[str],
    now: float,
    seconds: int,
    token_id: str,
    bound: Obj | None = None,
    node: Obj | None = None,
) -> dict[str, Any]:
    """The claims of a token for a ServiceAccount, valid for `seconds` and, if given, only as long as `bound` exists."""
    namespace, name = namespace_of(account), name_of(account)
    private: dict[str, Any] = {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid_of(account)}}
    if bound is not None:
        private[str(bound["kind"]).lower()] = {"name": name_of(bound), "uid": uid_of(bound)}
    if node is not None:
        private["node"] = {"name": name_of(node), "uid": uid_of(node)}
    return {
        "aud": list(audiences),
        "exp": int(now) + seconds,
        "iat": int(now),
        "iss": ISSUER,
        "jti": token_id,
        _PRIVATE_CLAIM: private,
        "nbf": int(now),
        "sub": f"system:serviceaccount:{namespace}:{name}",
    }


def read_claims(claims: dict[str, Any], now: float) -> Claims:
    """Check issuer and times and take the claims apart; InvalidToken when something does not fit."""
    if claims.get("iss") != ISSUER:
        raise InvalidToken("token has another issuer")
    if float(claims.get("exp", 0)) < now:
        raise InvalidToken("token has expired")
    if float(claims.get("nbf", 0)) > now + 60:
        raise InvalidToken("token is not valid yet")
    private = claims.get(_PRIVATE_CLAIM) or {}
    account = private.get("serviceaccount") or {}
    bound_kind = next((kind for kind in ("pod", "secret") if private.get(kind)), "")
    bound, node = private.get(bound_kind) or {}, private.get("node") or {}
    if not account.get("name"):
        raise InvalidToken("token names no service account")
    return Claims(
        namespace=private.get("namespace", ""),
        name=account["name"],
        uid=account.get("uid", ""),
        audiences=tuple(claims.get("aud") or ()),
        expires=float(claims["exp"]),
        token_id=str(claims.get("jti", "")),
        bound_kind=bound_kind,
        bound_name=bound.get("name", ""),
        bound_uid=bound.get("uid", ""),
        node_name=node.get("name", ""),
        node_uid=node.get("uid", ""),
    )
