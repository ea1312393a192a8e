"""What the built-in plug-ins share."""

from __future__ import annotations

from corral.core.admission import AdmissionRequest
from corral.core.meta import Obj


class BuiltinPlugin:
    """A plug-in that changes and refuses nothing unless it says so. What built-in plug-ins return is in the same
    canonical form they were given, so it need not be read again."""

    name = ""
    canonical = True

    def handles(self, request: AdmissionRequest) -> bool:
        return True

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        return request.obj

    async def validate(self, request: AdmissionRequest) -> None:
        return None


POD = ("", "Pod")


def is_new_pod(request: AdmissionRequest) -> bool:
    return (
        request.operation == "CREATE"
        and request.resource.plural == "pods"
        and not request.resource.group
        and not request.subresource
    )
