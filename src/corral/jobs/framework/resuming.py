"""A suspended child Job as it runs on.

What an earlier admission left in its pod template gives way to what is wanted now; what the Job API and the owner of
the Job put there themselves stays.
"""

from __future__ import annotations

from corral.core.meta import Obj, spec_of

_SYNCED = ("nodeSelector", "tolerations", "schedulingGates")
_JOB_API = ("controller-uid", "job-name")


def resumed(job: Obj, wanted: Obj, own_prefixes: tuple[str, ...] = ()) -> Obj:
    """The Job resumed with the pod template `wanted`; labels and annotations under `own_prefixes` are the owner's."""
    kept = ("batch.kubernetes.io/", *own_prefixes)
    template = spec_of(job).get("template") or {}
    metadata = dict(template.get("metadata") or {})
    for name in ("labels", "annotations"):
        own = {
            key: value
            for key, value in (metadata.pop(name, None) or {}).items()
            if key.startswith(kept) or key in _JOB_API
        }
        merged = {**((wanted.get("metadata") or {}).get(name) or {}), **own}
        if merged:
            metadata[name] = merged
    pod = {key: value for key, value in spec_of(template).items() if key not in _SYNCED}
    pod.update({key: value for key, value in spec_of(wanted).items() if key in _SYNCED})
    spec = {**spec_of(job), "suspend": False, "template": {**template, "metadata": metadata, "spec": pod}}
    return {**job, "spec": spec}
