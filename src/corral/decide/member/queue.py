"""Sharing jobs with the queue: what of a job belongs to the queue on the member, and what of it the hub should hear about.

A queue starts a job by writing to it: it turns `suspend` off, adds node selectors, tolerations, labels and annotations to
pod templates, and may lower the parallelism. The API server adds a selector and labels of its own. None of that is the
hub's to put back, and none of it is drift, once the manifest is bent to the live object in those places.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from corral.core.meta import Obj, annotations_of, labels_of, name_of, spec_of, status_of
from corral.core.patch.json import json_patch
from corral.decide.member.compare import Difference, differences

QUEUE_FRIENDLY: Final = "corral.dev/queue-friendly"
IGNORE_DIFFERENCES: Final = "corral.dev/ignore-differences"
ANNOTATIONS: Final = (QUEUE_FRIENDLY, IGNORE_DIFFERENCES)
FINISHED_JOBS: Final = "corral.dev/finished-jobs"
_QUEUE_NAME: Final = "kueue.x-k8s.io/queue-name"
_TEMPLATE: Final = r"(?:/[^/]+)*/[A-Za-z]*[tT]emplate"
_OWNED: Final = re.compile(
    r"/spec(?:/runPolicy)?/suspend"
    r"|/spec(?:/.*)?/(?:parallelism|numNodes)"
    rf"|{_TEMPLATE}/spec/(?:nodeSelector|tolerations|schedulingGates)(?:/.*)?"
)
_MARK: Final = re.compile(rf"{_TEMPLATE}/metadata/(?:labels|annotations)/kueue\.x-k8s\.io~1.*")
_MARKS: Final = re.compile(rf"{_TEMPLATE}/metadata/(?:labels|annotations)")
_GENERATED: Final = re.compile(
    r"/spec/selector(?:/.*)?|/spec/template/metadata/labels/(?:batch\.kubernetes\.io~1)?(?:controller-uid|job-name)"
)


class JobEndings(Protocol):
    """What is known about the ends of jobs, of whatever kind; the adapters of `corral.jobs` say it."""

    def knows(self, group: str, kind: str) -> bool:
        """Whether jobs of this kind run to an end."""
        ...

    def success(self, job: Obj) -> bool | None:
        """Whether a job ended well; None while it has not ended, or is none."""
        ...


def is_queued(obj: Obj) -> bool:
    """Whether an object names the queue it waits in."""
    return _QUEUE_NAME in labels_of(obj) or _QUEUE_NAME in annotations_of(obj)


def yields_to_queue(obj: Obj) -> bool:
    """Whether an object, or the Work that carries it, is annotated to be left to the queue."""
    return annotations_of(obj).get(QUEUE_FRIENDLY) == "true"


def ignored_paths(*objects: Obj) -> tuple[str, ...]:
    """JSON pointers that users asked not to compare and not to put back: a list in JSON, or separated by commas."""
    found: list[str] = []
    for obj in objects:
        text = annotations_of(obj).get(IGNORE_DIFFERENCES, "").strip()
        if text.startswith("["):
            try:
                found += [str(path) for path in json.loads(text)]
            except ValueError:
                continue
        else:
            found += [path.strip() for path in text.split(",") if path.strip()]
    return tuple(found)


def bend(
    manifest: Obj,
    live: Obj,
    *,
    marks: bool = False,
    queue: bool = False,
    generated: bool = False,
    ignored: Iterable[str] = (),
) -> Obj:
    """The manifest as the hub would have written it had it known the live object in the places that are not its own.

    `marks` yields the queue's labels and annotations in pod templates, `queue` all else that it writes, `generated` what
    the API server makes of a Job, `ignored` what users named."""
    paths = tuple(ignored)
    is_job = generated and manifest.get("kind") == "Job" and not spec_of(manifest).get("manualSelector")

    def is_not_ours(difference: Difference) -> bool:
        pointer = difference.pointer
        return (
            (marks and _is_mark(difference))
            or (queue and _OWNED.fullmatch(pointer) is not None)
            or (is_job and _GENERATED.fullmatch(pointer) is not None)
            or any(pointer == path or pointer.startswith(path + "/") for path in paths)
        )

    steps = [step.operation for step in differences(manifest, live) if is_not_ours(step)]
    bent = json_patch(manifest, steps) if steps else manifest
    return bent if isinstance(bent, dict) else manifest


def _is_mark(difference: Difference) -> bool:
    pointer = difference.pointer
    if difference.op == "add" and _MARKS.fullmatch(pointer) is not None:
        return all(name.startswith("kueue.x-k8s.io/") for name in difference.new)
    return _MARK.fullmatch(pointer) is not None


def progress(live: Obj, workload: Obj | None) -> Obj | None:
    """What the hub hears about a job: its status, and where it stands in the queue."""
    status = status_of(live)
    if not status and workload is None:
        return None
    reported: Obj = {"apiVersion": live.get("apiVersion"), "kind": live.get("kind"), "status": status}
    if workload is not None:
        queue = {
            "name": name_of(workload),
            "clusterQueue": (status_of(workload).get("admission") or {}).get("clusterQueue"),
            "conditions": status_of(workload).get("conditions"),
        }
        reported["workload"] = {name: value for name, value in queue.items() if value}
    return reported


def remembered(applied_work: Obj) -> dict[str, Obj]:
    """Jobs of a Work that finished, by identity: the hash of the manifest they ran for and their last status."""
    try:
        found = json.loads(annotations_of(applied_work).get(FINISHED_JOBS, "{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def memory(finished: Mapping[str, Obj]) -> str | None:
    """The annotation that holds the finished jobs; None when there are none."""
    return json.dumps(finished, sort_keys=True, separators=(",", ":")) if finished else None
