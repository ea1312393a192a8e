"""Runs Sweeps in an embedded cluster: one pod per trial, and a condition when all have ended."""

from __future__ import annotations

from corral.core import conditions
from corral.core.meta import Key, Obj, is_owned_by, labels_of, name_of, owner_ref, spec_of, status_of, uid_of
from corral.jobs.framework.adapter import managed_by
from corral.jobs.framework.operators import OperatorContext
from corral.kinds.kubernetes.core.kinds import PODS
from corral.runtime.controller import Manager, Watch, owner_key
from sweeps.adapter import NAME_LABEL, Sweep
from sweeps.kind import SWEEPS


class SweepController:
    name = "sweep"

    def __init__(self, manager: Manager) -> None:
        self._client, self._clock = manager.client, manager.clock
        self._sweeps, self._pods = manager.informer(SWEEPS), manager.informer(PODS)
        manager.add(self, watches=[Watch(SWEEPS), Watch(PODS, map=owner_key("Sweep"))])

    async def reconcile(self, key: Key) -> None:
        sweep = self._sweeps.get(key)
        if sweep is None or managed_by(Sweep(), sweep) or Sweep().finished(sweep) is not None:
            return
        pods = {name_of(pod): pod for pod in self._pods.list(key.namespace) if is_owned_by(pod, uid_of(sweep))}
        if spec_of(sweep).get("suspend"):
            for name in pods:
                await self._client.delete(PODS, name, key.namespace)
        else:
            for number in range(int(spec_of(sweep)["trials"])):
                if f"{key.name}-{number}" not in pods:
                    await self._create(sweep, number)
        await self._report(sweep, list(pods.values()))

    async def _create(self, sweep: Obj, number: int) -> None:
        template = spec_of(sweep)["template"]
        labels = {**labels_of(template), NAME_LABEL: name_of(sweep)}
        metadata = {
            **(template.get("metadata") or {}), "labels": labels, "name": f"{name_of(sweep)}-{number}",
            "namespace": sweep["metadata"]["namespace"], "ownerReferences": [owner_ref(sweep)],
        }  # fmt: skip
        await self._client.create(PODS, {"metadata": metadata, "spec": template["spec"]})

    async def _report(self, sweep: Obj, pods: list[Obj]) -> None:
        phases = [str(status_of(pod).get("phase")) for pod in pods]
        words = {"active": "Running", "succeeded": "Succeeded", "failed": "Failed"}
        counts = {name: phases.count(phase) for name, phase in words.items()}
        held = conditions.conditions_of(sweep)
        if counts["succeeded"] + counts["failed"] >= int(spec_of(sweep)["trials"]):
            kind = "Failed" if counts["failed"] else "Complete"
            entry = conditions.condition(kind, True, "TrialsEnded", f"{counts['succeeded']} trials succeeded")
            held = conditions.set_condition(held, entry, self._clock.timestamp())
        status = {**counts, "conditions": held}
        if status != status_of(sweep):
            await self._client.update(SWEEPS, {**sweep, "status": status}, subresource="status")


def operators(context: OperatorContext) -> None:
    SweepController(context.manager)
