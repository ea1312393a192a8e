"""authentication.k8s.io/v1: reviews of tokens and of oneself, and the TokenRequest subresource body."""

from __future__ import annotations

from corral.kinds.machinery.builtin import kind

GROUP = "authentication.k8s.io"

SELF_SUBJECT_REVIEW = kind(
    "authentication.v1.SelfSubjectReview", "selfsubjectreviews", group=GROUP, namespaced=False, verbs=("create",)
)
TOKEN_REVIEW = kind(
    "authentication.v1.TokenReview", "tokenreviews", group=GROUP, namespaced=False, verbs=("create",), status=False
)

KINDS = (SELF_SUBJECT_REVIEW, TOKEN_REVIEW)
SELF_SUBJECT_REVIEWS = SELF_SUBJECT_REVIEW.resource()
TOKEN_REVIEWS = TOKEN_REVIEW.resource()
