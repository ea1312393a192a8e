"""The CustomResourceDefinitions of a real cluster: which of them Corral brings, and how they change with its versions.

Only kinds of queueing are brought unless more are asked for: kinds of jobs belong to their operators. A definition that
somebody else made is used as it is; one of ours says so by its label, and follows when it is asked to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from corral.client.protocol import Client
from corral.configuration.queueing import DEFAULT_NAMESPACE
from corral.core import conditions
from corral.core.errors import AlreadyExists, Conflict
from corral.core.meta import Obj, labels_of, name_of, spec_of, status_of
from corral.jobs.framework.served_kinds import native_kinds
from corral.kinds.kubernetes.apiextensions.kinds import CUSTOM_RESOURCE_DEFINITIONS
from corral.kinds.kubernetes.core.kinds import NAMESPACES
from corral.kinds.kueue.names import GROUP
from corral.kinds.machinery.crd import crd_manifest
from corral.kinds.machinery.definition import KindDef
from corral.runtime.clock import Clock

DEFAULT_GROUPS = (GROUP,)
MADE_BY = {"app.kubernetes.io/managed-by": "corral"}


def chosen_kinds(groups: Sequence[str] = ()) -> list[KindDef]:
    """The kinds of these groups, those of queueing when none is named. Raises ValueError for a group without kinds."""
    known = dict.fromkeys(kind.group for kind in native_kinds())
    unknown = [group for group in groups if group not in known]
    if unknown:
        raise ValueError(f"Corral has no kinds in group {unknown[0]!r}; it has some in {', '.join(known)}")
    return [kind for kind in native_kinds() if kind.group in (groups or DEFAULT_GROUPS)]


def definition_of(kind: KindDef) -> Obj:
    """The definition of a kind as we install it."""
    manifest = crd_manifest(kind)
    return {**manifest, "metadata": {**manifest["metadata"], "labels": MADE_BY}}


@dataclass(slots=True)
class Installed:
    """What an installation did: names of definitions, and sentences about those that could not follow."""

    created: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


async def install(client: Client, *, groups: Sequence[str] = (), upgrade: bool = False) -> Installed:
    """Make our namespace and the definitions that are missing; with `upgrade`, those of ours follow this version too."""
    try:
        await client.create(NAMESPACES, {"metadata": {"name": DEFAULT_NAMESPACE}})
    except AlreadyExists:
        pass
    done = Installed()
    for kind in chosen_kinds(groups):
        await _install(client, definition_of(kind), done, upgrade=upgrade)
    return done


async def _install(client: Client, wanted: Obj, done: Installed, *, upgrade: bool) -> None:
    name = name_of(wanted)
    try:
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, wanted)
        done.created.append(name)
        return
    except AlreadyExists:
        found = await client.get(CUSTOM_RESOURCE_DEFINITIONS, name)
    if not upgrade or not is_ours(found):
        done.kept.append(name)
        return
    lost = lost_versions(found, wanted)
    if lost:
        done.refused.append(
            f"{name} is left as it is: objects are stored in {', '.join(lost)}, which this version of Corral does not have. "
            "Rewrite them with a version that has both (kubectl get and replace), and take the old one out of "
            "status.storedVersions"
        )
        return
    try:
        changed = await client.update(CUSTOM_RESOURCE_DEFINITIONS, replaced(found, wanted))
    except Conflict:
        await _install(client, wanted, done, upgrade=upgrade)
        return
    is_same = spec_of(changed) == spec_of(found)
    (done.kept if is_same else done.changed).append(name)


async def established(client: Client, clock: Clock, names: Sequence[str], patience_s: float = 60.0) -> list[str]:
    """Wait until the API serves these definitions; the names of those it does not serve after all."""
    ends, left = clock.monotonic() + patience_s, list(names)
    while True:
        left = [name for name in left if not await _is_established(client, name)]
        if not left or clock.monotonic() > ends:
            return left
        await clock.sleep(0.2)


async def _is_established(client: Client, name: str) -> bool:
    return conditions.is_true(await client.get(CUSTOM_RESOURCE_DEFINITIONS, name), "Established")


def is_ours(crd: Obj) -> bool:
    """Whether we made a definition."""
    return MADE_BY.items() <= labels_of(crd).items()


def lost_versions(found: Obj, wanted: Obj) -> list[str]:
    """Versions objects may be stored in that the wanted definition cannot read."""
    known = _versions(wanted)
    return [version for version in status_of(found).get("storedVersions") or () if version not in known]


def replaced(found: Obj, wanted: Obj) -> Obj:
    """The definition as it is to be; how its versions are converted is the webhooks' business and stays."""
    conversion = spec_of(found).get("conversion")
    spec = {**spec_of(wanted), **({"conversion": conversion} if conversion else {})}
    return {**found, "spec": spec}


def _versions(crd: Obj) -> set[str]:
    listed: Iterable[Obj] = spec_of(crd).get("versions") or ()
    return {version["name"] for version in listed}
