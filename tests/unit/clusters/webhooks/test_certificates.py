"""Certificates are renewed before they end, and nobody who believed us a moment ago is asked to believe something new."""

from __future__ import annotations

import ssl

import pytest
from cryptography import x509

from corral.clusters.webhooks.certificates import DAY_S, Kept, Terms, first, renewed

NAMES = ["corral-webhooks.kueue-system.svc", "localhost", "127.0.0.1"]
TERMS = Terms(authority_s=100 * DAY_S, serving_s=10 * DAY_S, settle_s=600)
NOW = 1_800_000_000.0


def authorities_that_believe(kept: Kept, bundle: bytes) -> bool:
    """Whether somebody with this bundle accepts what is served."""
    serving = x509.load_pem_x509_certificate(kept.serving.certificate)
    for certificate in x509.load_pem_x509_certificates(bundle):
        try:
            serving.verify_directly_issued_by(certificate)
        except Exception:  # whatever is wrong, it is not this one
            continue
        return True
    return False


def test_nothing_changes_before_its_time() -> None:
    kept = first(NAMES, NOW, TERMS)
    assert renewed(kept, NAMES, NOW + 6 * DAY_S, TERMS) is kept


def test_what_is_served_is_renewed_a_third_before_its_end_under_the_same_authority() -> None:
    kept = first(NAMES, NOW, TERMS)
    later = renewed(kept, NAMES, NOW + 7 * DAY_S, TERMS)
    assert later.authorities == kept.authorities
    assert later.serving != kept.serving
    assert authorities_that_believe(later, kept.bundle)


def test_another_name_is_served_at_once() -> None:
    kept = first(NAMES, NOW, TERMS)
    later = renewed(kept, [*NAMES, "corral.example"], NOW, TERMS)
    assert later.serving != kept.serving
    assert authorities_that_believe(later, kept.bundle)


def test_a_new_authority_is_believed_before_it_signs_and_the_old_one_until_it_ends() -> None:
    kept = first(NAMES, NOW, TERMS)
    near = NOW + 67 * DAY_S
    announced = renewed(kept, NAMES, near, TERMS)
    assert len(announced.authorities) == 2
    assert authorities_that_believe(announced, kept.bundle), "callers have not read the new bundle yet"
    assert renewed(announced, NAMES, near + 300, TERMS) is announced
    signing = renewed(announced, NAMES, near + 600, TERMS)
    assert not authorities_that_believe(signing, kept.bundle)
    assert authorities_that_believe(signing, announced.bundle)
    assert signing.authorities == announced.authorities
    forgotten = renewed(signing, NAMES, NOW + 101 * DAY_S, TERMS)
    assert len(forgotten.authorities) == 1


@pytest.mark.parametrize("seed", range(3))
def test_through_years_every_state_is_believed_with_the_bundle_of_the_look_before(seed: int) -> None:
    kept, now = first(NAMES, NOW, TERMS), NOW
    for step in range(1500):
        now += 3600.0 * (1 + (step * 7 + seed) % 13)
        before, kept = kept, renewed(kept, NAMES, now, TERMS)
        assert authorities_that_believe(kept, before.bundle)
        assert len(kept.authorities) <= 2


def test_after_a_long_sleep_everything_is_made_anew() -> None:
    kept = renewed(first(NAMES, NOW, TERMS), NAMES, NOW + 1000 * DAY_S, TERMS)
    context = ssl.create_default_context(cadata=kept.bundle.decode())
    assert len(context.get_ca_certs()) == 1
    assert authorities_that_believe(kept, kept.bundle)
