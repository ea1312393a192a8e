"""The world the recordings were made in, rebuilt on a fresh server: users, a custom kind and the objects cases refer to.

Everything here is what a person would have typed before recording. `STEPS` names what happened right before a case.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, quote, urlencode

from implied import impersonated, namespaces, preparations

from corral.clusters.embedded_api import EmbeddedApi
from corral.core.admission import UserInfo
from corral.core.errors import ApiError
from corral.core.meta import Obj

ALICE = UserInfo("alice", ("devs",))
_ALICE_TOKEN = "alice-token"
_POD_SPEC: Obj = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}


def _job(name: str, suspend: bool) -> Obj:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"suspend": suspend, "template": {"spec": _POD_SPEC}},
    }


def _config_map(name: str, **metadata: Any) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": {"k": "v"}}


WIDGETS: Obj = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.errs.example"},
    "spec": {
        "group": "errs.example",
        "names": {"plural": "widgets", "kind": "Widget"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "required": ["spec"],
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["size"],
                                "properties": {
                                    "size": {"type": "integer", "maximum": 10},
                                    "mode": {"type": "string", "enum": ["A", "B"]},
                                    "name": {"type": "string", "maxLength": 5},
                                    "tags": {
                                        "type": "array",
                                        "maxItems": 2,
                                        "items": {"type": "string"},
                                        "x-kubernetes-list-type": "set",
                                    },
                                },
                                "x-kubernetes-validations": [
                                    {
                                        "rule": "!has(self.mode) || self.mode != 'B' || self.size > 5",
                                        "message": "mode B needs size over 5",
                                    }
                                ],
                            }
                        },
                    }
                },
            }
        ],
    },
}

_WEBHOOK: Obj = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "errs"},
    "webhooks": [
        {
            "name": "w.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "timeoutSeconds": 1,
            "clientConfig": {"url": "https://127.0.0.1:1/x"},
            "rules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
            ],
            "matchConditions": [{"name": "named", "expression": "object.metadata.name.startsWith('wh-')"}],
        }
    ],
}
_POLICY: Obj = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "errs"},
    "spec": {
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
            ]
        },
        "validations": [
            {"expression": "!object.metadata.name.startsWith('vap-')", "message": "no vap- names"},
        ],
    },
}
_POLICY_BINDING: Obj = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "errs"},
    "spec": {"policyName": "errs", "validationActions": ["Deny"]},
}

_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_CORE = "/api/v1/namespaces/errs"
_RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/errs"

Step = tuple[str, str, Any]
_LEASE: Step = (
    "PUT",
    "/apis/coordination.k8s.io/v1/namespaces/errs/leases/made-by-put",
    {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "made-by-put"}, "spec": {}},
)
BASE: tuple[Step, ...] = (
    ("POST", f"{_CORE}/configmaps", _config_map("a")),
    ("POST", f"{_CORE}/configmaps", _config_map("b")),
    ("POST", "/apis/batch/v1/namespaces/errs/jobs", _job("im", True)),
    ("POST", "/apis/batch/v1/namespaces/errs/jobs", _job("run", False)),
    ("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", WIDGETS),
    (
        "POST",
        f"{_RBAC}/roles",
        {
            "metadata": {"name": "make-roles"},
            "rules": [{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create"]}],
        },
    ),
    (
        "POST",
        f"{_RBAC}/rolebindings",
        {
            "metadata": {"name": "alice"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "make-roles"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
        },
    ),
)
STEPS: dict[str, tuple[Step, ...]] = {
    "put-no-rv-lease": (_LEASE,),
    "ssa-conflict-two-fields": (
        (
            "APPLY",
            f"{_CORE}/configmaps/ssa?fieldManager=m1",
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ssa"}, "data": {"x": "1", "y": "1"}},
        ),
    ),
    "delete-with-finalizer": (("POST", f"{_CORE}/configmaps", _config_map("fin", finalizers=["example.com/f"])),),
    "quota-exceeded": (
        ("DELETE", "/apis/coordination.k8s.io/v1/namespaces/errs/leases/made-by-put", None),
        (
            "POST",
            f"{_CORE}/resourcequotas",
            {"metadata": {"name": "q"}, "spec": {"hard": {"count/leases.coordination.k8s.io": "0"}}},
        ),
        (
            "STATUS",
            f"{_CORE}/resourcequotas/q/status",
            {
                "status": {
                    "hard": {"count/leases.coordination.k8s.io": "0"},
                    "used": {"count/leases.coordination.k8s.io": "0"},
                }
            },
        ),
    ),
    "admission-policy-denied": (
        ("POST", f"{_ADMISSION}/validatingadmissionpolicies", _POLICY),
        ("POST", f"{_ADMISSION}/validatingadmissionpolicybindings", _POLICY_BINDING),
    ),
    "webhook-unreachable": (("POST", f"{_ADMISSION}/validatingwebhookconfigurations", _WEBHOOK),),
    "crd-invalid": (
        ("DELETE", f"{_ADMISSION}/validatingadmissionpolicybindings/errs", None),
        ("DELETE", f"{_ADMISSION}/validatingadmissionpolicies/errs", None),
        ("DELETE", f"{_ADMISSION}/validatingwebhookconfigurations/errs", None),
    ),
    "cr-strategic-merge": (
        (
            "POST",
            "/apis/errs.example/v1/namespaces/errs/widgets",
            {"apiVersion": "errs.example/v1", "kind": "Widget", "metadata": {"name": "ok"}, "spec": {"size": 1}},
        ),
    ),
    "pod-log-unscheduled": (
        (
            "POST",
            f"{_CORE}/pods",
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "p"},
                "spec": {"containers": _POD_SPEC["containers"]},
            },
        ),
    ),
    "eviction-blocked": (
        (
            "POST",
            "/apis/policy/v1/namespaces/errs/poddisruptionbudgets",
            {"metadata": {"name": "pdb"}, "spec": {"minAvailable": 1, "selector": {}}},
        ),
        ("STATUS", f"{_CORE}/pods/p/status", {"status": {"phase": "Running"}}),
    ),
    "deletecollection-body": (("DELETE", f"{_CORE}/resourcequotas/q", None), _LEASE),
    "compacted-but-cached-list-exact": (("POST", f"{_CORE}/configmaps", _config_map("more")), ("FILL", "", 260)),
    "expired-list-exact": (("COMPACT", "", None),),
    "old-rv-get": (("MERGE", f"{_CORE}/configmaps/a", {"data": {"n": "41794766058.2945175"}}),),
}


def _tell_fronts(state: Path, cases: Sequence[dict[str, Any]]) -> None:
    """They read their tokens from the state, where the server has put its administrator's."""
    users = {str(case["request"].get("user") or "admin") for case in cases} - {"admin", "alice"}
    rows = [f'{_ALICE_TOKEN},{ALICE.name},,"{",".join(ALICE.groups)}"']
    rows += [f"{user}-token,{user}" for user in sorted(users) if not user.startswith("none")]
    with (state / "pki" / "tokens.csv").open("a") as file:
        file.write("\n".join(rows) + "\n")


class World:
    """A fresh server with the recording's surroundings."""

    def __init__(self, cases: Sequence[dict[str, Any]], state: Path | None = None, fronts: int = 0) -> None:
        """With `fronts`, which read their tokens from `state`, clients talk to processes in front of the server's."""
        self._cases = cases
        paths = re.findall(r"/namespaces/([^/?]+)/", " ".join(case["request"]["path"] for case in cases))
        self._main = max(sorted(set(paths)), key=paths.count, default="errs")
        """Where most of it happens."""
        self._is_known = "errs" in paths or any(case["id"] in STEPS for case in cases)
        self._cluster = EmbeddedApi(state, webhook_networks=["127.0.0.0/8"], fronts=fronts)
        self._cluster.server.authenticator.add_token(_ALICE_TOKEN, ALICE)
        if state is not None:
            _tell_fronts(state, cases)
        self.agent = "kueue_cases" if any("kueue" in case["request"]["path"] for case in cases) else "errors.py"
        self._session: Any = None

    @property
    def url(self) -> str:
        return self._cluster.server.url

    async def __aenter__(self) -> Self:
        import aiohttp

        await self._cluster.start()
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False))
        for namespace in sorted(namespaces(self._cases)):
            await self._step(("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}))
        if self._is_known:
            for step in BASE:
                await self._step(step)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()
        await self._cluster.stop()

    def headers(self, user: str, case: dict[str, Any]) -> dict[str, str]:
        """Credentials of a recorded user."""
        headers = {}
        if user == "admin":
            headers["Authorization"] = f"Bearer {self._cluster.server.admin_token}"
        elif user == "alice":
            headers["Authorization"] = f"Bearer {_ALICE_TOKEN}"
        elif not user.startswith("none"):
            self._cluster.server.authenticator.add_token(f"{user}-token", UserInfo(user))
            headers["Authorization"] = f"Bearer {user}-token"
        if somebody := impersonated(case):
            headers["Impersonate-User"] = somebody
        return headers

    def path(self, case: dict[str, Any]) -> str:
        """The path, with revisions of the recording's server moved to ours."""
        path: str = case["request"]["path"]
        if case["id"] == "compacted-but-cached-list-exact":
            target, _, query = path.partition("?")
            values = dict(parse_qsl(query))
            values["resourceVersion"] = str(self._cluster.store.revision)
            return f"{target}?{urlencode(values, quote_via=quote)}"
        return path

    async def before(self, case: dict[str, Any]) -> None:
        """Do what was done before a case: what is known of it, and what its answer shows."""
        for step in STEPS.get(case["id"], ()):
            await self._step(step)
        for step in preparations(case, self._cases) if case["id"] not in STEPS else ():
            if not await self._is_there(step):
                await self._step(step, quiet=True)

    async def _is_there(self, step: Step) -> bool:
        method, path, body = step
        if method != "POST":
            return False
        headers = self.headers("admin", {"id": ""})
        async with self._session.get(f"{self.url}{path}/{body['metadata'].get('name')}", headers=headers) as answer:
            return bool(answer.status != 404)

    async def _step(self, step: Step, *, quiet: bool = False) -> None:
        method, path, body = step
        path = path.replace("/namespaces/errs/", f"/namespaces/{self._main}/")
        if method == "FILL":
            await self._fill(body)
            return
        if method == "COMPACT":
            self._cluster.store.compact(self._cluster.store.revision)
            return
        types = {
            "APPLY": "application/apply-patch+yaml",
            "STATUS": "application/merge-patch+json",
            "MERGE": "application/merge-patch+json",
        }
        headers = {**self.headers("admin", {"id": ""}), "User-Agent": self.agent}
        if body is not None:
            headers["Content-Type"] = types.get(method, "application/json")
        verb = "PATCH" if method in types else method
        data = json.dumps(body) if body is not None else None
        async with self._session.request(verb, self.url + path, data=data, headers=headers) as answer:
            text = await answer.text()
            if answer.status >= 400 and not quiet:
                print(f"setup: {method} {path}: {answer.status} {text[:300]}")

    async def _fill(self, revision: int) -> None:
        """Write until the store has reached a revision."""
        from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS

        client = self._cluster.client
        while self._cluster.store.revision < revision:
            try:
                await client.create(CONFIG_MAPS, {"metadata": {"name": "filler", "namespace": "default"}})
                await client.delete(CONFIG_MAPS, "filler", "default")
            except ApiError as error:
                raise RuntimeError(f"cannot fill: {error}") from error
