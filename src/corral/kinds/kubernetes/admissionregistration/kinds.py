"""admissionregistration.k8s.io/v1: webhooks and admission policies."""

from __future__ import annotations

from typing import Any

from corral.core.meta import Obj, spec_of
from corral.kinds.kubernetes.admissionregistration import rules
from corral.kinds.machinery.builtin import kind
from corral.kinds.machinery.definition import Cell, Column
from corral.kinds.machinery.tables import AGE, NAME, count, format_selector, text

GROUP = "admissionregistration.k8s.io"


def _param_kind(policy: Obj, now: float) -> Cell:
    found = spec_of(policy).get("paramKind")
    return "<unset>" if found is None else f"{found.get('apiVersion', '')}/{found.get('kind', '')}"


def _param_ref(binding: Obj, now: float) -> Cell:
    found = spec_of(binding).get("paramRef")
    if found is None:
        return "<unset>"
    if found.get("name"):
        return f"{found.get('namespace') or '*'}/{found['name']}"
    return format_selector(found.get("selector")) if found.get("selector") is not None else "<unset>"


_RULES: dict[str, Any] = {
    "default": rules.default_webhooks,
    "validate": rules.check_webhooks,
    "validate_update": rules.check_webhooks_update,
}
_WEBHOOKS = (NAME, Column("Webhooks", type="integer", cell=count(".webhooks")), AGE)
_OPTIONS: dict[str, Any] = {
    "group": GROUP,
    "namespaced": False,
    "categories": ("api-extensions",),
    "has_generation": True,
    "allow_unconditional_update": False,
}

MUTATING_WEBHOOK_CONFIGURATION = kind(
    "admissionregistration.v1.MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
    columns=_WEBHOOKS,
    **_RULES,
    **_OPTIONS,
)
VALIDATING_ADMISSION_POLICY = kind(
    "admissionregistration.v1.ValidatingAdmissionPolicy",
    "validatingadmissionpolicies",
    columns=(
        NAME,
        Column("Validations", type="integer", cell=count(".spec.validations")),
        Column("ParamKind", cell=_param_kind),
        AGE,
    ),
    status=True,
    default=rules.default_policy,
    validate=rules.check_policy,
    validate_update=rules.check_policy_update,
    **_OPTIONS,
)
VALIDATING_ADMISSION_POLICY_BINDING = kind(
    "admissionregistration.v1.ValidatingAdmissionPolicyBinding",
    "validatingadmissionpolicybindings",
    columns=(NAME, Column("PolicyName", cell=text(".spec.policyName")), Column("ParamRef", cell=_param_ref), AGE),
    default=rules.default_policy_binding,
    validate=rules.check_policy_binding,
    validate_update=rules.check_policy_binding_update,
    **_OPTIONS,
)
VALIDATING_WEBHOOK_CONFIGURATION = kind(
    "admissionregistration.v1.ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    columns=_WEBHOOKS,
    **_RULES,
    **_OPTIONS,
)

KINDS = (
    MUTATING_WEBHOOK_CONFIGURATION,
    VALIDATING_ADMISSION_POLICY,
    VALIDATING_ADMISSION_POLICY_BINDING,
    VALIDATING_WEBHOOK_CONFIGURATION,
)

MUTATING_WEBHOOK_CONFIGURATIONS = MUTATING_WEBHOOK_CONFIGURATION.resource()
VALIDATING_ADMISSION_POLICIES = VALIDATING_ADMISSION_POLICY.resource()
VALIDATING_ADMISSION_POLICY_BINDINGS = VALIDATING_ADMISSION_POLICY_BINDING.resource()
VALIDATING_WEBHOOK_CONFIGURATIONS = VALIDATING_WEBHOOK_CONFIGURATION.resource()
