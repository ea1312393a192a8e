"""Why Workloads wait, as an API of Corral's own: what the scheduler knows, computed when asked.

`GET …/namespaces/{ns}/workloadexplanations/{workload}` tells of one Workload and names others of its namespace only;
`GET …/workloadexplanations` tells of all that wait and names everybody, so it takes the right to list in all namespaces.
"""

from __future__ import annotations

from collections.abc import Sequence

from corral.core.errors import BadRequest, not_found
from corral.core.meta import Key, Obj
from corral.core.selectors import parse_field_selector
from corral.decide.queueing.explanation import EXPLANATIONS, GROUP, VERSION, to_obj
from corral.decide.queueing.state import QueueingState
from corral.kinds.machinery.definition import Column, KindDef, VersionDef
from corral.kinds.machinery.virtual_resources import ExtraRequest

_COLUMNS = (
    Column("State", ".state"),
    Column("Queue", ".clusterQueue"),
    Column("Position", ".position", type="integer"),
    Column("Why", ".message"),
)

EXPLANATION = KindDef(
    group=GROUP,
    kind=EXPLANATIONS.kind,
    plural=EXPLANATIONS.plural,
    versions=(VersionDef(VERSION, {"type": "object"}, columns=_COLUMNS),),
    verbs=("get", "list"),
    has_generation=False,
)


class Explanations:
    """Answers for every Workload that queueing knows."""

    kinds: Sequence[KindDef] = (EXPLANATION,)

    def __init__(self, state: QueueingState) -> None:
        self._state = state

    async def get(self, request: ExtraRequest) -> Obj:
        """Of one Workload, with no names of other namespaces."""
        found = self._state.questions.explain(Key(request.namespace, request.name))
        if found is None:
            raise not_found(EXPLANATIONS, request.name)
        return to_obj(found, lambda key: key.namespace == request.namespace)

    async def list(self, request: ExtraRequest) -> list[Obj]:
        """Of all that wait, or of those that a field selector names."""
        wanted = self._wanted(request)
        return [
            to_obj(found, lambda key: request.namespace in ("", key.namespace))
            for found in self._state.questions.explain_all(wanted)
        ]

    def _wanted(self, request: ExtraRequest) -> Sequence[Key]:
        waiting = (
            key
            for key, info in self._state.world.workloads.items()
            if request.namespace in ("", key.namespace) and not info.finished
        )
        text = request.query.get("fieldSelector") or ""
        try:
            selector = parse_field_selector(text) if text else None
        except ValueError as error:
            raise BadRequest(str(error)) from error
        if selector is not None and not set(selector.fields) <= {"metadata.namespace", "metadata.name"}:
            raise BadRequest(f"only metadata.namespace and metadata.name can be selected, not {selector}")
        if selector is None:
            held = self._state.world.reservations
            return sorted(key for key in waiting if key not in held)
        return sorted(
            key
            for key in waiting
            if selector.matches({"metadata.namespace": key.namespace, "metadata.name": key.name}.__getitem__)
        )
