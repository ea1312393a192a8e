"""All job kinds Corral knows: those in `corral.jobs`, in one list, and those that installed packages bring.

Frameworks, adapters, served kinds, operators, admission, features and roles of other rooms all derive from this list.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import import_module
from pkgutil import resolve_name
from typing import Any, ParamSpec, TypeVar, cast

from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.jobs.framework.adapter import JobAdapter
from corral.jobs.framework.job_kind import ENTRY_POINTS, JobKind
from corral.jobs.framework.queued_set import QueuedSet
from corral.jobs.framework.submission import Maker, Submission
from corral.kinds.machinery.definition import KindDef

SHIPPED = (
    "batch_job",
    "kubeflow",
    "trainjob",
    "jobset",
    "mpijob",
    "ray",
    "appwrapper",
    "pod",
    "stateful_set",
    "leader_worker_set",
)
"""Folders of `corral.jobs`, in the order discovery lists their API groups."""

log = logging.getLogger(__name__)
_Asked = ParamSpec("_Asked")
_Found = TypeVar("_Found")
_forget: list[Callable[[], None]] = []


def once(function: Callable[_Asked, _Found]) -> Callable[_Asked, _Found]:
    """Works something out about the kinds of jobs once in the life of a process; `reset` forgets it."""
    remembered = cache(function)
    _forget.append(remembered.cache_clear)
    return cast(Callable[_Asked, _Found], remembered)


@once
def job_kinds() -> tuple[JobKind, ...]:
    """Every job kind, Corral's own first; looked for once in the life of a process."""
    return (*_own(), *_from_outside(_own()))


def _own() -> tuple[JobKind, ...]:
    return tuple(import_module(f"corral.jobs.{folder}").JOB_KIND for folder in SHIPPED)


def _from_outside(own: tuple[JobKind, ...]) -> Iterable[JobKind]:
    """What packages declare as entry points. A package that is broken is named and left out; the rest goes on."""
    from importlib import metadata  # reads mail headers, which takes a while to load

    taken = {framework for kind in own for framework in (*kind.adapters, *kind.sets)}
    for entry in sorted(metadata.entry_points(group=ENTRY_POINTS), key=lambda entry: (entry.name, entry.value)):
        try:
            kind = entry.load()
            if not isinstance(kind, JobKind):
                raise TypeError(f"it is {type(kind).__name__}, not a JobKind")
            if clash := sorted(taken & {*kind.adapters, *kind.sets}):
                raise ValueError(f"there is a framework {clash[0]} already")
            _check(kind)
        except Exception as error:  # somebody else's code: whatever is wrong with it, the cluster has to start
            log.warning(
                "job kind from outside is left out",
                extra={"entry_point": f"{entry.name} = {entry.value}", "error": f"{type(error).__name__}: {error}"},
            )
            continue
        taken |= {*kind.adapters, *kind.sets}
        yield kind


def _check(kind: JobKind) -> None:
    """Load what every process needs of a kind, so that a broken one is found before anything relies on it."""
    kind.part(kind.kinds)
    for reference in (*kind.adapters.values(), *kind.sets.values()):
        kind.part(reference)()


def made_by(kind: JobKind, reference: str, context: object) -> Any:
    """What a function that a kind names makes of a cluster; None where it names none.

    Corral's own have to work. One from outside that does not is named and left out."""
    if not reference:
        return None
    try:
        return kind.part(reference)(context)
    except Exception as error:  # as above
        if kind in _own():
            raise
        text = f"{type(error).__name__}: {error}"
        log.warning("part of a job kind is left out", extra={"job_kind": kind.name, "part": reference, "error": text})
        return None


def reset() -> None:
    """Forget what was found, for tests that install or remove packages."""
    for forget in _forget:
        forget()


@once
def frameworks() -> Mapping[str, str]:
    """Jobs with an adapter of their own: the reference of the adapter by framework name."""
    return {name: part for kind in job_kinds() for name, part in kind.adapters.items() if name not in kind.sets}


@once
def shipped_frameworks() -> tuple[str, ...]:
    """What is queued where nobody says what to queue."""
    return tuple(
        dict.fromkeys(name for kind in job_kinds() if kind.on_by_default for name in (*kind.adapters, *kind.sets))
    )


def known_frameworks() -> list[str]:
    """Every name that a configuration may list."""
    return sorted({name for kind in job_kinds() for name in (*kind.adapters, *kind.sets)})


@once
def adapter(framework: str) -> JobAdapter:
    """The adapter of a framework. Raises KeyError when there is none."""
    for kind in job_kinds():
        if framework in kind.adapters:
            made: JobAdapter = kind.part(kind.adapters[framework])()
            return made
    raise KeyError(framework)


def adapters(names: Iterable[str]) -> list[JobAdapter]:
    """The adapters of frameworks that stand for a single object, in order."""
    return [adapter(name) for name in dict.fromkeys(names) if name in frameworks()]


def dispatched_adapters(names: Iterable[str] | None = None) -> list[JobAdapter]:
    """The adapters of some frameworks, or of all, and of every set: those are dispatched as a whole."""
    chosen = adapters(frameworks() if names is None else names)
    return [*chosen, *(adapter(name) for kind in job_kinds() for name in kind.sets if name in kind.adapters)]


@once
def queued_set(framework: str) -> QueuedSet | None:
    """How a kind without a suspend flag is queued; None for other frameworks."""
    for kind in job_kinds():
        if framework in kind.sets:
            made: QueuedSet = kind.part(kind.sets[framework])()
            return made
    return None


def queued_sets(names: Iterable[str]) -> list[QueuedSet]:
    """The sets among some frameworks, in order."""
    return [found for name in dict.fromkeys(names) if (found := queued_set(name)) is not None]


def with_implied(names: Iterable[str]) -> list[str]:
    """Frameworks and those they need: whoever queues sets queues pods."""
    wanted: dict[str, None] = {}
    for name in names:
        wanted.update(dict.fromkeys((name, POD) if queued_set(name) is not None else (name,)))
    return list(wanted)


POD = "pod"
"""The framework of plain pods."""


def adapter_for(resource: Resource) -> JobAdapter | None:
    """The adapter of a kind, in whatever version."""
    return _by_kind().get((resource.group, resource.kind))


@once
def _by_kind() -> Mapping[tuple[str, str], JobAdapter]:
    return {(found.resource.group, found.resource.kind): found for found in dispatched_adapters()}


def component_workloads(job: Obj) -> list[str]:
    """The names of a job's Workloads when it has several; none for most kinds."""
    group = str(job.get("apiVersion", "")).rpartition("/")[0]
    found = _by_kind().get((group, str(job.get("kind"))))
    return found.component_workloads(job) if found is not None else []


def carried_objects(obj: Obj) -> list[Obj]:
    """The objects that a job of any kind carries inside, to be created for whoever made it; none for most kinds."""
    group, kind = str(obj.get("apiVersion", "")).rpartition("/")[0], str(obj.get("kind"))
    carried = _carried().get((group, kind))
    return carried(obj) if carried is not None else []


def is_carrier(group: str, kind: str) -> bool:
    """Whether objects of a kind carry others inside."""
    return (group, kind) in _carried()


@once
def _carried() -> Mapping[tuple[str, str], Callable[[Obj], list[Obj]]]:
    return {
        (found.group, found.kind): kind.part(kind.carried)
        for kind in job_kinds()
        if kind.carried
        for found in kind.part(kind.kinds)
    }


def kinds_of_jobs() -> list[KindDef]:
    """The definitions that job kinds bring, in order."""
    return [found for kind in job_kinds() for found in kind.part(kind.kinds) or ()]


@once
def features() -> Mapping[str, bool]:
    """Feature gates of all operators by their upstream names, and whether they are on by default."""
    return {name: value for kind in job_kinds() for name, value in kind.features.items()}


def options() -> list[str]:
    """Switches of single kinds that a fleet's file may have under `operators`."""
    return sorted({name for kind in job_kinds() for name in kind.options})


@once
def submission_makers() -> Mapping[str, str]:
    """Where the maker of each word of `corral submit --kind` is."""
    return {word: reference for kind in job_kinds() for word, reference in kind.submissions.items()}


def made_from(word: str, wanted: Submission) -> Obj:
    """The object a kind makes of a submission. Raises KeyError for a word nobody knows."""
    maker: Maker = resolve_name(submission_makers()[word])
    return maker(wanted)


class KnownEndings:
    """How jobs of every kind with an adapter end, for those who place or follow them without queueing them."""

    def knows(self, group: str, kind: str) -> bool:
        adapter = adapter_for(Resource(group, "", "", kind))
        return adapter is not None and adapter.ends

    def success(self, job: Obj) -> bool | None:
        group = str(job.get("apiVersion", "")).rpartition("/")[0]
        adapter = adapter_for(Resource(group, "", "", str(job.get("kind"))))
        finish = adapter.finished(job) if adapter is not None else None
        return finish.success if finish is not None else None


ENDINGS = KnownEndings()
