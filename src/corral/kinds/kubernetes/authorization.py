"""authorization.k8s.io/v1: access reviews."""

from __future__ import annotations

from typing import Any

from corral.kinds.machinery.builtin import kind

_OPTIONS: dict[str, Any] = {"group": "authorization.k8s.io", "verbs": ("create",)}

LOCAL_SUBJECT_ACCESS_REVIEW = kind("authorization.v1.LocalSubjectAccessReview", "localsubjectaccessreviews", **_OPTIONS)
SELF_SUBJECT_ACCESS_REVIEW = kind(
    "authorization.v1.SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False, **_OPTIONS
)
SELF_SUBJECT_RULES_REVIEW = kind(
    "authorization.v1.SelfSubjectRulesReview", "selfsubjectrulesreviews", namespaced=False, **_OPTIONS
)
SUBJECT_ACCESS_REVIEW = kind(
    "authorization.v1.SubjectAccessReview", "subjectaccessreviews", namespaced=False, **_OPTIONS
)

KINDS = (
    LOCAL_SUBJECT_ACCESS_REVIEW,
    SELF_SUBJECT_ACCESS_REVIEW,
    SELF_SUBJECT_RULES_REVIEW,
    SUBJECT_ACCESS_REVIEW,
)

SUBJECT_ACCESS_REVIEWS = SUBJECT_ACCESS_REVIEW.resource()
