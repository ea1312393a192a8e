"""Defaults and rules of webhook configurations and admission policies."""

from __future__ import annotations

from urllib.parse import urlsplit

from corral.core import names
from corral.core.errors import Cause
from corral.core.meta import Obj, spec_of
from corral.core.validation import (
    check_label_selector,
    check_metadata,
    check_metadata_update,
    duplicate,
    invalid,
    not_supported,
    repeats,
    required,
)  # fmt: skip
from corral.kinds.kubernetes.pods.downward_rules import check_all

_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_EFFECTS = ("None", "NoneOnDryRun")


def default_webhooks(configuration: Obj) -> None:
    mutating = configuration.get("kind") == "MutatingWebhookConfiguration"
    for hook in configuration.get("webhooks") or ():
        hook.setdefault("failurePolicy", "Fail")
        hook.setdefault("matchPolicy", "Equivalent")
        hook.setdefault("namespaceSelector", {})
        hook.setdefault("objectSelector", {})
        hook.setdefault("timeoutSeconds", 10)
        if mutating:
            hook.setdefault("reinvocationPolicy", "Never")
        for rule in hook.get("rules") or ():
            rule.setdefault("scope", "*")
        service = (hook.get("clientConfig") or {}).get("service")
        if service is not None:
            service.setdefault("port", 443)


def default_policy(policy: Obj) -> None:
    spec = policy.setdefault("spec", {})
    spec.setdefault("failurePolicy", "Fail")
    _default_match(spec.get("matchConstraints"))


def default_policy_binding(binding: Obj) -> None:
    _default_match(spec_of(binding).get("matchResources"))


def _default_match(match: Obj | None) -> None:
    if match is None:
        return
    match.setdefault("matchPolicy", "Equivalent")
    match.setdefault("namespaceSelector", {})
    match.setdefault("objectSelector", {})
    for field in ("resourceRules", "excludeResourceRules"):
        for rule in match.get(field) or ():
            rule.setdefault("scope", "*")


def check_webhooks(configuration: Obj) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for position, hook in enumerate(configuration.get("webhooks") or ()):
        where = f"webhooks[{position}]"
        causes += _check_hook(hook, where)
        causes += _check_review_versions(hook.get("admissionReviewVersions") or [], f"{where}.admissionReviewVersions")
        name = hook.get("name") or ""
        if name in seen:
            causes.append(duplicate(f"{where}.name", name))
        if name:
            seen.add(name)
    return causes


def check_webhooks_update(new: Obj, old: Obj) -> list[Cause]:
    return check_metadata(new["metadata"], namespaced=False) + check_webhooks(new)


def _check_full_name(name: str, path: str) -> list[Cause]:
    if not name:
        return [required(path)]
    complaints = names.check_subdomain(name)
    if complaints:
        return check_all(path, name, complaints)
    if name.count(".") < 2:
        return [invalid(path, name, "should be a domain with at least three segments separated by dots")]
    return []


def _check_hook(hook: Obj, path: str) -> list[Cause]:
    causes = _check_full_name(hook.get("name") or "", f"{path}.name")
    for position, rule in enumerate(hook.get("rules") or ()):
        causes += check_rule(rule, f"{path}.rules[{position}]")
    for field, allowed in (("failurePolicy", ("Fail", "Ignore")), ("matchPolicy", ("Equivalent", "Exact"))):
        if hook.get(field) not in (None, *allowed):
            causes.append(not_supported(f"{path}.{field}", hook[field], allowed))
    if hook.get("reinvocationPolicy") not in (None, "IfNeeded", "Never"):
        causes.append(not_supported(f"{path}.reinvocationPolicy", hook["reinvocationPolicy"], ("IfNeeded", "Never")))
    effects = hook.get("sideEffects")
    if effects is None:
        causes.append(required(f"{path}.sideEffects", f"must specify one of {', '.join(_EFFECTS)}"))
    elif effects not in _EFFECTS:
        causes.append(not_supported(f"{path}.sideEffects", effects, _EFFECTS))
    timeout = hook.get("timeoutSeconds")
    if timeout is not None and not 1 <= timeout <= 30:
        detail = "the timeout value must be between 1 and 30 seconds"
        causes.append(invalid(f"{path}.timeoutSeconds", timeout, detail))
    for field in ("namespaceSelector", "objectSelector"):
        causes += check_label_selector(f"{path}.{field}", hook.get(field))
    return causes + check_client_config(hook.get("clientConfig") or {}, f"{path}.clientConfig")


def check_client_config(config: Obj, path: str) -> list[Cause]:
    """Where a webhook is reached: a URL or a service."""
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(path, "exactly one of url or service is required")]
    return _check_url(url, f"{path}.url") if url is not None else _check_service(service or {}, f"{path}.service")


def _check_url(url: str, path: str) -> list[Cause]:
    form = "; desired format: https://host[/path]"
    parts = urlsplit(url)
    causes: list[Cause] = []
    if parts.scheme != "https":
        causes.append(invalid(path, parts.scheme, "'https' is the only allowed URL scheme" + form))
    if not parts.netloc:
        causes.append(invalid(path, parts.netloc, "host must be specified" + form))
    if parts.username is not None:
        causes.append(invalid(path, parts.username, "user information is not permitted in the URL"))
    if parts.fragment:
        causes.append(invalid(path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        causes.append(invalid(path, parts.query, "query parameters are not permitted in the URL"))
    return causes


def _check_service(service: Obj, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for field in ("name", "namespace"):
        if not service.get(field):
            causes.append(required(f"{path}.{field}"))
    causes += _check_service_path(service.get("path"), f"{path}.path")
    port = service.get("port") or 443
    complaints = names.check_port_number(port)
    if complaints:
        causes.append(invalid(f"{path}.port", port, f"port is not valid: {','.join(complaints)}"))
    return causes


def _check_service_path(target: str | None, path: str) -> list[Cause]:
    if not target or target == "/":
        return []
    if target == "//":
        return [invalid(path, target, "segment[0] may not be empty")]
    causes = [] if target.startswith("/") else [invalid(path, target, "must start with a '/'")]
    segments = target[1:].removesuffix("/").split("/")
    for position, segment in enumerate(segments):
        if not segment:
            causes.append(invalid(path, target, f"segment[{position}] may not be empty"))
            continue
        causes += [invalid(path, target, f"segment[{position}]: {text}") for text in names.check_subdomain(segment)]
    return causes


def check_rule(rule: Obj, path: str) -> list[Cause]:
    """Which requests a webhook or policy cares about."""
    operations = rule.get("operations") or []
    causes: list[Cause] = [] if operations else [required(f"{path}.operations")]
    if len(operations) > 1 and "*" in operations:
        detail = "if '*' is present, must not specify other operations"
        causes.append(invalid(f"{path}.operations", operations, detail))
    for position, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            causes.append(not_supported(f"{path}.operations[{position}]", operation, _OPERATIONS))
    for field, noun in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        values = rule.get(field) or []
        if not values:
            causes.append(required(f"{path}.{field}"))
        if len(values) > 1 and "*" in values:
            detail = f"if '*' is present, must not specify other {noun}"
            causes.append(invalid(f"{path}.{field}", values, detail))
    for position, version in enumerate(rule.get("apiVersions") or ()):
        if not version:
            causes.append(required(f"{path}.apiVersions[{position}]"))
    causes += _check_resources(rule.get("resources") or [], f"{path}.resources")
    if rule.get("scope") not in (None, "*", "Cluster", "Namespaced"):
        causes.append(not_supported(f"{path}.scope", rule["scope"], ("*", "Cluster", "Namespaced")))
    return causes


def _check_resources(resources: list[str], path: str) -> list[Cause]:
    causes: list[Cause] = [] if resources else [required(path)]
    whole: set[str] = set()
    everywhere: set[str] = set()
    for position, resource in enumerate(resources):
        if not resource:
            causes.append(required(f"{path}[{position}]"))
            continue
        name, slash, sub = resource.partition("/")
        if not slash:
            continue
        if name in whole:
            detail = f"if '{name}/*' is present, must not specify {resource}"
            causes.append(invalid(f"{path}[{position}]", resource, detail))
        if sub in everywhere:
            detail = f"if '*/{sub}' is present, must not specify {resource}"
            causes.append(invalid(f"{path}[{position}]", resource, detail))
        if sub == "*":
            whole.add(name)
        if name == "*":
            everywhere.add(sub)
    if len(resources) > 1 and "*/*" in resources:
        causes.append(invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and any("/" not in resource and resource != "*" for resource in resources):
        detail = "if '*' is present, must not specify other resources without subresources"
        causes.append(invalid(path, resources, detail))
    return causes


def _check_review_versions(versions: list[str], path: str) -> list[Cause]:
    if not versions:
        return [required(path, "must specify one of v1, v1beta1")]
    causes: list[Cause] = []
    repeated = repeats(versions)
    for position, version in enumerate(versions):
        if repeated[position]:
            causes.append(invalid(f"{path}[{position}]", version, "duplicate version"))
        else:
            causes += check_all(f"{path}[{position}]", version, names.check_label_1035(version))
    if not {"v1", "v1beta1"} & {*versions}:
        causes.append(invalid(path, versions, "must include at least one of v1, v1beta1"))
    return causes


def check_policy(policy: Obj) -> list[Cause]:
    """A ValidatingAdmissionPolicy."""
    spec = spec_of(policy)
    causes: list[Cause] = []
    if spec.get("failurePolicy") not in (None, "Fail", "Ignore"):
        causes.append(not_supported("spec.failurePolicy", spec["failurePolicy"], ("Fail", "Ignore")))
    constraints = spec.get("matchConstraints")
    if constraints is None:
        causes.append(required("spec.matchConstraints"))
    else:
        causes += _check_match(constraints, "spec.matchConstraints", needs_rules=True)
    if not spec.get("validations") and not spec.get("auditAnnotations"):
        detail = "validations or auditAnnotations must contain at least one item"
        causes += [required(f"spec.{field}", detail) for field in ("validations", "auditAnnotations")]
    for position, validation in enumerate(spec.get("validations") or ()):
        if not (validation.get("expression") or "").strip():
            causes.append(required(f"spec.validations[{position}].expression", "expression is not specified"))
    return causes


def _check_match(match: Obj, path: str, *, needs_rules: bool) -> list[Cause]:
    rules = match.get("resourceRules") or []
    causes = [required(f"{path}.resourceRules")] if needs_rules and not rules else []
    for field in ("namespaceSelector", "objectSelector"):
        causes += check_label_selector(f"{path}.{field}", match.get(field))
    for position, rule in enumerate(rules):
        causes += check_rule(rule, f"{path}.resourceRules[{position}]")
    return causes


def check_policy_update(new: Obj, old: Obj) -> list[Cause]:
    causes = check_metadata_update(new["metadata"], old["metadata"])
    return causes + check_policy(new)


def check_policy_binding(binding: Obj) -> list[Cause]:
    """A ValidatingAdmissionPolicyBinding."""
    spec = spec_of(binding)
    name, actions = spec.get("policyName") or "", spec.get("validationActions") or []
    causes: list[Cause] = [] if name else [required("spec.policyName")]
    if name:
        causes += check_all("spec.policyName", name, names.check_subdomain(name))
    if not actions:
        causes.append(required("spec.validationActions", "at least one validation action is required"))
    repeated = repeats(actions)
    for position, action in enumerate(actions):
        if action not in ("Audit", "Deny", "Warn"):
            where = f"spec.validationActions[{position}]"
            causes.append(not_supported(where, action, ("Audit", "Deny", "Warn")))
        if repeated[position]:
            causes.append(duplicate(f"spec.validationActions[{position}]", action))
    if "Deny" in actions and "Warn" in actions:
        detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)"
        causes.append(invalid("spec.validationActions", actions, detail))
    return causes


def check_policy_binding_update(new: Obj, old: Obj) -> list[Cause]:
    causes = check_metadata_update(new["metadata"], old["metadata"])
    return causes + check_policy_binding(new)
