"""The webhook configurations of a cluster, made from the plug-ins: each is asked which writes it looks at.

No list of kinds is kept here, so a new rule of a plug-in is registered by being there. What may never be locked out is left
out: Kubernetes' own namespaces and ours, jobs of namespaces that are not managed, and jobs that name no queue while nobody
answers about them.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from corral.clusters.webhooks.reviews import probe
from corral.configuration.queueing import QueueingConfig
from corral.core.admission import AdmissionPlugin, AdmissionRequest, may_change, may_refuse
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.core.selectors import to_label_selector
from corral.jobs.framework.registry import queued_sets, with_implied
from corral.kinds.kueue import names

MUTATE, VALIDATE, CONVERT = "/mutate", "/validate", "/convert"
TIMEOUT_S = 5
UNMARKED_TIMEOUT_S = 1
"""What is let pass when nobody answers should not have waited long for it."""
LABELS = {"app.kubernetes.io/name": "corral", "app.kubernetes.io/managed-by": "corral"}
KUBERNETES_NAMESPACES = ("kube-system", "kube-public", "kube-node-lease")
INJECT_FROM = "cert-manager.io/inject-ca-from"
NAMESPACE_NAME = "kubernetes.io/metadata.name"
OPERATIONS = ("CREATE", "UPDATE", "DELETE")
SUBRESOURCES = ("", "status")
_MARKS = (
    ("labels", names.QUEUE_NAME),
    ("labels", names.MANAGED),
    ("labels", names.POD_GROUP_NAME),
    ("annotations", names.QUEUE_NAME),
    ("annotations", names.POD_GROUP_NAME),
    ("annotations", names.POD_SUSPENDING_PARENT),
)


class Names(NamedTuple):
    """How webhooks are called that are registered together: their configurations, and each hook that changes or refuses a kind. What is
    refused is told under the name of the hook, so these are upstream's."""

    part: str
    changing: str
    refusing: str

    @property
    def mutating(self) -> str:
        return f"{self.part}-mutating-webhook-configuration"

    @property
    def validating(self) -> str:
        return f"{self.part}-validating-webhook-configuration"


QUEUEING_NAMES = Names("corral", "m{}.kb.io", "v{}.kb.io")
HUB_NAMES = Names("corral-hub", "fleet.{}.mutating", "fleet.{}.validating")
MUTATING_NAME, VALIDATING_NAME = QUEUEING_NAMES.mutating, QUEUEING_NAMES.validating
_CALLED = {"ClusterResourcePlacement": "clusterresourceplacementv1beta1"}
"""Kinds that upstream's webhooks call otherwise than their kind."""


class Jobs(NamedTuple):
    """Which writes are of jobs, and of those, which wait for us: in the namespaces that `namespaces` selects the ones that name
    a queue, or all of them where `wait_unnamed`. Those of `pods`, which are also sets of them, have no rules where they name none."""

    kinds: frozenset[tuple[str, str]]
    pods: frozenset[tuple[str, str]]
    namespaces: Obj
    wait_unnamed: bool

    @classmethod
    def of(cls, config: QueueingConfig) -> Jobs:
        sets = [found.resource for found in queued_sets(with_implied(config.frameworks))]
        pods = frozenset({("", "Pod"), *((each.group, each.kind) for each in sets)})
        jobs = [adapter.resource for adapter in config.job_adapters()]
        kinds = pods.union((each.group, each.kind) for each in jobs)
        return cls(kinds, pods, managed_namespaces(config), config.manage_jobs_without_queue_name)


NO_JOBS = Jobs(frozenset(), frozenset(), {}, False)
"""Where no jobs are queued."""


class Endpoint(NamedTuple):
    """Where the API server calls us: a Service, and the port of it. `bundle` is what it believes there; where that is empty,
    cert-manager fills it in from its Certificate `injected_from`."""

    namespace: str
    service: str
    port: int
    bundle: bytes = b""
    injected_from: str = ""

    @property
    def hosts(self) -> list[str]:
        """The names our certificate is for."""
        name = f"{self.service}.{self.namespace}"
        return [f"{name}.svc", f"{name}.svc.cluster.local", name, "localhost", "127.0.0.1"]

    @property
    def believed(self) -> Obj:
        """The field that says what to believe."""
        return {"caBundle": base64.b64encode(self.bundle).decode()} if self.bundle else {}

    @property
    def metadata(self) -> Obj:
        """What every object that names this endpoint carries."""
        annotations = {"annotations": {INJECT_FROM: self.injected_from}} if self.injected_from else {}
        return {"labels": LABELS, **annotations}

    def client_config(self, path: str) -> Obj:
        reference = {"namespace": self.namespace, "name": self.service, "path": path, "port": self.port}
        return {"service": reference, **self.believed}


class WebhookRule(NamedTuple):
    """Writes of one kind that some plug-in looks at."""

    resource: Resource
    patterns: tuple[str, ...]
    operations: tuple[str, ...]

    @property
    def kind(self) -> tuple[str, str]:
        return self.resource.group, self.resource.kind


Looks = Callable[[AdmissionPlugin, AdmissionRequest], bool]


def writes(plugins: Sequence[AdmissionPlugin], resources: Iterable[Resource], looks: Looks) -> list[WebhookRule]:
    """The writes of these kinds that a plug-in looks at in this way: to change them, or to refuse them."""
    found = []
    for resource in resources:
        asked = {
            (subresource, operation)
            for subresource in SUBRESOURCES
            for operation in OPERATIONS
            if any(looks(plugin, probe(resource, operation, subresource)) for plugin in plugins)
        }
        if asked:
            subresources = {subresource for subresource, _ in asked}
            patterns = [
                f"{resource.plural}/{each}" if each else resource.plural
                for each in SUBRESOURCES
                if each in subresources
            ]
            operations = [each for each in OPERATIONS if each in {operation for _, operation in asked}]
            found.append(WebhookRule(resource, tuple(patterns), tuple(operations)))
    return found


def mutating_configuration(
    plugins: Sequence[AdmissionPlugin],
    resources: Iterable[Resource],
    endpoint: Endpoint,
    jobs: Jobs,
    names: Names = QUEUEING_NAMES,
) -> Obj:
    """What changes writes."""
    hooks = []
    for write in writes(plugins, resources, may_change):
        hook = _webhook(names.changing, write, endpoint, MUTATE)
        hooks += _of_jobs({**hook, "reinvocationPolicy": "Never"}, write, jobs)
    return _configuration("MutatingWebhookConfiguration", names.mutating, endpoint, hooks)


def validating_configuration(
    plugins: Sequence[AdmissionPlugin],
    resources: Iterable[Resource],
    endpoint: Endpoint,
    jobs: Jobs,
    names: Names = QUEUEING_NAMES,
) -> Obj:
    """What refuses writes."""
    hooks = []
    for write in writes(plugins, resources, may_refuse):
        hook = _webhook(names.refusing, write, endpoint, VALIDATE)
        found = _of_jobs(hook, write, jobs)
        hooks += found[:1] if write.kind in jobs.pods else found
    return _configuration("ValidatingWebhookConfiguration", names.validating, endpoint, hooks)


def _of_jobs(hook: Obj, write: WebhookRule, jobs: Jobs) -> list[Obj]:
    """The webhook of a kind of jobs as one that writes wait for, and one that they pass when nobody answers. Any other is as it is."""
    if write.kind not in jobs.kinds:
        return [hook]
    waits = NOT_DELETED if jobs.wait_unnamed else f"{NOT_DELETED} && ({is_marked()})"
    strict = {
        **hook,
        "namespaceSelector": jobs.namespaces,
        "matchConditions": [{"name": "waits", "expression": waits}],
    }
    lenient = {
        **strict,
        "name": f"unmarked-{hook['name']}",
        "failurePolicy": "Ignore",
        "timeoutSeconds": UNMARKED_TIMEOUT_S,
        "matchConditions": [{"name": "does-not-wait", "expression": f"{NOT_DELETED} && !({is_marked()})"}],
    }
    return [strict] if jobs.wait_unnamed else [strict, lenient]


NOT_DELETED = "!has(object.metadata.deletionTimestamp)"
"""What is being deleted has finalizers taken away by those who clean up, who must not have to wait."""


def is_marked() -> str:
    """Says in CEL whether an object names a queue or is marked as queued in another way, or was before it is changed."""
    was = f"(oldObject != null && ({_marked('oldObject')}))"
    return f"{_marked('object')} || {was}"


def _marked(variable: str) -> str:
    return " || ".join(
        f"(has({variable}.metadata.{field}) && '{name}' in {variable}.metadata.{field})" for field, name in _MARKS
    )


def managed_namespaces(config: QueueingConfig) -> Obj:
    """Selects the namespaces whose jobs are queued."""
    ours = to_label_selector(config.managed_namespaces)
    others = excluded_namespaces(config.namespace)
    return {"matchExpressions": [*ours["matchExpressions"], *others["matchExpressions"]]}


def excluded_namespaces(own: str) -> Obj:
    """Selects the namespaces in which we may be asked."""
    excluded = list(dict.fromkeys((*KUBERNETES_NAMESPACES, own)))
    return {"matchExpressions": [{"key": NAMESPACE_NAME, "operator": "NotIn", "values": excluded}]}


def _webhook(name: str, write: WebhookRule, endpoint: Endpoint, path: str) -> Obj:
    resource = write.resource
    rule = {
        "apiGroups": [resource.group],
        "apiVersions": [resource.version],
        "operations": list(write.operations),
        "resources": list(write.patterns),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
    }
    hook: Obj = {
        "name": name.format(_CALLED.get(resource.kind, resource.kind.lower())),
        "admissionReviewVersions": ["v1"],
        "clientConfig": endpoint.client_config(path),
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "rules": [rule],
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_S,
    }
    if resource.namespaced:
        hook["namespaceSelector"] = excluded_namespaces(endpoint.namespace)
    return hook


def _configuration(kind: str, name: str, endpoint: Endpoint, hooks: list[Obj]) -> Obj:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, **endpoint.metadata},
        "webhooks": hooks,
    }
