"""The admission plug-ins every cluster has, in the order they run."""

from __future__ import annotations

from corral.core.admission import AdmissionPlugin
from corral.server.admission.builtin.definitions import DefinitionLifecycle
from corral.server.admission.builtin.limits import LimitRanger
from corral.server.admission.builtin.namespaces import NamespaceLifecycle
from corral.server.admission.builtin.pods import DefaultTolerationSeconds, Priority, ServiceAccount
from corral.server.admission.builtin.quota import ResourceQuota
from corral.server.verbs.options import Random
from corral.store import Store


def builtin_plugins(store: Store, random: Random) -> list[AdmissionPlugin]:
    """What runs before the plug-ins a cluster is given."""
    return [
        NamespaceLifecycle(store),
        DefinitionLifecycle(store),
        LimitRanger(store),
        ServiceAccount(store, random),
        Priority(store),
        DefaultTolerationSeconds(),
    ]


def final_plugins(store: Store) -> list[AdmissionPlugin]:
    """What runs after them: counting comes last, when nothing else can refuse."""
    return [ResourceQuota(store)]
