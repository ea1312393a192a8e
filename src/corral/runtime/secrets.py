"""Everything that must not be guessed: keys, tokens, nonces. All of it comes from the operating system.

`runtime.random` names things and spreads retries and may be seeded; a secret drawn from it could be computed by whoever
sees enough names. So this is the only module that makes secrets, and those who use it do not import the other one.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from cryptography.hazmat.primitives.asymmetric import ec

KeySource = Callable[[ec.EllipticCurve], ec.EllipticCurvePrivateKey]
"""Where private keys come from: `private_key`, or in a simulation a source that repeats itself."""


def private_key(curve: ec.EllipticCurve) -> ec.EllipticCurvePrivateKey:
    """A new private key."""
    return ec.generate_private_key(curve)


def random_bytes(count: int) -> bytes:
    """Bytes for a symmetric key or a nonce."""
    return secrets.token_bytes(count)


def token() -> str:
    """A bearer token of 256 bits, safe in URLs and files."""
    return secrets.token_urlsafe(32)
