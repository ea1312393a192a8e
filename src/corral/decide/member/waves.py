"""The order in which the manifests of one Work are applied: what others need comes first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from corral.decide.member.manifests import Manifest

LAST_WAVE: Final = 999
_WAVES: Final = (
    "namespaces priorityclasses",
    "networkpolicies resourcequotas limitranges podsecuritypolicies poddisruptionbudgets serviceaccounts secrets"
    " configmaps storageclasses persistentvolumes persistentvolumeclaims customresourcedefinitions ingressclasses",
    "clusterroles roles",
    "clusterrolebindings rolebindings",
    "services daemonsets pods replicationcontrollers replicasets deployments horizontalpodautoscalers statefulsets jobs"
    " cronjobs ingresses",
    "apiservices validatingwebhookconfigurations mutatingwebhookconfigurations",
)
_WAVE_OF: Final = {plural: number for number, names in enumerate(_WAVES) for plural in names.split()}


def wave_of(group: str, plural: str) -> int:
    """The wave of a kind; kinds that are not Kubernetes' own come last."""
    own = "." not in group or group.endswith(".k8s.io")
    return _WAVE_OF.get(plural, LAST_WAVE) if own else LAST_WAVE


def waves(manifests: Sequence[Manifest]) -> list[list[Manifest]]:
    """The manifests in the groups that are applied one after the other."""
    grouped: dict[int, list[Manifest]] = {}
    for manifest in manifests:
        resource = manifest.resource
        number = wave_of(resource.group, resource.plural) if resource is not None else LAST_WAVE
        grouped.setdefault(number, []).append(manifest)
    return [grouped[number] for number in sorted(grouped)]
