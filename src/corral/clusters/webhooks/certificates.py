"""The certificates of the webhook server: an authority of our own, and when it and what it signed are renewed.

Nothing is refused while they change. A new authority is first only believed: it joins the bundle that is given to the API
servers, and signs when they have had time to read it. The one before stays in the bundle until it expires.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from corral.server.access.certificates import SKEW_S, Authority, Pair

DAY_S = 86_400.0
NAME = "corral-webhooks"


@dataclass(frozen=True, slots=True)
class Terms:
    """How long certificates live, and how long a new authority waits before it signs. A third before its end each is renewed."""

    authority_s: float = 730 * DAY_S
    serving_s: float = 90 * DAY_S
    settle_s: float = 600.0

    @property
    def look_again_s(self) -> float:
        """How often to look whether something is due."""
        return min(self.settle_s, self.serving_s / 10)


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept in the Secret: authorities, the newest first, and the certificate to serve with."""

    authorities: tuple[Pair, ...]
    serving: Pair

    @property
    def bundle(self) -> bytes:
        """What those who call us believe."""
        return b"".join(pair.certificate for pair in self.authorities)


def first(names: Sequence[str], now: float, terms: Terms) -> Kept:
    """Where nothing is kept yet nobody has to be waited for."""
    authority = Authority.create(NAME, now, terms.authority_s)
    return Kept((authority.pair,), _serving(authority.pair, names, now, terms))


def renewed(kept: Kept, names: Sequence[str], now: float, terms: Terms) -> Kept:
    """`kept` with what is due done; the very same value when nothing is."""
    living = tuple(pair for pair in kept.authorities if _ends(pair) > now)
    if not living:
        return first(names, now, terms)
    if _ends(living[0]) - now < terms.authority_s / 3:
        living = (Authority.create(NAME, now, terms.authority_s).pair, *living)
    signer = _signer(living, now, terms)
    serving = kept.serving
    if (
        _ends(serving) - now < terms.serving_s / 3
        or not _is_signed_by(serving, signer)
        or not set(names) <= set(_names(serving))
    ):
        serving = _serving(signer, names, now, terms)
    if living == kept.authorities and serving is kept.serving:
        return kept
    return Kept(living, serving)


def _signer(authorities: tuple[Pair, ...], now: float, terms: Terms) -> Pair:
    """The newest authority that everybody has heard of; the oldest when none has been there for long."""
    known = [pair for pair in authorities if now - _made(pair) >= terms.settle_s]
    return known[0] if known else authorities[-1]


def _serving(authority: Pair, names: Sequence[str], now: float, terms: Terms) -> Pair:
    return Authority(authority).issue_server(names, now, name=NAME, life_s=terms.serving_s)


def _certificate(pair: Pair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate)


def _ends(pair: Pair) -> float:
    return _certificate(pair).not_valid_after_utc.timestamp()


def _made(pair: Pair) -> float:
    return _certificate(pair).not_valid_before_utc.timestamp() + SKEW_S


def _names(pair: Pair) -> list[str]:
    found = _certificate(pair).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [
        *found.get_values_for_type(x509.DNSName),
        *(str(each) for each in found.get_values_for_type(x509.IPAddress)),
    ]


def _is_signed_by(serving: Pair, authority: Pair) -> bool:
    try:
        _certificate(serving).verify_directly_issued_by(_certificate(authority))
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True
