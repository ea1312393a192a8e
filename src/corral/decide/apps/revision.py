"""Names for versions of a pod template: a short hash that stays the same for the same template."""

from __future__ import annotations

import hashlib
import json

from corral.core.meta import Obj

# The letters Kubernetes uses for generated suffixes: no vowels, nothing that looks like something else.
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
HASH_LABEL = "pod-template-hash"


def template_hash(template: Obj, collisions: int = 0, length: int = 10) -> str:
    """A hash of a pod template, different for every number of `collisions` met so far."""
    canonical = json.dumps([template, collisions], sort_keys=True, separators=(",", ":"))
    number = int.from_bytes(hashlib.sha256(canonical.encode()).digest()[:12], "big")
    letters = []
    for _ in range(length):
        number, position = divmod(number, len(ALPHABET))
        letters.append(ALPHABET[position])
    return "".join(letters)


def without_hash(template: Obj) -> Obj:
    """The template as its Deployment wrote it: without the hash label."""
    metadata = template.get("metadata") or {}
    labels = {name: value for name, value in (metadata.get("labels") or {}).items() if name != HASH_LABEL}
    rest = {name: value for name, value in metadata.items() if name not in ("labels", "creationTimestamp") and value}
    return {**template, "metadata": {**rest, **({"labels": labels} if labels else {})}}


def same_template(left: Obj, right: Obj) -> bool:
    """Whether two templates make the same pods."""
    return without_hash(left) == without_hash(right)
