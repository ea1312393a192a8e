"""Who may do what: RBAC over the roles and bindings in the store, seen as they are at this moment.

The index of bindings is rebuilt when a role or binding has changed, and decisions are remembered until then.
"""

from __future__ import annotations

from collections.abc import Iterable

from corral.core.admission import UserInfo
from corral.core.errors import Forbidden
from corral.core.meta import Obj, namespace_of
from corral.core.remembering import LONGEST
from corral.server.access import rbac
from corral.server.access.rbac import Attributes
from corral.store import Event, ObjectKey, Store

ROLES = "roles.rbac.authorization.k8s.io"
CLUSTER_ROLES = "clusterroles.rbac.authorization.k8s.io"
ROLE_BINDINGS = "rolebindings.rbac.authorization.k8s.io"
CLUSTER_ROLE_BINDINGS = "clusterrolebindings.rbac.authorization.k8s.io"
_KINDS = frozenset({ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS})

MASTERS = "system:masters"
EVERYTHING: list[Obj] = [
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
]
_REMEMBERED = 20_000
_KNOWN_USERS = 4096

Subject = tuple[str, ...]


class Grants:
    """The rules one user holds: everywhere, and per namespace."""

    __slots__ = ("bound", "everywhere", "inside")

    def __init__(self) -> None:
        self.everywhere: list[Obj] = []
        self.inside: dict[str, list[Obj]] = {}
        self.bound: list[tuple[str, str, list[Obj]]] = []  # (namespace, which binding, its rules)

    def rules(self, namespace: str) -> list[Obj]:
        return [*self.everywhere, *self.inside.get(namespace, ())] if namespace else list(self.everywhere)


class Authorizer:
    """Answers from the store's roles and bindings."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.generation = 0
        """Which state of the roles and bindings answers are about; another number, other answers."""
        self._stale = True
        store.observe(self._changed)
        self._bindings: dict[Subject, list[tuple[str, str, Obj]]] = {}
        self._grants: dict[tuple[str, tuple[str, ...]], Grants] = {}
        self._decisions: dict[tuple[str, tuple[str, ...], Attributes], bool] = {}

    def allowed(self, user: UserInfo, wanted: Attributes) -> bool:
        if MASTERS in user.groups:
            return True
        self._refresh()
        key = (user.name, user.groups, wanted)
        decision = self._decisions.get(key)
        if decision is None:
            decision = self._decide(user, wanted)
            # Refused or not, what is asked for is the caller's to make up: long words are not kept.
            if _length(user) + sum(map(len, wanted)) <= LONGEST:
                if len(self._decisions) >= _REMEMBERED:
                    self._decisions.clear()
                self._decisions[key] = decision
        return decision

    def require(self, user: UserInfo, wanted: Attributes) -> None:
        """Forbidden, in the words of a real server, unless `user` may."""
        if not self.allowed(user, wanted):
            raise refusal(user, wanted)

    def why(self, user: UserInfo, wanted: Attributes) -> str:
        """Which binding allows this; empty when none is needed."""
        if MASTERS in user.groups:
            return ""
        self._refresh()
        for namespace, binding, rules in self._grants_of(user).bound:
            if namespace in ("", wanted.namespace) and any(rbac.allows(rule, wanted) for rule in rules):
                return f"RBAC: allowed by {binding}"
        return ""

    def rules(self, user: UserInfo, namespace: str) -> list[Obj]:
        """All rules that hold for `user` in a namespace ("" for cluster scope)."""
        self._refresh()
        granted = self._grants_of(user).rules(namespace)
        if MASTERS in user.groups:
            return [*EVERYTHING, *(rule for rule in granted if rule not in EVERYTHING)]
        return granted

    def role_rules(self, reference: Obj, namespace: str) -> list[Obj] | None:
        """The rules of the role a binding refers to; None when there is no such role."""
        return self._rules_of(reference, namespace)

    # inside

    def _decide(self, user: UserInfo, wanted: Attributes) -> bool:
        grants = self._grants_of(user)
        if any(rbac.allows(rule, wanted) for rule in grants.everywhere):
            return True
        return bool(wanted.namespace) and any(
            rbac.allows(rule, wanted) for rule in grants.inside.get(wanted.namespace, ())
        )

    def _grants_of(self, user: UserInfo) -> Grants:
        key = (user.name, user.groups)
        grants = self._grants.get(key)
        if grants is None:
            grants = self._collect(user)
            if _length(user) <= LONGEST:
                if len(self._grants) >= _KNOWN_USERS:
                    self._grants.clear()
                self._grants[key] = grants
        return grants

    def _collect(self, user: UserInfo) -> Grants:
        grants = Grants()
        for subject in _subjects_of(user):
            for namespace, binding, reference in self._bindings.get(subject, ()):
                rules = self._rules_of(reference, namespace) or []
                shown = f'{binding} of {reference.get("kind")} "{reference.get("name")}" to {_shown(subject)}'
                grants.bound.append((namespace, shown, rules))
                if namespace:
                    grants.inside.setdefault(namespace, []).extend(rules)
                else:
                    grants.everywhere.extend(rules)
        return grants

    def _rules_of(self, reference: Obj, namespace: str) -> list[Obj] | None:
        name = reference.get("name") or ""
        if reference.get("kind") == "Role":
            stored = self._store.get(ObjectKey(ROLES, namespace, name))
            return None if stored is None else list(stored.obj.get("rules") or ())
        stored = self._store.get(ObjectKey(CLUSTER_ROLES, "", name))
        if stored is None:
            return None
        return rbac.aggregated(stored.obj, (other.obj for other in self._store.scan(CLUSTER_ROLES)))

    def _changed(self, event: Event) -> None:
        if not self._stale and event.stored.key.resource in _KINDS:
            self._stale = True
            self.generation += 1

    def _refresh(self) -> None:
        if self._stale:
            self._stale = False
            self._bindings = self._index()
            self._grants.clear()
            self._decisions.clear()

    def _index(self) -> dict[Subject, list[tuple[str, str, Obj]]]:
        index: dict[Subject, list[tuple[str, str, Obj]]] = {}
        for kind in (CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS):
            for stored in self._store.scan(kind):
                binding = stored.obj
                namespace = namespace_of(binding)
                shown = f'{"RoleBinding" if namespace else "ClusterRoleBinding"} "{_path(stored.key)}"'
                for subject in binding.get("subjects") or ():
                    index.setdefault(_subject(subject, namespace), []).append((namespace, shown, binding["roleRef"]))
        return index


def _length(user: UserInfo) -> int:
    return len(user.name) + sum(map(len, user.groups))


def _subject(subject: Obj, binding_namespace: str) -> Subject:
    kind, name = str(subject.get("kind")), str(subject.get("name"))
    if kind == "ServiceAccount":
        return ("User", f"system:serviceaccount:{subject.get('namespace') or binding_namespace}:{name}")
    return (kind, name)


def _path(key: ObjectKey) -> str:
    return f"{key.name}/{key.namespace}" if key.namespace else key.name


def _shown(subject: Subject) -> str:
    """A subject as a real server names it in a reason."""
    kind, name = subject
    if name.startswith("system:serviceaccount:"):
        _, _, namespace, account = name.split(":", 3)
        return f'ServiceAccount "{account}/{namespace}"'
    return f'{kind} "{name}"'


def _subjects_of(user: UserInfo) -> Iterable[Subject]:
    yield ("User", user.name)
    for group in user.groups:
        yield ("Group", group)


def refusal(user: UserInfo, wanted: Attributes) -> Forbidden:
    """The 403 for a request no rule allows."""
    why = rbac.forbidden_message(user, wanted)
    if not wanted.resource:
        return Forbidden(f"forbidden: {why}", details={})
    subject = f"{wanted.resource}.{wanted.group}" if wanted.group else wanted.resource
    details: Obj = {"name": wanted.name} if wanted.name else {}
    if wanted.group:
        details["group"] = wanted.group
    details["kind"] = wanted.resource
    quoted = f' "{wanted.name}"' if wanted.name else ""
    return Forbidden(f"{subject}{quoted} is forbidden: {why}", details=details)
