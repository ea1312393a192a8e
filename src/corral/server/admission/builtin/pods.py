"""What every new pod gets: a service account and its token, a priority, and tolerations of short outages."""

from __future__ import annotations

from corral.core import errors
from corral.core.admission import AdmissionRequest
from corral.core.errors import Forbidden
from corral.core.meta import Obj, annotations_of, name_of
from corral.kinds.kubernetes.scheduling import SYSTEM_CLASSES
from corral.server.admission.builtin.base import POD, BuiltinPlugin, is_new_pod
from corral.server.verbs.options import Random
from corral.store import ObjectKey, Store

TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
TOLERATION_S = 300
_CLASSES = "priorityclasses.scheduling.k8s.io"
_MIRROR = "kubernetes.io/config.mirror"


class ServiceAccount(BuiltinPlugin):
    """Gives a pod the account it runs as, the account's pull secrets and a mounted token."""

    name = "ServiceAccount"
    kinds = (POD,)

    def __init__(self, store: Store, random: Random):
        self._store = store
        self._random = random

    def handles(self, request: AdmissionRequest) -> bool:
        return is_new_pod(request) and _MIRROR not in annotations_of(request.obj or {})

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        assert request.obj is not None
        pod = request.obj
        spec = {**pod["spec"]}
        name = spec.get("serviceAccountName") or "default"
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        account = self._account(request, name)
        if spec.get("automountServiceAccountToken", account.get("automountServiceAccountToken", True)):
            self._mount_token(spec)
        if account.get("imagePullSecrets") and not spec.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [{**secret} for secret in account["imagePullSecrets"]]
        return {**pod, "spec": spec}

    def _account(self, request: AdmissionRequest, name: str) -> Obj:
        stored = self._store.head(ObjectKey("serviceaccounts", request.namespace, name))
        if stored is not None:
            return stored.obj
        if name == "default":
            return {}  # the namespace is so young that its controller has not made it yet
        why = f'error looking up service account {request.namespace}/{name}: serviceaccount "{name}" not found'
        raise errors.forbidden(request.resource, request.name, why)

    def _mount_token(self, spec: Obj) -> None:
        volume = f"kube-api-access-{self._random.suffix()}"
        mounted = False
        for field in ("initContainers", "containers"):
            containers = spec.get(field)
            if not containers:
                continue
            spec[field] = [_with_token(container, volume) for container in containers]
            mounted = mounted or any(new is not old for new, old in zip(spec[field], containers, strict=True))
        if mounted:
            spec["volumes"] = [*(spec.get("volumes") or ()), _token_volume(volume)]


def _with_token(container: Obj, volume: str) -> Obj:
    mounts = container.get("volumeMounts") or []
    if any(mount.get("mountPath") == TOKEN_PATH for mount in mounts):
        return container
    return {**container, "volumeMounts": [*mounts, {"name": volume, "readOnly": True, "mountPath": TOKEN_PATH}]}


def _token_volume(name: str) -> Obj:
    reference = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    sources = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": reference}]}},
    ]
    return {"name": name, "projected": {"sources": sources, "defaultMode": 420}}


class Priority(BuiltinPlugin):
    """Resolves a pod's priority class, and keeps at most one class the default."""

    name = "Priority"
    kinds = (POD, ("scheduling.k8s.io", "PriorityClass"))

    def __init__(self, store: Store):
        self._store = store

    def handles(self, request: AdmissionRequest) -> bool:
        return is_new_pod(request) or (
            request.resource.kind == "PriorityClass" and request.operation in ("CREATE", "UPDATE")
        )

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        assert request.obj is not None
        if request.resource.kind != "Pod":
            return request.obj
        spec = {**request.obj["spec"]}
        name = spec.get("priorityClassName") or ""
        value, policy = 0, "PreemptLowerPriority"
        if name:
            value, policy = self._resolve(request, name)
        elif (default := self._default()) is not None:
            spec["priorityClassName"] = name_of(default)
            value, policy = default.get("value") or 0, default.get("preemptionPolicy") or policy
        self._check_given(request, spec, value, policy)
        spec["priority"] = value
        spec["preemptionPolicy"] = policy
        return {**request.obj, "spec": spec}

    async def validate(self, request: AdmissionRequest) -> None:
        obj = request.obj or {}
        if request.resource.kind == "Pod" or not obj.get("globalDefault"):
            return
        default = self._default()
        if default is not None and name_of(default) != name_of(obj):
            why = f"PriorityClass {name_of(default)} is already marked as default. Only one default can exist"
            raise errors.forbidden(request.resource, name_of(obj), why)

    def _resolve(self, request: AdmissionRequest, name: str) -> tuple[int, str]:
        stored = self._store.head(ObjectKey(_CLASSES, "", name))
        if stored is not None:
            return stored.obj.get("value") or 0, stored.obj.get("preemptionPolicy") or "PreemptLowerPriority"
        if name in SYSTEM_CLASSES:
            return SYSTEM_CLASSES[name], "PreemptLowerPriority"
        raise errors.forbidden(request.resource, request.name, f"no PriorityClass with name {name} was found")

    def _check_given(self, request: AdmissionRequest, spec: Obj, value: int, policy: str) -> None:
        given = spec.get("priority")
        if given is not None and given != value:
            raise _refused(
                request,
                f"the integer value of priority ({given}) must not be provided in pod spec; priority admission "
                f"controller computed {value} from the given PriorityClass name",
            )
        wanted = spec.get("preemptionPolicy")
        if wanted is not None and wanted != policy:
            raise _refused(
                request,
                f"the string value of PreemptionPolicy ({wanted}) must not be provided in pod spec; priority admission "
                f"controller computed {policy} from the given PriorityClass name",
            )

    def _default(self) -> Obj | None:
        found = [stored.obj for stored in self._store.scan(_CLASSES) if stored.obj.get("globalDefault")]
        return min(found, key=lambda obj: obj.get("value") or 0, default=None)


def _refused(request: AdmissionRequest, why: str) -> Forbidden:
    return errors.forbidden(request.resource, request.name, why)


class DefaultTolerationSeconds(BuiltinPlugin):
    """Lets a pod stay on a node that is away for a while, unless it says otherwise."""

    name = "DefaultTolerationSeconds"
    kinds = (POD,)

    def handles(self, request: AdmissionRequest) -> bool:
        return is_new_pod(request)

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        assert request.obj is not None
        spec = request.obj["spec"]
        tolerations = spec.get("tolerations") or []
        missing = [
            taint
            for taint in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
            if not any(_tolerates(toleration, taint) for toleration in tolerations)
        ]
        if not missing:
            return request.obj
        added = [
            {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_S}
            for taint in missing
        ]
        return {**request.obj, "spec": {**spec, "tolerations": [*tolerations, *added]}}


def _tolerates(toleration: Obj, taint: str) -> bool:
    return toleration.get("key") in (None, "", taint) and toleration.get("effect") in (None, "", "NoExecute")
