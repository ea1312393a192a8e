"""The Deployments of the operators and agents Corral replaces, for tools and people that look whether they are installed.

The operators run in the process of the API server. Each has the Deployment it would have as an installation of its own, in the
same namespace, and this process shows that Deployment's pods as running for as long as its controllers run. A pod that was
running in an earlier process has restarted with this one.

Whoever installs such an operator all the same, in that namespace or another, gets a Deployment whose pods stand for the same:
its program is not started, and its webhooks are not asked, because the work is done here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from corral.clusters.kueue_installation.controller_pod import running_status
from corral.clusters.kueue_installation.objects import POD_LABELS, SCHEDULER_NAME
from corral.configuration.fleet import HUB, MEMBER
from corral.core.admission import AdmissionRequest
from corral.core.errors import AlreadyExists
from corral.core.meta import Key, Obj, is_deleting, key_of, labels_of, name_of, spec_of, status_of, uid_of
from corral.core.patch.apply import STAND_IN
from corral.core.resource import Resource
from corral.jobs.framework.job_kind import InstalledOperator
from corral.jobs.framework.registry import job_kinds
from corral.kinds.kubernetes.apps.kinds import DEPLOYMENTS
from corral.kinds.kubernetes.core.kinds import NAMESPACES, PODS, SERVICE_ACCOUNTS
from corral.runtime.controller import Manager, Result, Watch

FLEET_NAMESPACE = "fleet-system"


def _agent(name: str, webhook_service: str = "") -> InstalledOperator:
    labels = {"app.kubernetes.io/name": name}
    return InstalledOperator(
        namespace=FLEET_NAMESPACE, deployment=name, labels=labels, container=name, webhook_service=webhook_service
    )


AGENTS = {HUB: _agent("hub-agent", "fleetwebhook"), MEMBER: _agent("member-agent")}
"""KubeFleet's, where a cluster has such a role."""


def replaced_operators(roles: Iterable[str] = ()) -> list[InstalledOperator]:
    """Those whose work is done in the process of an embedded cluster with these roles."""
    operators = [kind.installation for kind in job_kinds() if kind.installation is not None]
    return [*operators, *(AGENTS[role] for role in AGENTS if role in roles)]


class OperatorInstallations:
    """Creates the Deployments where they are missing, and shows their pods as running."""

    name = "operator-installations"

    def __init__(self, manager: Manager, roles: Iterable[str] = ()) -> None:
        self._operators = replaced_operators(roles)
        self._client, self._clock = manager.client, manager.clock
        self._pods = manager.informer(PODS)
        self._started: set[str] = set()
        manager.run_task(self._install, self.name)
        manager.add(self, watches=[Watch(PODS, map=lambda pod: (key_of(pod),) if self._is_own(pod) else ())])

    def _is_own(self, pod: Obj) -> bool:
        in_process = spec_of(pod).get("schedulerName") == SCHEDULER_NAME
        # The pods of the queueing controllers ask for no node either; their installation shows them.
        return in_process and not POD_LABELS.items() <= labels_of(pod).items() and _is_of(self._operators, pod)

    async def reconcile(self, key: Key) -> Result | None:
        pod = self._pods.get(key)
        if pod is not None and not is_deleting(pod) and uid_of(pod) not in self._started:
            new = {**pod, "status": {**status_of(pod), **running_status(pod, self._clock.timestamp())}}
            await self._client.update(PODS, new, subresource="status", manager=self.name)
            self._started.add(uid_of(pod))
        return None

    async def _install(self) -> None:
        """Create what is missing; what somebody changed is left alone."""
        for operator in self._operators:
            metadata = {"name": operator.deployment, "namespace": operator.namespace}
            await self._ensure(NAMESPACES, {"metadata": {"name": operator.namespace}})
            await self._ensure(SERVICE_ACCOUNTS, {"metadata": metadata})
            await self._ensure(DEPLOYMENTS, deployment(operator))

    async def _ensure(self, resource: Resource, obj: Obj) -> None:
        try:
            await self._client.create(resource, obj, manager=STAND_IN)
        except AlreadyExists:
            pass


class InstalledAgain:
    """Takes Deployments of operators that are replaced here, and lets their pods ask for no node."""

    name = "OperatorInstalledAgain"

    def __init__(self, roles: Iterable[str] = ()) -> None:
        self._operators = replaced_operators(roles)

    def handles(self, request: AdmissionRequest) -> bool:
        is_write = request.operation in ("CREATE", "UPDATE") and not request.subresource
        return is_write and request.resource.plural == "deployments" and request.resource.group == "apps"

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        obj = request.obj
        if obj is None:
            return obj
        template = spec_of(obj).get("template") or {}
        pod = spec_of(template)
        operator = next((each for each in self._operators if _is_called(each, obj) and _is_of([each], template)), None)
        if operator is None or pod.get("schedulerName") == SCHEDULER_NAME:
            return obj
        request.warn(
            f"Corral does the work of {operator.deployment} itself: the program of this Deployment is not started"
        )
        in_process = {**template, "spec": {**pod, "schedulerName": SCHEDULER_NAME}}
        return {**obj, "spec": {**spec_of(obj), "template": in_process}}

    async def validate(self, request: AdmissionRequest) -> None:
        """Nothing is refused."""


def _is_called(operator: InstalledOperator, obj: Obj) -> bool:
    """Whether an object has the operator's name, before which charts put that of their release."""
    return name_of(obj) == operator.deployment or name_of(obj).endswith(f"-{operator.deployment}")


def _is_of(operators: Sequence[InstalledOperator], templated: Obj) -> bool:
    """Whether a pod, or the template of one, is an operator's by its labels."""
    return any(operator.labels.items() <= labels_of(templated).items() for operator in operators)


def deployment(operator: InstalledOperator) -> Obj:
    """The Deployment of an operator that runs in the API server's process, which asks for no node."""
    labels = dict(operator.labels)
    pod = {
        "serviceAccountName": operator.deployment,
        "schedulerName": SCHEDULER_NAME,
        "containers": [{"name": operator.container, "image": "corral"}],
    }
    return {
        "metadata": {"name": operator.deployment, "namespace": operator.namespace, "labels": labels},
        "spec": {
            "replicas": operator.replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
