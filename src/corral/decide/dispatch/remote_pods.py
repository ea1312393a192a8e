"""Pods of dispatched jobs: how the manager shows them, and the logs it keeps of those that are gone."""

from __future__ import annotations

import re

from corral.core.meta import Obj, labels_of, metadata_of, owner_ref, uid_of
from corral.core.remote_pods import CLUSTER_LABEL
from corral.core.streams import LogOptions
from corral.core.timestamps import format_micro

_TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d) ")


def shown_pod(pod: Obj, remote_job: Obj, local_job: Obj, cluster: str) -> Obj:
    """`pod` of `remote_job` as if it belonged to `local_job`: selectors that name the job's uid find it."""
    remote_uid, local_uid = uid_of(remote_job), uid_of(local_job)
    labels = {name: local_uid if value == remote_uid else value for name, value in labels_of(pod).items()}
    metadata = {
        **{name: value for name, value in metadata_of(pod).items() if name not in ("managedFields", "ownerReferences")},
        "labels": {**labels, CLUSTER_LABEL: cluster},
    }
    if uid_of(pod) != remote_uid:
        metadata["ownerReferences"] = [owner_ref(local_job)]
    return {**pod, "metadata": metadata}


def tail(log: bytes, limit: int) -> bytes:
    """The last whole lines of a log that fit."""
    if len(log) <= limit:
        return log
    cut = log[-limit:]
    return cut[cut.find(b"\n") + 1 :]


def part_of(log: bytes, options: LogOptions) -> bytes:
    """What a reader wants of a log whose lines begin with their time."""
    lines = log.splitlines(keepends=True)
    if options.since is not None:
        since = format_micro(options.since)[:-1].encode()
        lines = [line for line in lines if not _TIME.match(line) or line >= since]
    if options.tail_lines is not None:
        lines = lines[-options.tail_lines :] if options.tail_lines > 0 else []
    if not options.timestamps:
        lines = [_TIME.sub(b"", line, count=1) if _TIME.match(line) else line for line in lines]
    return b"".join(lines)[: options.limit_bytes]
