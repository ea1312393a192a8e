"""Who owns an object on the member: the AppliedWork of the Work that brought it, others, or nobody."""

from __future__ import annotations

from collections.abc import Sequence

from corral.core.meta import Obj, name_of, owner_references_of, uid_of
from corral.kinds.fleet import APPLIED_WORKS


def reference_to(applied_work: Obj) -> Obj:
    """The owner reference that marks an object as placed."""
    return {
        "apiVersion": APPLIED_WORKS.api_version,
        "kind": APPLIED_WORKS.kind,
        "name": name_of(applied_work),
        "uid": uid_of(applied_work),
        "blockOwnerDeletion": True,
    }


def is_applied_work(reference: Obj) -> bool:
    group = str(reference.get("apiVersion") or "").rpartition("/")[0]
    return group == APPLIED_WORKS.group and reference.get("kind") == APPLIED_WORKS.kind


def is_same(reference: Obj, other: Obj) -> bool:
    return bool(reference.get("uid") == other.get("uid"))


def is_owned(live: Obj, ours: Obj) -> bool:
    return any(is_same(reference, ours) for reference in owner_references_of(live))


def with_owner(references: Sequence[Obj], ours: Obj) -> list[Obj]:
    """The references and ours, each once."""
    others = [reference for reference in references if not is_same(reference, ours)]
    return [*others, ours]


def may_not_take_over(references: Sequence[Obj], allow_co_ownership: bool) -> str:
    """Why an object with these owners cannot be taken over; "" when it can."""
    if references and not allow_co_ownership:
        return (
            "the object is already owned by some other sources(s) and co-ownership is disallowed"
            f" (existingOwnerRefs: {print_references(references)})"
        )
    if any(is_applied_work(reference) for reference in references):
        return "the object is already owned by another Fleet AppliedWork object"
    return ""


def may_not_apply(manifest: Obj, live: Obj | None, ours: Obj, allow_co_ownership: bool) -> str:
    """Why a manifest must not be applied to an object with such owners; "" when it may."""
    if owner_references_of(manifest) and not allow_co_ownership:
        return "manifest is set to have owner references but co-ownership is disallowed"
    if live is None:
        return ""
    references = owner_references_of(live)
    if len(references) > 1 and not allow_co_ownership:
        return "object is co-owned by multiple objects but co-ownership has been disallowed"
    if not is_owned(live, ours):
        return "object is not owned by the expected AppliedWork object"
    if any(is_applied_work(reference) and not is_same(reference, ours) for reference in references):
        return "object is already owned by another AppliedWork object"
    return ""


def print_references(references: Sequence[Obj]) -> str:
    """Owner references as Go prints them, with the value of a pointer instead of its address."""

    def flag(value: bool | None) -> str:
        return "<nil>" if value is None else str(value).lower()

    printed = (
        f"{{APIVersion:{reference.get('apiVersion', '')} Kind:{reference.get('kind', '')}"
        f" Name:{reference.get('name', '')} UID:{reference.get('uid', '')}"
        f" Controller:{flag(reference.get('controller'))}"
        f" BlockOwnerDeletion:{flag(reference.get('blockOwnerDeletion'))}}}"
        for reference in references
    )
    return f"[{' '.join(printed)}]"
