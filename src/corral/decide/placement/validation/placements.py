"""What a hub refuses at admission, beyond the schemas: upstream's webhook rules with their texts."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from corral.core.meta import Obj, is_deleting, name_of, spec_of
from corral.core.names import check_label_value, check_qualified_name
from corral.decide.placement.go_texts import aggregate, go_selector
from corral.decide.placement.validation.policies import MAX_NAME, check_labels, check_policy


class KindCheck(Enum):
    """Whether a placement may select a kind."""

    FIT = "fit"
    UNFIT = "unfit"
    UNKNOWN = "unknown"


def check_placement(placement: Obj, kinds: Sequence[KindCheck], *, strict: bool = False) -> list[str]:
    """What is wrong with a placement; `kinds` says for each of its selectors whether its kind can be selected.

    A resource of its own domain, such as nvidia.com/gpu, is a property here; `strict` refuses its second slash, as
    upstream does."""
    spec = spec_of(placement)
    errors: list[str] = []
    if len(name_of(placement)) > MAX_NAME:
        errors.append(f"the name field cannot have length exceeding {MAX_NAME}")
    for selector, check in zip(spec.get("resourceSelectors") or (), kinds, strict=True):
        errors += _check_selector(selector, check)
        if check is KindCheck.UNKNOWN:
            return errors  # nothing more can be said of it
    policy = check_policy(spec.get("policy") or {}, strict=strict)
    if policy:
        errors.append(f"the placement policy field is invalid: {aggregate(policy)}")
    strategy = check_strategy(spec.get("strategy") or {})
    if strategy:
        errors.append(f"the rollout Strategy field  is invalid: {aggregate(strategy)}")
    return errors


def _check_selector(selector: Obj, check: KindCheck) -> list[str]:
    errors = []
    labels = selector.get("labelSelector")
    if labels is not None:
        if selector.get("name"):
            shown = go_selector(selector)
            errors.append(f"the labelSelector and name fields are mutually exclusive in selector {shown}")
        errors += check_labels(labels, "resource selector")
    group, version, kind = (str(selector.get(part) or "") for part in ("group", "version", "kind"))
    if check is KindCheck.UNKNOWN:
        api = f"{group}/{version}" if group else version
        errors.append(f'failed to get GVR of the selector: no matches for kind "{kind}" in version "{api}"')
    elif check is KindCheck.UNFIT:
        text = "the resource is not found in schema (please retry) or it is not a cluster scoped resource:"
        errors.append(f"{text} {group}/{version}, Kind={kind}")
    return errors


def check_strategy(strategy: Obj) -> list[str]:
    errors = []
    rolling = strategy.get("rollingUpdate")
    if strategy.get("type") == "External" and rolling is not None:
        errors.append("rollingUpdateConifg is not valid for ExternalRollout strategy type")
    period = (rolling or {}).get("unavailablePeriodSeconds")
    if period is not None and period < 0:
        errors.append(f"unavailablePeriodSeconds must be greater than or equal to 0, got {period}")
    for part in ("maxUnavailable", "maxSurge"):
        value = (rolling or {}).get(part)
        if isinstance(value, int) and value < 0:
            errors.append(f"{part} must be greater than or equal to 0, got `{value}`")
    apply = strategy.get("applyStrategy") or {}
    if apply.get("serverSideApplyConfig") is not None and apply.get("type") != "ServerSideApply":
        errors.append("serverSideApplyConfig is only valid for ServerSideApply strategy type")
    return errors


def check_taints(member: Obj) -> list[str]:
    """What is wrong with the taints of a member."""
    errors: list[str] = []
    seen: list[Obj] = []
    for taint in spec_of(member).get("taints") or ():
        key, value = str(taint.get("key") or ""), str(taint.get("value") or "")
        shown = f"{{Key:{key} Value:{value} Effect:{taint.get('effect', '')}}}"
        errors += [f"invalid taint key {shown}: {text}" for text in check_qualified_name(key)]
        errors += [f"invalid taint value {shown}: {text}" for text in check_label_value(value)]
        if taint in seen:
            errors.append(f"taint {shown} already exists, taints must be unique")
        seen.append(taint)
    return errors


def check_evictable(placement: Obj) -> str:
    """Why nothing can be evicted from a placement; empty when it can."""
    if is_deleting(placement):
        return f"cluster resource placement {name_of(placement)} is being deleted"
    kind = (spec_of(placement).get("policy") or {}).get("placementType")
    return f"cluster resource placement policy type {kind} is not supported" if kind == "PickFixed" else ""


def check_budget(budget: Obj, placement: Obj) -> list[str]:
    """Limits of a budget that mean nothing for its placement: PickAll has no number they could be a part of."""
    if ((spec_of(placement).get("policy") or {}).get("placementType") or "PickAll") != "PickAll":
        return []
    start = "cluster resource placement policy type PickAll is not supported with"
    limits = spec_of(budget)
    errors = []
    if (most := limits.get("maxUnavailable")) is not None:
        errors.append(f"{start} any specified max unavailable {most}")
    if isinstance(least := limits.get("minAvailable"), str):
        errors.append(f"{start} min available as a percentage {least}")
    return errors
