"""Rules for pods and pod templates: creation, update, status, ephemeral containers."""

from __future__ import annotations

import ipaddress
from collections.abc import Hashable
from typing import Any

from corral.core import names
from corral.core.errors import Cause
from corral.core.meta import Obj, spec_of, status_of
from corral.core.patch.json import identity
from corral.core.validation import (
    check_annotations,
    check_labels,
    check_metadata,
    check_metadata_update,
    duplicate,
    forbidden,
    immutable,
    invalid,
    not_supported,
    required,
)  # fmt: skip
from corral.kinds.kubernetes.pods.affinity_rules import check_affinity, check_gates, check_spreading, check_tolerations
from corral.kinds.kubernetes.pods.container_rules import (  # fmt: skip
    check_amount,
    check_choice,
    check_container,
    check_host_ports,
    check_pod_security,
    check_probes,
)
from corral.kinds.kubernetes.pods.downward_rules import check_all
from corral.kinds.kubernetes.pods.volume_rules import check_volumes
from corral.kinds.machinery import go_struct_text as internal

MAX_INT32 = 2**31 - 1
IP_DETAIL = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
    "previously negative)"
)
_NO_PROBES = "may not be set for init containers without restartPolicy=Always"


def check_template(template: Obj, path: str) -> list[Cause]:
    """A PodTemplateSpec inside a workload."""
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    causes = check_labels(f"{path}.labels", metadata.get("labels"))
    causes += check_annotations(f"{path}.annotations", metadata.get("annotations"))
    causes += check_spec(spec, f"{path}.spec", is_pod=False)
    if spec.get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        causes.append(forbidden(f"{path}.spec.ephemeralContainers", detail))
    return causes


def check_spec(spec: Obj, path: str, *, is_pod: bool) -> list[Cause]:
    """A PodSpec, in upstream's order."""
    grace = spec.get("terminationGracePeriodSeconds")
    causes = [required(f"{path}.terminationGracePeriodSeconds")] if grace is None else []
    volumes, wrong = check_volumes(spec.get("volumes") or (), f"{path}.volumes")
    causes += wrong
    claims = frozenset(claim.get("name") or "" for claim in spec.get("resourceClaims") or ())
    causes += _check_claims(spec.get("resourceClaims") or [], f"{path}.resourceClaims")
    causes += _check_containers(spec, volumes, claims, grace, f"{path}.containers")
    causes += _check_init_containers(spec, volumes, claims, grace, f"{path}.initContainers")
    causes += _check_ephemeral(spec, volumes, claims, f"{path}.ephemeralContainers")
    causes += _check_host_network(spec, path, is_pod=is_pod)
    policies = ("Always", "OnFailure", "Never")
    causes += check_choice(f"{path}.restartPolicy", spec.get("restartPolicy"), policies)
    dns = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
    causes += check_choice(f"{path}.dnsPolicy", spec.get("dnsPolicy"), dns)
    causes += check_labels(f"{path}.nodeSelector", spec.get("nodeSelector"))
    causes += check_pod_security(spec.get("securityContext"), spec, f"{path}.securityContext")
    causes += check_affinity(spec.get("affinity"), f"{path}.affinity")
    causes += _check_dns(spec, f"{path}.dnsConfig")
    for position, gate in enumerate(spec.get("readinessGates") or ()):
        name = gate.get("conditionType") or ""
        where = f"{path}.readinessGates[{position}].conditionType"
        causes += check_all(where, name, names.check_qualified_name(name))
    causes += check_gates(spec.get("schedulingGates") or (), f"{path}.schedulingGates")
    causes += check_spreading(spec.get("topologySpreadConstraints") or [], f"{path}.topologySpreadConstraints")
    return causes + _check_scalars(spec, path)


def _check_scalars(spec: Obj, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for field, check in (("serviceAccountName", names.check_subdomain), ("nodeName", names.check_subdomain)):
        if spec.get(field):
            causes += check_all(f"{path}.{field}", spec[field], check(spec[field]))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= MAX_INT32:
        detail = f"must be between 1 and {MAX_INT32}, inclusive"
        causes.append(invalid(f"{path}.activeDeadlineSeconds", deadline, detail))
    for field in ("hostname", "subdomain"):
        if spec.get(field):
            causes += check_all(f"{path}.{field}", spec[field], names.check_label(spec[field]))
    causes += check_tolerations(spec.get("tolerations") or (), f"{path}.tolerations")
    for position, alias in enumerate(spec.get("hostAliases") or ()):
        causes += check_ip(alias.get("ip") or "", f"{path}.hostAliases[{position}].ip")
        for index, host in enumerate(alias.get("hostnames") or ()):
            where = f"{path}.hostAliases[{position}].hostnames[{index}]"
            causes += check_all(where, host, names.check_subdomain(host))
    for field in ("priorityClassName", "runtimeClassName"):
        if spec.get(field):
            causes += check_all(f"{path}.{field}", spec[field], names.check_subdomain(spec[field]))
    policy = spec.get("preemptionPolicy")
    if policy not in (None, "PreemptLowerPriority", "Never"):
        causes.append(not_supported(f"{path}.preemptionPolicy", policy, ("PreemptLowerPriority", "Never")))
    for name, amount in sorted((spec.get("overhead") or {}).items()):
        causes += check_amount(name, amount, f"{path}.overhead.limits[{name}]")
    system = spec.get("os")
    if system is not None and system.get("name") not in ("linux", "windows"):
        causes.append(not_supported(f"{path}.os", system.get("name") or "", ("linux", "windows")))
    return causes


def check_ip(address: str, path: str) -> list[Cause]:
    """An IP address of either family."""
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return [invalid(path, address, IP_DETAIL)]
    return []


def _check_claims(claims: list[Obj], path: str) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for position, claim in enumerate(claims):
        where = f"{path}[{position}]"
        name = claim.get("name") or ""
        if not name:
            causes.append(required(f"{where}.name"))
        elif name in seen:
            causes.append(duplicate(f"{where}.name", name))
        else:
            causes += check_all(f"{where}.name", name, names.check_label(name))
            seen.add(name)
        given = [field for field in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(field) is not None]
        if len(given) != 1:
            detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            causes.append(invalid(where, claim, detail) if not given else forbidden(where, detail))
    return causes


def _check_containers(
    spec: Obj, volumes: dict[str, Obj], claims: frozenset[str], grace: int | None, path: str
) -> list[Cause]:
    containers = spec.get("containers") or ()
    if not containers:
        return [required(path)]
    causes: list[Cause] = []
    seen: set[str] = set()
    for position, container in enumerate(containers):
        where = f"{path}[{position}]"
        causes += check_container(container, where, volumes, claims)
        name = container.get("name") or ""
        if name in seen:
            causes.append(duplicate(f"{where}.name", name))
        seen.add(name)
        causes += check_probes(container, grace, where)
        if container.get("restartPolicy") is not None:
            causes.append(forbidden(f"{where}.restartPolicy", "may not be set for non-init containers"))
    return causes + check_host_ports(containers, path)


def _check_init_containers(
    spec: Obj, volumes: dict[str, Obj], claims: frozenset[str], grace: int | None, path: str
) -> list[Cause]:
    seen = {container.get("name") for container in spec.get("containers") or ()}
    causes: list[Cause] = []
    for position, container in enumerate(spec.get("initContainers") or ()):
        where = f"{path}[{position}]"
        causes += check_container(container, where, volumes, claims)
        policy, name = container.get("restartPolicy"), container.get("name") or ""
        if policy not in (None, "Always"):
            causes.append(not_supported(f"{where}.restartPolicy", policy, ("Always",)))
        if name in seen:
            causes.append(duplicate(f"{where}.name", name))
        elif name:
            seen.add(name)
        causes += check_host_ports([container], path)
        if policy == "Always":
            causes += check_probes(container, grace, where)
        else:
            unwanted = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
            causes += [
                forbidden(f"{where}.{field}", _NO_PROBES) for field in unwanted if container.get(field) is not None
            ]
    return causes


def _check_ephemeral(spec: Obj, volumes: dict[str, Obj], claims: frozenset[str], path: str) -> list[Cause]:
    others = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    seen = {container.get("name") for container in others}
    causes: list[Cause] = []
    for position, container in enumerate(spec.get("ephemeralContainers") or ()):
        where = f"{path}[{position}]"
        name = container.get("name") or ""
        causes += check_container(container, where, volumes, claims)
        if name in seen:
            causes.append(duplicate(f"{where}.name", name))
        seen.add(name)
        target = container.get("targetContainerName")
        if target and target not in {other.get("name") for other in others}:
            causes.append(invalid(f"{where}.targetContainerName", target, f'not found in containers: "{target}"'))
        for field in ("ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle"):
            if container.get(field):
                causes.append(forbidden(f"{where}.{field}", "cannot be set for an Ephemeral Container"))
        if container.get("resources"):
            causes.append(forbidden(f"{where}.resources", "cannot be set for an Ephemeral Container"))
    return causes


def _check_host_network(spec: Obj, path: str, *, is_pod: bool) -> list[Cause]:
    causes: list[Cause] = []
    for index, container in enumerate(spec.get("containers") or () if spec.get("hostNetwork") else ()):
        for position, port in enumerate(container.get("ports") or ()):
            host = port.get("hostPort") or 0
            if (is_pod or host) and host != port.get("containerPort"):
                where = f"{path}.containers[{index}].ports[{position}].hostPort"
                causes.append(invalid(where, host, "must match `containerPort` when `hostNetwork` is true"))
    return causes


def _check_dns(spec: Obj, path: str) -> list[Cause]:
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            return [required(path, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not config.get("nameservers"):
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return [required(f"{path}.nameservers", detail)]
    if config is None:
        return []
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    causes: list[Cause] = []
    if len(servers) > 3:
        causes.append(invalid(f"{path}.nameservers", servers, "must not have more than 3 nameservers"))
    for position, server in enumerate(servers):
        causes += check_ip(server, f"{path}.nameservers[{position}]")
    if len(searches) > 32:
        causes.append(invalid(f"{path}.searches", searches, "must not have more than 32 search paths"))
    for position, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            causes.append(required(f"{path}.options[{position}]", "must not be empty"))
    return causes


# Whole pods


def check_pod(pod: Obj) -> list[Cause]:
    """A new pod, its metadata aside."""
    spec = spec_of(pod)
    causes = _check_pod_spec(spec)
    if spec.get("ephemeralContainers"):
        causes.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        causes.append(forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
    return causes


def _check_pod_spec(spec: Obj) -> list[Cause]:
    causes = check_spec(spec, "spec", is_pod=True)
    if not spec.get("serviceAccountName"):
        for index, volume in enumerate(spec.get("volumes") or ()):
            for position, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
                if source.get("serviceAccountToken") is not None:
                    where = f"spec.volumes[{index}].projected.sources[{position}].serviceAccountToken"
                    causes.append(forbidden(where, "must not be specified when serviceAccountName is not set"))
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            image = container.get("image") or ""
            if image != image.strip():
                detail = "must not have leading or trailing whitespace"
                causes.append(invalid(f"spec.{field}[{index}].image", image, detail))
    return causes


def check_pod_update(new: Obj, old: Obj) -> list[Cause]:
    """What may change in a pod: images, a few numbers, added tolerations, removed gates."""
    causes = check_metadata_update(new["metadata"], old["metadata"])
    causes += check_metadata(new["metadata"], namespaced=True)
    before, after = spec_of(old), spec_of(new)
    if after == before:
        return causes
    causes += _check_pod_spec(after)
    for field in ("containers", "initContainers"):
        if len(after.get(field) or ()) != len(before.get(field) or ()):
            return [*causes, forbidden(f"spec.{field}", "pod updates may not add or remove containers")]
    deadline = _check_deadline(after.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds"))
    if deadline and after.get("activeDeadlineSeconds") is not None:
        return causes + deadline
    causes += deadline
    causes += _check_added_tolerations(after.get("tolerations") or [], before.get("tolerations") or [])
    causes += _check_removed_gates(after.get("schedulingGates") or [], before.get("schedulingGates") or [])
    munged = _without_allowed_changes(after, before)
    if before.get("schedulingGates"):
        munged = _without_gated_changes(munged, before, causes)
    if munged != before:
        shown = internal.diff("core.PodSpec", "core/v1.PodSpec", munged, before)
        causes.append(forbidden("spec", f"pod updates may not change fields other than {_UPDATABLE}\n{shown}"))
    return causes


def _check_deadline(new: int | None, old: int | None) -> list[Cause]:
    path = "spec.activeDeadlineSeconds"
    if new is not None:
        if not 0 <= new <= MAX_INT32:
            return [invalid(path, new, f"must be between 0 and {MAX_INT32}, inclusive")]
        if old is not None and old < new:
            return [invalid(path, new, "must be less than or equal to previous value")]
    elif old is not None:
        return [invalid(path, None, "must not update from a positive integer to nil value")]
    return []


def _check_added_tolerations(new: list[Obj], old: list[Obj]) -> list[Cause]:
    def lasting(toleration: Obj) -> Hashable:
        return identity({key: value for key, value in toleration.items() if key != "tolerationSeconds"})

    kept = {lasting(toleration) for toleration in new}
    if any(lasting(toleration) not in kept for toleration in old):
        return [forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")]
    return check_tolerations(new, "spec.tolerations")


def _check_removed_gates(new: list[Obj], old: list[Obj]) -> list[Cause]:
    known = {gate.get("name") for gate in old}
    return [
        forbidden(
            f"spec.schedulingGates[{position}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'",
        )
        for position, gate in enumerate(new)
        if gate.get("name") not in known
    ]


def _without_allowed_changes(new: Obj, old: Obj) -> Obj:
    munged: dict[str, Any] = {**new}
    for field in ("containers", "initContainers"):
        if new.get(field):
            pairs = zip(new[field], old[field], strict=True)
            munged[field] = [{**container, "image": before.get("image")} for container, before in pairs]
    for field in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        munged.pop(field, None)
        if field in old:
            munged[field] = old[field]
    grace = old.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0 and munged.get("terminationGracePeriodSeconds") == 1:
        munged["terminationGracePeriodSeconds"] = grace
    return munged


def _without_gated_changes(munged: Obj, old: Obj, causes: list[Cause]) -> Obj:
    """While a pod is gated, its node constraints may be tightened."""
    new_selector, old_selector = munged.get("nodeSelector") or {}, old.get("nodeSelector") or {}
    if new_selector != old_selector:
        if any(new_selector.get(key) != value for key, value in old_selector.items()):
            detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            causes.append(invalid("spec.nodeSelector", new_selector, detail))
        munged = _restored(munged, old, "nodeSelector")
    affinity, before = munged.get("affinity") or {}, old.get("affinity") or {}
    if affinity.get("nodeAffinity") != before.get("nodeAffinity"):
        causes += _check_narrowed(affinity.get("nodeAffinity") or {}, before.get("nodeAffinity") or {})
        merged = {**_restored(affinity, before, "nodeAffinity")}
        munged = {**munged, "affinity": merged}
        if not merged and "affinity" not in old:
            del munged["affinity"]
    return munged


def _restored(new: Obj, old: Obj, field: str) -> Obj:
    result = {key: value for key, value in new.items() if key != field}
    return {**result, field: old[field]} if field in old else result


def _check_narrowed(new: Obj, old: Obj) -> list[Cause]:
    path, field = "spec.affinity.nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"
    before = (old.get(field) or {}).get("nodeSelectorTerms") or []
    if not before:
        return []
    after = (new.get(field) or {}).get("nodeSelectorTerms") or []
    where = f"{path}.{field}.nodeSelectorTerms"
    if len(before) != len(after):
        detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [invalid(where, after, detail)]
    causes: list[Cause] = []
    for position, (term, was) in enumerate(zip(after, before, strict=True)):
        for part in ("matchExpressions", "matchFields"):
            now, then = term.get(part) or [], was.get(part) or []
            if now[: len(then)] != then:
                detail = "only additions are allowed (no mutations or deletions)"
                causes.append(invalid(f"{where}[{position}]", term, detail))
                break
    return causes


def check_pod_status(new: Obj, old: Obj) -> list[Cause]:
    """A change of a pod's status."""
    causes = check_metadata_update(new["metadata"], old["metadata"])
    status, before = status_of(new), status_of(old)
    system = ("PodScheduled", "Ready", "Initialized")
    for position, entry in enumerate(status.get("conditions") or ()):
        kind = entry.get("type") or ""
        if kind not in system:
            where = f"status.conditions[{position}].Type"
            causes += check_all(where, kind, names.check_qualified_name(kind))
    nominated = status.get("nominatedNodeName") or ""
    if nominated and nominated != before.get("nominatedNodeName"):
        causes += check_all("status.nominatedNodeName", nominated, names.check_subdomain(nominated))
    causes += immutable("status.qosClass", status.get("qosClass") or "", before.get("qosClass") or "")
    causes += _check_restarts(new, status, before)
    causes += _check_addresses("podIPs", "core.PodIP", status.get("podIPs") or [])
    hosts = status.get("hostIPs") or []
    if hosts and (hosts[0].get("ip") or "") != (status.get("hostIP") or ""):
        causes.append(invalid("status.hostIPs[0].ip", hosts[0].get("ip") or "", "must be equal to `hostIP`"))
    return causes + _check_addresses("hostIPs", "core.HostIP", hosts)


def _check_addresses(field: str, go_type: str, entries: list[Obj]) -> list[Cause]:
    """Addresses of a pod or its host: each valid, at most one of a family."""
    causes: list[Cause] = []
    for position, entry in enumerate(entries):
        causes += check_ip(entry.get("ip") or "", f"status.{field}[{position}]")
    families = {":" in (entry.get("ip") or "") for entry in entries}
    if not causes and len(entries) > len(families):
        shown = [internal.convert(go_type, go_type.replace(".", "/v1."), entry) for entry in entries]
        detail = "may specify no more than one IP for each IP family"
        causes.append(invalid(f"status.{field}", shown, detail))
    return causes


def _check_restarts(pod: Obj, new: Obj, old: Obj) -> list[Cause]:
    """A finished container stays finished unless its pod restarts it."""
    policy = spec_of(pod).get("restartPolicy")
    if policy == "Always":
        return []
    now = {entry.get("name"): entry for entry in new.get("containerStatuses") or ()}
    causes: list[Cause] = []
    for position, entry in enumerate(old.get("containerStatuses") or ()):
        ended = (entry.get("state") or {}).get("terminated")
        current = now.get(entry.get("name"))
        if ended is None or current is None or (policy == "OnFailure" and ended.get("exitCode")):
            continue
        if (current.get("state") or {}).get("terminated") is None:
            where = f"status.containerStatuses[{position}].state"
            causes.append(forbidden(where, "may not be transitioned to non-terminated state"))
    return causes


def check_ephemeral_update(new: Obj, old: Obj) -> list[Cause]:
    """A change of a pod through its ephemeralcontainers subresource: containers may only be added."""
    causes = check_metadata_update(new["metadata"], old["metadata"])
    causes += _check_pod_spec(spec_of(new))
    path = "spec.ephemeralContainers"
    now = {container.get("name"): container for container in spec_of(new).get("ephemeralContainers") or ()}
    for container in spec_of(old).get("ephemeralContainers") or ():
        name = container.get("name")
        if name not in now:
            causes.append(forbidden(path, f'existing ephemeral containers "{name}" may not be removed\n'))
        elif now[name] != container:
            shown = internal.diff("core.EphemeralContainer", "core/v1.EphemeralContainer", now[name], container)
            causes.append(forbidden(path, f'existing ephemeral containers "{name}" may not be changed\n{shown}'))
    return causes
