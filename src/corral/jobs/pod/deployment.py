"""Deployments in a queue: each of their pods is a job of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from corral.core.meta import Key, Obj, labels_of, spec_of, with_annotations, with_labels, with_spec
from corral.core.resource import Resource
from corral.jobs.framework.paths import Path
from corral.jobs.framework.queued_set import Claim
from corral.kinds.kubernetes.apps.kinds import DEPLOYMENTS
from corral.kinds.kueue import names

_HANDED_ON = (names.QUEUE_NAME, names.PRIORITY_CLASS)


class QueuedDeployment:
    """A Deployment whose pods are queued one by one."""

    framework: ClassVar[str] = "deployment"
    resource: ClassVar[Resource] = DEPLOYMENTS
    holds_pods: ClassVar[bool] = False
    waits_at_zero: ClassVar[bool] = False
    fixed_fields: ClassVar[Sequence[Path]] = ()

    def with_held_templates(self, owner: Obj) -> Obj:
        template = with_annotations(spec_of(owner).get("template") or {}, {names.POD_SUSPENDING_PARENT: self.framework})
        given = {name: labels_of(owner)[name] for name in _HANDED_ON if labels_of(owner).get(name)}
        held = with_labels(template, {**given, names.MANAGED: "true"})
        return with_spec(owner, {**spec_of(owner), "template": held})

    def claims(self, owner: Obj, pods: Sequence[Obj]) -> list[Claim]:
        return []

    def set_of_pod(self, pod: Obj) -> Key | None:
        return None

    def complaint(self, owner: Obj) -> tuple[str, str] | None:
        return None
