"""Rules for apps/v1 kinds."""

from __future__ import annotations

from corral.core import names
from corral.core.errors import Cause
from corral.core.meta import Obj, labels_of, spec_of, status_of
from corral.core.selectors import from_label_selector
from corral.core.validation import (
    at_least_zero,
    check_label_selector,
    check_labels,
    check_metadata,
    check_metadata_update,
    forbidden,
    go_quote,
    immutable,
    invalid,
    not_supported,
    required,
)  # fmt: skip
from corral.kinds.kubernetes.core.rules import check_claim_spec
from corral.kinds.kubernetes.pods.downward_rules import check_all, shown_selector
from corral.kinds.kubernetes.pods.rules import check_template
from corral.kinds.machinery import go_struct_text as internal

_MISMATCH = "`selector` does not match template `labels`"


def _check_selector(selector: Obj | None, kind: str) -> list[Cause]:
    if selector is None:
        return [required("spec.selector")]
    causes = check_label_selector("spec.selector", selector)
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        causes.append(invalid("spec.selector", shown_selector(selector), f"empty selector is invalid for {kind}"))
    return causes


def _check_same_selector(new: Obj, old: Obj) -> list[Cause]:
    selectors = (shown_selector(spec_of(obj).get("selector")) for obj in (new, old))
    return immutable("spec.selector", *selectors)


def _matches(selector: Obj | None, labels: dict[str, str]) -> bool | None:
    """Whether the selector matches; None when it cannot be read. A missing selector matches nothing."""
    if selector is None:
        return False
    try:
        return from_label_selector(selector).matches(labels)
    except ValueError:
        return None


def _check_selected(spec: Obj) -> list[Cause]:
    labels = labels_of(spec.get("template") or {})
    matched = _matches(spec.get("selector"), labels)
    if matched is None:
        return [invalid("spec.selector", shown_selector(spec.get("selector")), "invalid label selector")]
    shown = dict(sorted(labels.items())) or None
    return [] if matched else [invalid("spec.template.metadata.labels", shown, _MISMATCH)]


def _check_always_restarts(template: Obj, kind: str, path: str = "spec.template.spec") -> list[Cause]:
    spec = template.get("spec") or {}
    causes: list[Cause] = []
    if spec.get("restartPolicy") != "Always":
        causes.append(not_supported(f"{path}.restartPolicy", spec.get("restartPolicy") or "", ("Always",)))
    if spec.get("activeDeadlineSeconds") is not None:
        detail = f"activeDeadlineSeconds in {kind} is not Supported"
        causes.append(forbidden(f"{path}.activeDeadlineSeconds", detail))
    return causes


def _check_replicated_template(spec: Obj) -> list[Cause]:
    template = spec.get("template") or {}
    causes = _check_selected(spec)
    if causes and causes[0].field == "spec.selector":
        return causes
    return causes + check_template(template, "spec.template") + _check_always_restarts(template, "ReplicaSet")


# Deployments and ReplicaSets


def check_deployment(deployment: Obj) -> list[Cause]:
    spec = spec_of(deployment)
    causes = at_least_zero("spec.replicas", spec.get("replicas"))
    causes += _check_selector(spec.get("selector"), "deployment")
    causes += _check_replicated_template(spec)
    causes += _check_deployment_strategy(spec.get("strategy") or {})
    causes += at_least_zero("spec.minReadySeconds", spec.get("minReadySeconds"))
    causes += at_least_zero("spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"))
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None:
        causes += at_least_zero("spec.progressDeadlineSeconds", deadline)
        if deadline <= (spec.get("minReadySeconds") or 0):
            causes.append(invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
    return causes


def check_deployment_update(new: Obj, old: Obj) -> list[Cause]:
    causes = check_metadata_update(new["metadata"], old["metadata"])
    causes += check_deployment(new)
    return causes + _check_same_selector(new, old)


def _check_deployment_strategy(strategy: Obj) -> list[Cause]:
    path, kind, rolling = "spec.strategy", strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "Recreate":
        detail = "may not be specified when strategy `type` is 'Recreate'"
        return [] if rolling is None else [forbidden(f"{path}.rollingUpdate", detail)]
    if kind != "RollingUpdate":
        return [_unsupported(path, "DeploymentStrategy", strategy, ("Recreate", "RollingUpdate"))]
    return _check_rolling_deployment(rolling or {}, f"{path}.rollingUpdate")


def _unsupported(path: str, go_name: str, value: Obj, allowed: tuple[str, ...]) -> Cause:
    shown = internal.render(f"apps.{go_name}", f"apps/v1.{go_name}", value)
    choices = ", ".join(go_quote(choice) for choice in allowed)
    return Cause("FieldValueNotSupported", f"Unsupported value: {shown}: supported values: {choices}", path)


def check_int_or_percent(value: int | str, path: str) -> list[Cause]:
    """A count or a percentage, not negative."""
    if isinstance(value, str):
        return check_all(path, value, names.check_percent(value))
    return at_least_zero(path, value)


def percent_value(value: int | str) -> int | None:
    """The number before the % sign; None for counts and malformed text."""
    if not isinstance(value, str) or names.check_percent(value):
        return None
    return int(value[:-1])


def _amount(value: int | str) -> int:
    percent = percent_value(value)
    if percent is not None:
        return percent
    return value if isinstance(value, int) else 0


def _check_at_most_whole(value: int | str, path: str) -> list[Cause]:
    return [invalid(path, value, "must not be greater than 100%")] if (percent_value(value) or 0) > 100 else []


def _check_rolling_deployment(rolling: Obj, path: str) -> list[Cause]:
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    causes = check_int_or_percent(unavailable, f"{path}.maxUnavailable")
    causes += check_int_or_percent(surge, f"{path}.maxSurge")
    if _amount(unavailable) == 0 and _amount(surge) == 0:
        causes.append(invalid(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"))
    return causes + _check_at_most_whole(unavailable, f"{path}.maxUnavailable")


def check_replica_set(replica_set: Obj) -> list[Cause]:
    spec = spec_of(replica_set)
    causes = at_least_zero("spec.replicas", spec.get("replicas"))
    causes += at_least_zero("spec.minReadySeconds", spec.get("minReadySeconds"))
    causes += _check_selector(spec.get("selector"), "deployment")
    return causes + _check_replicated_template(spec)


def check_replica_set_update(new: Obj, old: Obj) -> list[Cause]:
    causes = check_metadata_update(new["metadata"], old["metadata"])
    causes += check_replica_set(new)
    return causes + _check_same_selector(new, old)


def check_replication_controller(controller: Obj) -> list[Cause]:
    spec = spec_of(controller)
    selector, template = spec.get("selector") or {}, spec.get("template")
    causes = at_least_zero("spec.minReadySeconds", spec.get("minReadySeconds"))
    if not selector:
        causes.append(required("spec.selector"))
    causes += at_least_zero("spec.replicas", spec.get("replicas"))
    if template is None:
        return [*causes, required("spec.template")]
    labels = labels_of(template)
    if any(labels.get(key) != value for key, value in selector.items()):
        shown = dict(sorted(labels.items())) or None
        causes.append(invalid("spec.template.metadata.labels", shown, _MISMATCH))
    causes += check_template(template, "spec.template")
    return causes + _check_always_restarts(template, "ReplicationController")


def check_replication_controller_update(new: Obj, old: Obj) -> list[Cause]:
    causes = check_metadata_update(new["metadata"], old["metadata"])
    return causes + check_replication_controller(new)


# StatefulSets


def check_stateful_set(stateful_set: Obj) -> list[Cause]:
    return _check_stateful_spec(spec_of(stateful_set), new=True)


def _check_stateful_spec(spec: Obj, *, new: bool) -> list[Cause]:
    policy = spec.get("podManagementPolicy") or ""
    causes: list[Cause] = [] if policy else [required("spec.podManagementPolicy")]
    if policy and policy not in ("OrderedReady", "Parallel"):
        causes.append(invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'"))
    causes += _check_stateful_strategy(spec.get("updateStrategy") or {})
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for field in ("whenDeleted", "whenScaled"):
        if retention and retention.get(field) not in ("Retain", "Delete"):
            where = f"spec.persistentVolumeClaimRetentionPolicy.{field}"
            causes.append(not_supported(where, retention.get(field) or "", ("Retain", "Delete")))
    for position, claim in enumerate(spec.get("volumeClaimTemplates") or () if new else ()):
        causes += check_claim_spec(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{position}].spec")
    causes += at_least_zero("spec.replicas", spec.get("replicas"))
    causes += at_least_zero("spec.minReadySeconds", spec.get("minReadySeconds"))
    causes += at_least_zero("spec.ordinals.start", (spec.get("ordinals") or {}).get("start"))
    service = spec.get("serviceName") or ""
    if new and service:
        causes += check_all("spec.serviceName", service, names.check_label(service))
    causes += _check_selector(spec.get("selector"), "statefulset")
    causes += _check_stateful_template(spec)
    return causes + _check_always_restarts(spec.get("template") or {}, "StatefulSet")


def _check_stateful_template(spec: Obj) -> list[Cause]:
    causes = _check_selected(spec)
    if causes and causes[0].field == "spec.selector":
        return [invalid("spec.selector", shown_selector(spec.get("selector")), "")]
    template = spec.get("template") or {}
    pod = {key: value for key, value in (template.get("spec") or {}).items() if key not in ("subdomain", "hostname")}
    templates = spec.get("volumeClaimTemplates") or ()
    claims = list(dict.fromkeys((claim.get("metadata") or {}).get("name") or "" for claim in templates))
    if claims:
        own = [volume for volume in pod.get("volumes") or () if volume.get("name") not in claims]
        pod["volumes"] = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims] + own
    causes += check_template({**template, "spec": pod}, "spec.template")
    return causes + check_labels("spec.template.labels", labels_of(template))


def _check_stateful_strategy(strategy: Obj) -> list[Cause]:
    path, kind, rolling = "spec.updateStrategy", strategy.get("type"), strategy.get("rollingUpdate")
    if not kind:
        return [required(path)]
    if kind == "OnDelete":
        if rolling is None:
            return []
        names_ = ("apps.RollingUpdateStatefulSetStrategy", "apps/v1.RollingUpdateStatefulSetStrategy")
        detail = "only allowed for updateStrategy 'RollingUpdate'"
        return [internal.invalid(f"{path}.rollingUpdate", *names_, rolling, detail)]
    if kind != "RollingUpdate":
        names_ = ("apps.StatefulSetUpdateStrategy", "apps/v1.StatefulSetUpdateStrategy")
        return [internal.invalid(path, *names_, strategy, "must be 'RollingUpdate' or 'OnDelete'")]
    return at_least_zero(f"{path}.rollingUpdate.partition", (rolling or {}).get("partition"))


_STATEFUL_MUTABLE = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip


def check_stateful_set_update(new: Obj, old: Obj) -> list[Cause]:
    causes = check_metadata_update(new["metadata"], old["metadata"])
    after, before = spec_of(new), spec_of(old)
    causes += _check_stateful_spec(after, new=False)
    fixed = {*after, *before} - {*_STATEFUL_MUTABLE}
    if any(after.get(field) != before.get(field) for field in fixed):
        quoted = [f"'{field}'" for field in _STATEFUL_MUTABLE]
        listed = f"{', '.join(quoted[:-1])} and {quoted[-1]}"
        detail = f"updates to statefulset spec for fields other than {listed} are forbidden"
        causes.append(forbidden("spec", detail))
    return causes


# DaemonSets and revisions


def check_daemon_set(daemon_set: Obj) -> list[Cause]:
    spec = spec_of(daemon_set)
    selector, template = spec.get("selector"), spec.get("template") or {}
    causes = check_label_selector("spec.selector", selector)
    if _matches(selector, labels_of(template)) is False:
        shown = dict(sorted(labels_of(template).items())) or None
        causes.append(invalid("spec.template.metadata.labels", shown, _MISMATCH))
    if selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions"):
        causes.append(invalid("spec.selector", selector, "empty selector is invalid for daemonset"))
    causes += check_template(template, "spec.template") + _check_always_restarts(template, "DaemonSet")
    causes += at_least_zero("spec.minReadySeconds", spec.get("minReadySeconds"))
    causes += _check_daemon_strategy(spec.get("updateStrategy") or {})
    return causes + at_least_zero("spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"))


def _check_daemon_strategy(strategy: Obj) -> list[Cause]:
    path, kind, rolling = "spec.updateStrategy", strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "OnDelete":
        return []
    if kind != "RollingUpdate":
        return [_unsupported(path, "DaemonSetUpdateStrategy", strategy, ("RollingUpdate", "OnDelete"))]
    if rolling is None:
        return [required(f"{path}.rollingUpdate")]
    causes: list[Cause] = []
    amounts = {field: rolling.get(field, 0) for field in ("maxUnavailable", "maxSurge")}
    for check in (check_int_or_percent, _check_at_most_whole):
        for field, value in amounts.items():
            causes += check(value, f"{path}.rollingUpdate.{field}")
    unavailable, surge = (_amount(value) for value in amounts.values())
    if unavailable and surge:
        detail = "may not be set when maxUnavailable is non-zero"
        causes.append(invalid(f"{path}.rollingUpdate.maxSurge", amounts["maxSurge"], detail))
    elif not unavailable and not surge:
        causes.append(required(f"{path}.rollingUpdate.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return causes


def check_daemon_set_update(new: Obj, old: Obj) -> list[Cause]:
    causes = check_metadata_update(new["metadata"], old["metadata"])
    causes += _check_same_selector(new, old)
    return causes + check_daemon_set(new)


def check_revision(revision: Obj) -> list[Cause]:
    causes = at_least_zero("revision", revision.get("revision"))
    data = revision.get("data")
    if data is None:
        causes.append(required("data", "data is mandatory"))
    elif not isinstance(data, dict):
        causes.append(required("data", "data must be a valid JSON object"))
    return causes


def check_revision_update(new: Obj, old: Obj) -> list[Cause]:
    causes = check_metadata_update(new["metadata"], old["metadata"])
    causes += check_metadata(new["metadata"], namespaced=True)
    causes += at_least_zero("revision", new.get("revision"))
    return causes + immutable("data", new.get("data"), old.get("data"))


# Status

_PARTS = {
    "Deployment": ("updatedReplicas", "readyReplicas", "availableReplicas"),
    "ReplicaSet": ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
    "ReplicationController": ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
    "StatefulSet": ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"),
}
_COUNTERS = {
    "Deployment": (
        "observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas",
        "unavailableReplicas", "terminatingReplicas", "collisionCount",
    ),
    "ReplicaSet": (
        "replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration",
        "terminatingReplicas",
    ),
    "ReplicationController": (
        "replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration",
    ),
    "StatefulSet": (
        "replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas", "observedGeneration",
        "collisionCount",
    ),
    "DaemonSet": (
        "currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady", "observedGeneration",
        "updatedNumberScheduled", "numberAvailable", "numberUnavailable", "collisionCount",
    ),
}  # fmt: skip


def check_replicas_status(new: Obj, old: Obj) -> list[Cause]:
    """The status of kinds that count pods: no count is negative, no part is greater than the whole."""
    status, before, kind = status_of(new), status_of(old), new.get("kind") or ""
    causes = check_metadata_update(new["metadata"], old["metadata"])
    for field in _COUNTERS[kind]:
        causes += at_least_zero(f"status.{field}", status.get(field))
    counted = {field: status.get(field) or 0 for field in ("replicas", *_PARTS.get(kind, ()))}
    for field in _PARTS.get(kind, ()):
        if counted[field] > counted["replicas"]:
            causes.append(invalid(f"status.{field}", counted[field], "cannot be greater than status.replicas"))
    available = counted.get("availableReplicas", 0)
    if available > counted.get("readyReplicas", 0):
        limit = "status.readyReplicas" if kind == "StatefulSet" else "readyReplicas"
        causes.append(invalid("status.availableReplicas", available, f"cannot be greater than {limit}"))
    collisions, was = status.get("collisionCount"), before.get("collisionCount")
    if was is not None and (collisions is None or collisions < was):
        causes.append(invalid("status.collisionCount", collisions or 0, "cannot be decremented"))
    return causes
