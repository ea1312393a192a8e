"""Deployments in a queue: each of their pods is a job of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from corral.core.meta import Key, Obj, labels_of, spec_of, with_annotations, with_labels, with_spec
from corral.core.resource import Resource
from corral.jobs.framework.queued_set import Claim
from corral.kinds.kubernetes.apps.kinds import DEPLOYMENTS
from corral.kinds.kueue import names


class QueuedDeployment:
    """A Deployment whose pods are queued one by one."""

    framework: ClassVar[str] = "deployment"
    resource: ClassVar[Resource] = DEPLOYMENTS
    holds_pods: ClassVar[bool] = False
    waits_at_zero: ClassVar[bool] = False

    def with_held_templates(self, owner: Obj) -> Obj:
        template = with_annotations(spec_of(owner).get("template") or {}, {names.POD_SUSPENDING_PARENT: self.framework})
        queue = labels_of(owner).get(names.QUEUE_NAME, "")
        held = with_labels(template, {names.QUEUE_NAME: queue, names.MANAGED: "true"})
        return with_spec(owner, {**spec_of(owner), "template": held})

    def claims(self, owner: Obj, pods: Sequence[Obj]) -> list[Claim]:
        return []

    def set_of_pod(self, pod: Obj) -> Key | None:
        return None

    def complaint(self, owner: Obj) -> tuple[str, str] | None:
        return None
