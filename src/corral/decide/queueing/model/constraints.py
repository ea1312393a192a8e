"""What a pod set says about where its pods may run: node constraints of its template, and its topology request."""

from __future__ import annotations

from corral.core.meta import Obj
from corral.decide.queueing.model.decode import toleration_from
from corral.decide.queueing.model.values import UNCONSTRAINED, PodConstraints, Requirement, SliceLayer, TopologyRequest


def constraints_from(spec: Obj, *, preferences: bool = False) -> PodConstraints:
    """Node selector, node affinity and tolerations of a pod spec; preferred affinity only where it counts."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms")
    preferred = (affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()) if preferences else ()
    selector, tolerations = spec.get("nodeSelector"), spec.get("tolerations")
    if not (selector or tolerations or terms or preferred):
        return UNCONSTRAINED
    return PodConstraints(
        node_selector=tuple(sorted((selector or {}).items())),
        affinity_terms=tuple(map(_term_from, terms or ())),
        tolerations=tuple(map(toleration_from, tolerations or ())),
        preferred=tuple((int(term.get("weight") or 0), _term_from(term.get("preference") or {})) for term in preferred),
    )


def _term_from(term: Obj) -> tuple[Requirement, ...]:
    fields = [_requirement_from(entry) for entry in term.get("matchExpressions") or ()]
    # A field selector can only name the node; it is matched like a label nobody else uses.
    fields += [_requirement_from({**entry, "key": "metadata.name"}) for entry in term.get("matchFields") or ()]
    return tuple(fields)


def _requirement_from(entry: Obj) -> Requirement:
    return Requirement(entry.get("key") or "", entry.get("operator") or "", tuple(entry.get("values") or ()))


def topology_request_from(obj: Obj | None) -> TopologyRequest | None:
    """The `topologyRequest` of a pod set."""
    if not obj:
        return None
    layers = obj.get("podsetSliceRequiredTopologyConstraints")
    if layers:
        slices = tuple(SliceLayer(layer.get("topology", ""), layer.get("size", 0)) for layer in layers)
    elif obj.get("podSetSliceRequiredTopology"):
        slices = (SliceLayer(obj["podSetSliceRequiredTopology"], obj.get("podSetSliceSize") or 0),)
    else:
        slices = ()
    return TopologyRequest(
        required=obj.get("required") or "",
        preferred=obj.get("preferred") or "",
        unconstrained=bool(obj.get("unconstrained")),
        group=obj.get("podSetGroupName") or "",
        slices=slices,
    )
