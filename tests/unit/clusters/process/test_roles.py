"""Roles are named, and each is carried out under a Lease."""

from __future__ import annotations

import pytest

from corral.clusters.process.roles import leases_of, read_roles
from corral.core.meta import Key


def test_roles_are_read_in_our_order_and_once() -> None:
    assert read_roles("webhooks, queueing,webhooks") == ("queueing", "webhooks")


@pytest.mark.parametrize(("text", "words"), [("", "name at least one role"), ("hubs", "there is no role 'hubs'")])
def test_what_is_no_role_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_roles(text)


def test_every_role_has_a_lease_of_its_own() -> None:
    every = leases_of(read_roles("queueing,dispatch,hub,member,webhooks"), "here")
    assert len(set(every)) == 5
    assert [key for key in every if key.namespace != "here"] == [Key("fleet-system", "corral-member-agent")]
