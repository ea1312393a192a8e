"""An embedded cluster as the hub of a fleet, and as a member of one.

A module of its own because clusters that are neither, most of them, do without the code of placement: it is a
twentieth of what they would hold.
"""

from __future__ import annotations

from collections.abc import Sequence

from corral.client.http import HttpClient
from corral.client.kubeconfig import Access
from corral.client.protocol import Client
from corral.clusters.embedded_api import EmbeddedApi
from corral.clusters.placement_identities import hub, member
from corral.configuration.member import member_settings
from corral.configuration.placement import placement_settings
from corral.controllers.member import set_up_member_by_secret
from corral.controllers.member.discovery import in_registry
from corral.controllers.placement import set_up_placement
from corral.core.admission import AdmissionPlugin
from corral.core.meta import Obj


def set_up_hub(base: EmbeddedApi, configuration: Obj, *, admit_workloads: bool) -> Sequence[AdmissionPlugin]:
    """Run the hub's controllers; returns the admission rules of its API."""
    settings = placement_settings(configuration, admit_workloads=admit_workloads)
    return set_up_placement(base.manager.of(hub()), settings, base.rights)


def set_up_membership(base: EmbeddedApi, configuration: Obj, name: str, *, entrypoint: str) -> None:
    """Run the agent that serves the hub this cluster is told of."""
    settings = member_settings(configuration, entrypoint=entrypoint, authority=base.api.root_ca)
    set_up_member_by_secret(base.manager.of(member()), connect_hub, name, settings, in_registry(base.api.registry))


def connect_hub(access: Access) -> Client:
    """The client a member reaches its hub with."""
    return HttpClient(access, user_agent="corral-member-agent")
