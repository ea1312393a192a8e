"""The member agent: joins a hub, reports in, and applies the Works that the hub has for this member."""

from __future__ import annotations

from corral.client.protocol import Client
from corral.configuration.member import MemberSettings
from corral.controllers.member.agent import MemberAgent
from corral.controllers.member.connection import Connect, HubConnection
from corral.controllers.member.discovery import Discover
from corral.runtime.controller import Manager


def set_up_member(manager: Manager, hub: Client, name: str, settings: MemberSettings, discover: Discover) -> None:
    """Run the agent of member `name` in the cluster of `manager`, for the hub behind `hub`."""
    agent = MemberAgent(manager, settings, discover)
    manager.run_task(lambda: agent.run(hub, name), "member agent")


def set_up_member_by_secret(
    manager: Manager, connect: Connect, name: str, settings: MemberSettings, discover: Discover
) -> HubConnection:
    """Run the agent for the hub that Secret `fleet-system/hub-kubeconfig` of the member describes.

    The Secret may say under which name the hub knows the member; otherwise it is `name`."""
    return HubConnection(manager, MemberAgent(manager, settings, discover), connect, name)
