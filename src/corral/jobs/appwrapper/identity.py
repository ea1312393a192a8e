"""Who runs AppWrappers in an embedded cluster, and what that takes.

It creates what is wrapped as whoever made the AppWrapper. It looks at it and removes it as itself, whatever it is: the rights of
the creator may be gone by then."""

from corral.core.identity import FOLLOW, controller, rights, service_account, statuses
from corral.jobs.appwrapper.kind import APP_WRAPPERS
from corral.kinds.kubernetes.apiextensions.kinds import CUSTOM_RESOURCE_DEFINITIONS
from corral.kinds.kubernetes.core.kinds import PODS

_ANYTHING = ({"apiGroups": ["*"], "resources": ["*"], "verbs": ["delete", "get"]},)

IDENTITY = controller(
    "appwrapper",
    service_account("appwrapper-controller-manager"),
    rights(FOLLOW, APP_WRAPPERS, PODS),
    rights("list", CUSTOM_RESOURCE_DEFINITIONS),
    rights("update", APP_WRAPPERS, *statuses(APP_WRAPPERS)),
    _ANYTHING,
)
