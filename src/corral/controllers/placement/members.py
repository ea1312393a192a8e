"""Member clusters on the hub: a namespace, a role and an InternalMemberCluster each, until they have left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from corral.client.protocol import Client
from corral.configuration.placement import PlacementSettings
from corral.controllers.placement.writes import drop_finalizer, remove, write_status
from corral.core.conditions import condition, find, set_condition
from corral.core.errors import AlreadyExists
from corral.core.meta import (
    Key,
    Obj,
    annotations_of,
    finalizers_of,
    generation_of,
    is_deleting,
    labels_of,
    metadata_of,
    name_of,
    owner_ref,
    spec_of,
    status_of,
    with_finalizer,
    with_labels,
)
from corral.core.resource import Resource
from corral.core.timestamps import parse_time
from corral.decide.placement.clusters import Cluster, cluster_of
from corral.decide.placement.membership import member_status, ready_to_join
from corral.kinds.fleet import INTERNAL_MEMBER_CLUSTERS, MEMBER_CLUSTERS, WORKS
from corral.kinds.fleet.names import (
    AGENT_GONE,
    IS_FLEET_RESOURCE,
    MEMBER_FINALIZER,
    MEMBER_NAME,
    WORK_CLEANUP,
    member_namespace,
)
from corral.kinds.kubernetes.core.kinds import NAMESPACES
from corral.kinds.kubernetes.rbac import ROLE_BINDINGS, ROLES
from corral.runtime.changes import changed
from corral.runtime.controller import Manager, Result, Watch, run_all

GONE_CHECK_S = 1.0
RULES: list[Obj] = [
    {"verbs": ["*"], "apiGroups": ["cluster.kubernetes-fleet.io"], "resources": ["*"]},
    {"verbs": ["*"], "apiGroups": ["placement.kubernetes-fleet.io"], "resources": ["*"]},
    {"verbs": ["*"], "apiGroups": ["networking.fleet.azure.com"], "resources": ["*"]},
    {
        "verbs": ["get", "list", "update", "patch", "watch", "create"],
        "apiGroups": [""],
        "resources": ["events"],
    },
]


class Members:
    """The members as the scheduler sees them, decoded once per change."""

    def __init__(self, manager: Manager) -> None:
        self._informer = manager.informer(MEMBER_CLUSTERS)
        self._decoded: dict[str, tuple[Obj, Cluster]] = {}
        self._clusters: list[Cluster] | None = None
        self._informer.on_change(self._changed)

    def _changed(self, old: Obj | None, new: Obj | None) -> None:
        self._clusters = None

    def clusters(self) -> Sequence[Cluster]:
        """All members, ordered by name."""
        if self._clusters is None:
            self._clusters = self._decode()
        return self._clusters

    def _decode(self) -> list[Cluster]:
        result = []
        for member in self._informer.list():
            known = self._decoded.get(name_of(member))
            if known is None or known[0] is not member:
                known = self._decoded[name_of(member)] = (member, cluster_of(member))
            result.append(known[1])
        return result

    def get(self, name: str) -> Obj | None:
        return self._informer.get(Key("", name))


def _cluster_key(obj: Obj) -> Iterable[Key]:
    return (Key("", name_of(obj)),)


def _namespace_owner(obj: Obj) -> Iterable[Key]:
    name = name_of(obj)
    return (Key("", name.removeprefix("fleet-member-")),) if name.startswith("fleet-member-") else ()


def _is_agent_gone(member: Obj) -> bool:
    return AGENT_GONE in annotations_of(member)


class MemberController:
    """Takes members in and lets them go."""

    name = "member-cluster"

    def __init__(self, manager: Manager, settings: PlacementSettings) -> None:
        self._settings = settings
        self._client: Client = manager.client
        self._clock = manager.clock
        self._recorder = manager.recorder.named("mcv1beta1")
        self._members = manager.informer(MEMBER_CLUSTERS)
        self._internal = manager.informer(INTERNAL_MEMBER_CLUSTERS)
        self._namespaces = manager.informer(NAMESPACES)
        self._roles = manager.informer(ROLES)
        self._role_bindings = manager.informer(ROLE_BINDINGS)
        self._works = manager.informer(WORKS)
        manager.add(
            self,
            watches=[
                # Not for its metadata: an administrator who takes the finalizer off wants to get rid of the member.
                Watch(MEMBER_CLUSTERS, when=changed(generation_of, is_deleting, _is_agent_gone)),
                Watch(INTERNAL_MEMBER_CLUSTERS, map=_cluster_key),
                Watch(NAMESPACES, map=_namespace_owner),
            ],
            workers=2,
        )

    async def reconcile(self, key: Key) -> Result | None:
        member = self._members.get(key)
        if member is None:
            await self._release_orphans(key.name)
            return None
        if is_deleting(member):
            return await self._leave(member)
        member = await self._adopt(member)
        await self._ensure_namespace(member)
        await self._ensure_role(member)
        await self._ensure_role_binding(member)
        internal = await self._ensure_internal(member, "Join")
        await self._report(member, internal)
        return None

    async def _adopt(self, member: Obj) -> Obj:
        if MEMBER_FINALIZER not in finalizers_of(member):
            adopted = with_finalizer(member, MEMBER_FINALIZER)
            identity = spec_of(member).get("identity") or {}
            if identity.get("apiGroup") == "":
                slim = {name: value for name, value in identity.items() if name != "apiGroup"}
                adopted = {**adopted, "spec": {**spec_of(adopted), "identity": slim}}
            member = await self._client.update(MEMBER_CLUSTERS, adopted)
        if labels_of(member).get(MEMBER_NAME) != name_of(member):
            member = await self._client.update(MEMBER_CLUSTERS, with_labels(member, {MEMBER_NAME: name_of(member)}))
        return member

    def _record(self, member: Obj, reason: str, message: str, kind: str = "Normal") -> None:
        self._recorder.event(member, kind, reason, message)

    # What a member has on the hub

    async def _ensure(self, resource: Resource, existing: Obj | None, body: Obj) -> tuple[Obj, str]:
        """The object, and what was done to it: created, updated or nothing."""
        if existing is None:
            try:
                return await self._client.create(resource, body), "created"
            except AlreadyExists:
                existing = await self._client.get(resource, name_of(body), str(metadata_of(body).get("namespace", "")))
        wanted = {name: value for name, value in body.items() if name not in ("metadata", "status")}
        if all(existing.get(name) == value for name, value in wanted.items()):
            return existing, ""
        return await self._client.update(resource, {**existing, **wanted}), "updated"

    def _owned(self, member: Obj, name: str, namespace: str = "") -> Obj:
        metadata: Obj = {"name": name, "ownerReferences": [owner_ref(member, block=False)]}
        return {**metadata, "namespace": namespace} if namespace else metadata

    async def _ensure_namespace(self, member: Obj) -> None:
        name = member_namespace(name_of(member))
        existing = self._namespaces.get(Key("", name))
        if existing is None:
            metadata = {**self._owned(member, name), "labels": {IS_FLEET_RESOURCE: "true"}}
            _, done = await self._ensure(NAMESPACES, None, {"metadata": metadata})
            if done:
                self._record(member, "NamespaceCreated", "Namespace was created")
        elif labels_of(existing).get(IS_FLEET_RESOURCE) != "true":
            await self._client.update(NAMESPACES, with_labels(existing, {IS_FLEET_RESOURCE: "true"}))
            self._record(member, "NamespacePatched", "Namespace was patched")

    async def _ensure_role(self, member: Obj) -> None:
        namespace, name = member_namespace(name_of(member)), f"fleet-role-{name_of(member)}"
        body = {"metadata": self._owned(member, name, namespace), "rules": RULES}
        _, done = await self._ensure(ROLES, self._roles.get(Key(namespace, name)), body)
        if done:
            self._record(member, f"Role{done.capitalize()}", f"role was {done}")

    async def _ensure_role_binding(self, member: Obj) -> None:
        namespace, name = member_namespace(name_of(member)), f"fleet-rolebinding-{name_of(member)}"
        group = "rbac.authorization.k8s.io"
        reference = {"apiGroup": group, "kind": "Role", "name": f"fleet-role-{name_of(member)}"}
        identity = spec_of(member).get("identity") or {}
        subject = {part: value for part, value in identity.items() if value}
        if subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", group)
        body = {"metadata": self._owned(member, name, namespace), "subjects": [subject], "roleRef": reference}
        _, done = await self._ensure(ROLE_BINDINGS, self._role_bindings.get(Key(namespace, name)), body)
        if done:
            self._record(member, f"RoleBinding{done.capitalize()}", f"role binding was {done}")

    async def _ensure_internal(self, member: Obj, state: str) -> Obj:
        namespace, name = member_namespace(name_of(member)), name_of(member)
        spec = {"state": state, "heartbeatPeriodSeconds": spec_of(member).get("heartbeatPeriodSeconds", 60)}
        body = {"metadata": self._owned(member, name, namespace), "spec": spec}
        internal, done = await self._ensure(INTERNAL_MEMBER_CLUSTERS, self._internal.get(Key(namespace, name)), body)
        if done == "created":
            self._record(member, "InternalMemberClusterCreated", "Internal member cluster was created")
        elif done:
            self._record(member, "InternalMemberClusterSpecUpdated", "internal member cluster spec updated")
        return internal

    # Status

    async def _report(self, member: Obj, internal: Obj) -> None:
        old = status_of(member)
        status = member_status(member, internal, self._clock.timestamp())
        if find(member, "ReadyToJoin") is None or (find(member, "ReadyToJoin") or {}).get("status") != "True":
            self._record(member, "MemberClusterReadyToJoin", "member cluster ready to join")
            first = set_condition(old.get("conditions") or [], ready_to_join(member), self._clock.timestamp())
            written = {**old, "conditions": first, "resourceUsage": old.get("resourceUsage") or {}}
            member = await write_status(self._client, MEMBER_CLUSTERS, member, written)
        self._report_joined(old, status, member)
        await write_status(self._client, MEMBER_CLUSTERS, member, status)

    def _report_joined(self, old: Obj, new: Obj, member: Obj) -> None:
        before = (find(old.get("conditions") or [], "Joined") or {}).get("status")
        after = (find(new.get("conditions") or [], "Joined") or {}).get("status")
        if before == after:
            return
        match after:
            case "True":
                self._record(member, "MemberClusterJoined", "member cluster joined")
            case "False":
                self._record(member, "MemberClusterJoined", "member cluster left")
            case _:
                text = "member cluster join state unknown"
                self._record(member, "MemberClusterJoinStateUnknown", text, "Warning")

    # Leaving

    async def _leave(self, member: Obj) -> Result | None:
        if MEMBER_FINALIZER not in finalizers_of(member):
            return None
        namespace = self._namespaces.get(Key("", member_namespace(name_of(member))))
        if namespace is None:
            await drop_finalizer(self._client, MEMBER_CLUSTERS, member, MEMBER_FINALIZER)
            return None
        if is_deleting(namespace):
            return Result(requeue_after=GONE_CHECK_S)
        internal = self._internal.get(Key(name_of(namespace), name_of(member)))
        if internal is not None and not self._has_left(internal):
            await self._ensure_internal(member, "Leave")
            left = self._patience(member)
            if left > 0:
                return Result(requeue_after=left)
            await self._release_works(name_of(namespace))
        await self._report_left(member)
        await remove(self._client, NAMESPACES, namespace)
        return Result(requeue_after=GONE_CHECK_S)

    def _has_left(self, internal: Obj) -> bool:
        if spec_of(internal).get("state") != "Leave":
            return False
        agents = status_of(internal).get("agentStatus") or []
        entries = [find(agent.get("conditions") or [], "Joined") for agent in agents]
        # An agent that never reported has nothing to take back.
        return all(entry is not None and entry["status"] == "False" for entry in entries)

    def _patience(self, member: Obj) -> float:
        if _is_agent_gone(member):
            return 0.0
        since = parse_time(str(metadata_of(member)["deletionTimestamp"]))
        return since + self._settings.force_delete_after - self._clock.now()

    async def _release_works(self, namespace: str) -> None:
        """Let go of Works whose agent will not answer any more."""
        works = [work for work in self._works.list(namespace) if WORK_CLEANUP in finalizers_of(work)]
        await run_all(drop_finalizer(self._client, WORKS, work, WORK_CLEANUP) for work in works)

    async def _release_orphans(self, member: str) -> None:
        """Let go of the Works of a member that was removed without leaving: its agent has no right to answer any more."""
        namespace = self._namespaces.get(Key("", member_namespace(member)))
        if namespace is not None and is_deleting(namespace):
            await self._release_works(name_of(namespace))

    async def _report_left(self, member: Obj) -> None:
        old = status_of(member)
        now, generation = self._clock.timestamp(), generation_of(member)
        text = "Member cluster is not ready to join the fleet"
        away = condition("ReadyToJoin", False, "MemberClusterNotReadyToJoin", text, generation)
        conditions = set_condition(old.get("conditions") or [], away, now)
        left = condition("Joined", False, "MemberClusterLeft", "Member cluster has left the fleet", generation)
        conditions = set_condition(conditions, left, now)
        status = {**old, "conditions": conditions}
        self._report_joined(old, status, member)
        await write_status(self._client, MEMBER_CLUSTERS, member, status)
