"""Private keys that are the same in every run of a simulation. They guard nothing."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric import ec

from corral.runtime.random import Random
from corral.runtime.secrets import KeySource


def repeatable_keys(random: Random) -> KeySource:
    """A source of keys drawn from a seeded generator, to be injected where `runtime.secrets.private_key` is the rule."""

    def draw(curve: ec.EllipticCurve) -> ec.EllipticCurvePrivateKey:
        return ec.derive_private_key(random.integer(2 ** (curve.key_size - 24), 2 ** (curve.key_size - 1)), curve)

    return draw
