"""What keeps a cluster's objects in order by themselves: namespaces, owners, custom definitions, events that expire.

These controllers see every change of the store as it happens, through one observer each, and act through the Api. They
are started by whoever starts the cluster's other controllers.
"""

from __future__ import annotations

from corral.runtime.controller import Manager
from corral.server.api import Api
from corral.server.lifecycle.definitions import Definitions
from corral.server.lifecycle.expiry import EventExpiry
from corral.server.lifecycle.garbage import GarbageCollector
from corral.server.lifecycle.namespaces import Namespaces
from corral.server.lifecycle.quotas import Quotas

__all__ = ["Definitions", "EventExpiry", "GarbageCollector", "Namespaces", "Quotas", "set_up_lifecycle"]


def set_up_lifecycle(api: Api, manager: Manager) -> None:
    """Register the controllers every cluster has. Stored custom definitions are served when this returns."""
    Definitions(api, manager)
    Namespaces(api, manager)
    GarbageCollector(api, manager)
    Quotas(api, manager)
    EventExpiry(api, manager)
