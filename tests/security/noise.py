"""Requests nobody should send, made from a seed: half right, so that they come far. Paths, queries, selectors, JSON, YAML, protobuf,
patches and expressions; sent one after the other to an API server in this process."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import yaml
from tests.security.served import World, read_answer

GROUPS = (
    "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/services",
    "/apis/batch/v1/namespaces/default/jobs", "/apis/apps/v1/namespaces/default/deployments",
    "/apis/kueue.x-k8s.io/v1beta2/clusterqueues", "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/localqueues",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "/apis/coordination.k8s.io/v1/namespaces/default/leases",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", "/api/v1/namespaces/default/events",
    "/apis/authentication.k8s.io/v1/tokenreviews", "/apis/certificates.k8s.io/v1/certificatesigningrequests",
)  # fmt: skip
SUBRESOURCES = (
    "",
    "",
    "",
    "/status",
    "/scale",
    "/log",
    "/binding",
    "/eviction",
    "/token",
    "/approval",
    "/proxy/x",
    "/..",
    "/%2e%2e",
    "/%00",
)
WORDS = (
    "a", "b", "", "x" * 300, "-", ".", "..", "ä", "\x00", "\u2028", "1", "-1", "1e400", "1Gi", "9" * 40, "0x1", "true", "null", "*", "=",
    "a=b", "a in (b,c)", "!a", "kueue.x-k8s.io/queue-name", "2026-01-01T00:00:00Z", "1:1:1", "<<", "&a", "*a", "{{", "$(X)", "%s", "\\",
)  # fmt: skip
FIELDS = (
    "apiVersion", "kind", "metadata", "spec", "status", "data", "name", "namespace", "labels", "annotations", "finalizers",
    "ownerReferences", "managedFields", "template", "containers", "image", "resources", "requests", "cpu", "selector", "matchLabels",
    "replicas", "suspend", "parallelism", "rules", "verbs", "apiGroups", "names", "versions", "schema", "openAPIV3Schema", "validations",
    "expression", "resourceVersion", "uid", "generation", "deletionTimestamp", "generateName", "queueName", "resourceGroups", "flavors",
)  # fmt: skip
CEL = (
    "self", "object", "size(self)", "self.a", "[1,2,3]", "'a'", "1", "1u", "2.5", "true", "null", "x", "has(self.a)", "self.all(x, x)",
    "duration('1h')", "timestamp('2026-01-01T00:00:00Z')", "'a'.matches('(a|aa)+$')", "self.map(x, self)", "quantity('1Gi')", "-9223372036854775808",
)  # fmt: skip
OPERATORS = ("+", "-", "*", "/", "%", "&&", "||", "==", "!=", "<", "in", "?", ":", ".", "[", "]", "(", ")", ",")
PATCHES = (
    "application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml"
)  # fmt: skip
MAX_STRETCH_S = 0.25


@dataclass(frozen=True, slots=True)
class Sent:
    method: str
    target: str
    kind: str
    body: bytes


class Noise:
    """A stream of requests; the same seed gives the same ones."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)

    def request(self) -> Sent:
        method = self._dice.choice(("GET", "POST", "PUT", "PATCH", "DELETE", "POST", "PATCH"))
        path = self._dice.choice(GROUPS)
        if method not in ("POST",) or self._dice.random() < 0.1:
            path += f"/{self._dice.choice('abc')}" * (self._dice.random() < 0.9) + self._dice.choice(SUBRESOURCES)
        query = self._query()
        if method in ("GET", "DELETE"):
            return Sent(method, path + query, "", b"")
        kind, body = self._patch() if method == "PATCH" else self._content()
        if kind == PATCHES[3]:
            query = f"{query or '?'}&fieldManager=noise&force=true"
        return Sent(method, path + query, kind, self._damaged(body))

    def _query(self) -> str:
        dice = self._dice
        if dice.random() < 0.5:
            return ""
        names = (
            "labelSelector",
            "fieldSelector",
            "limit",
            "continue",
            "resourceVersion",
            "resourceVersionMatch",
            "dryRun",
            "fieldValidation",
            "pretty",
            "timeoutSeconds",
        )
        pairs = [f"{dice.choice(names)}={_quoted(self._selector())}" for _ in range(dice.randint(1, 3))]
        return "?" + "&".join(pairs)

    def _selector(self) -> str:
        parts = (
            *WORDS,
            "(",
            ")",
            ",",
            "!=",
            "==",
            " notin ",
            " in ",
            "metadata.name",
            "status.phase",
            "spec.nodeName",
            ">",
            "<",
        )
        return "".join(self._dice.choice(parts) for _ in range(self._dice.randint(0, 5)))

    def value(self, depth: int = 0) -> Any:
        dice, kind = self._dice, self._dice.random()
        if depth > 4 or kind < 0.45:
            return dice.choice((*WORDS, None, True, False, 0, 1, -1, 2**63, 1.5, 1e308, [], {}))
        if kind < 0.6:
            return [self.value(depth + 1) for _ in range(dice.randint(0, 4))]
        return {dice.choice((*FIELDS, *FIELDS, *WORDS)): self.value(depth + 1) for _ in range(dice.randint(0, 5))}

    def _object(self) -> dict[str, Any]:
        dice = self._dice
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": dice.choice(WORDS)}}}
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        spec: dict[str, Any] = {
            "template": template,
            "containers": [container],
            "selector": {"matchLabels": {"a": "b"}},
        }
        made: dict[str, Any] = {
            "metadata": {"name": dice.choice("abc"), "labels": {"a": "b"}},
            "spec": spec,
            "data": {"a": "b"},
        }
        if dice.random() < 0.3:
            made = self._crd()
        for _ in range(dice.randint(0, 3)):
            at: Any = made
            while isinstance(at, dict) and at and dice.random() < 0.7:
                at = at[dice.choice(sorted(at, key=str))]
            if isinstance(at, dict):
                at[dice.choice(FIELDS)] = self.value(2)
        return made

    def _crd(self) -> dict[str, Any]:
        """A kind of its own, or a policy, with an expression in it."""
        rule = {"expression": self._expression(), "rule": self._expression(), "message": "m"}
        schema = {
            "type": "object",
            "x-kubernetes-validations": [rule],
            "properties": {"a": {"type": "string", "pattern": self._selector()}},
        }
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        names = {"plural": "as", "singular": "a", "kind": "A", "listKind": "AList"}
        spec = {
            "group": "x.io", "scope": "Namespaced", "names": names, "versions": [version], "validations": [rule],
            "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}]},
        }  # fmt: skip
        return {"metadata": {"name": "as.x.io"}, "spec": spec}

    def _expression(self) -> str:
        return " ".join(self._dice.choice((*CEL, *OPERATORS)) for _ in range(self._dice.randint(1, 9)))

    def _content(self) -> tuple[str, bytes]:
        dice, made = self._dice, self._object() if self._dice.random() < 0.7 else self.value()
        kind = dice.random()
        if kind < 0.6:
            return "application/json", json.dumps(made).encode()
        if kind < 0.8:
            return "application/yaml", yaml.safe_dump(made).encode() + dice.choice(
                (b"", b"\n<<: [*a, *a]", b"\n&a a: *a", b"\n---\n")
            )
        if kind < 0.95:
            return "application/vnd.kubernetes.protobuf", b"k8s\x00" + self._protobuf()
        return dice.choice(("", "text/plain", ";;", 'application/json; charset="')), json.dumps(made).encode()

    def _protobuf(self, depth: int = 0) -> bytes:
        """Fields with numbers, each of a wire type, lengths mostly true."""
        dice, made = self._dice, b""
        for _ in range(dice.randint(0, 5)):
            number, wire = dice.randint(0, 8), dice.choice((0, 2, 2, 2, 1, 5, 3, 7))
            inner = (
                self._protobuf(depth + 1)
                if depth < 4 and dice.random() < 0.6
                else dice.choice(WORDS).encode("utf-8", "replace")
            )
            length = len(inner) if dice.random() < 0.95 else dice.randint(0, 1 << 35)
            made += _varint(number << 3 | wire) + {
                0: _varint(dice.getrandbits(dice.choice((7, 70)))),
                2: _varint(length) + inner,
            }.get(wire, b"\x00" * dice.randint(0, 8))
        return made

    def _patch(self) -> tuple[str, bytes]:
        dice, kind = self._dice, self._dice.choice(PATCHES)
        if kind == PATCHES[0]:
            steps = [
                {"op": dice.choice(("add", "remove", "replace", "move", "copy", "test", "x")), "path": self._pointer(), "from": self._pointer(), "value": self.value(3)}
                for _ in range(dice.randint(0, 5))
            ]  # fmt: skip
            return kind, json.dumps(steps).encode()
        made = self._object()
        if kind == PATCHES[2] and dice.random() < 0.5:
            order, removed = self.value(3), self.value(3)
            lists = {"$setElementOrder/finalizers": order, "$deleteFromPrimitiveList/finalizers": removed}
            made["metadata"] = {"name": "a", "finalizers": ["a/b"], **lists}
            made["spec"] = {"a": self.value(2), "$patch": dice.choice(("replace", "delete", "merge", "x", 1))}
        if kind == PATCHES[3]:
            made |= {
                "apiVersion": dice.choice(("v1", "batch/v1", "x")),
                "kind": dice.choice(("ConfigMap", "Job", "Pod", "X")),
            }
        return kind, json.dumps(made).encode()

    def _pointer(self) -> str:
        return "".join(
            f"/{self._dice.choice((*FIELDS, '0', '-', '~0', '~1', '~', '999999', ''))}"
            for _ in range(self._dice.randint(0, 4))
        )

    def _damaged(self, body: bytes) -> bytes:
        dice = self._dice
        if not body or dice.random() < 0.8:
            return body
        at = dice.randrange(len(body))
        return dice.choice(
            (
                body[:at],
                body + body[at:],
                body[:at] + bytes([dice.getrandbits(8)]) + body[at + 1 :],
                body[:at] + b"[" * 3000,
            )
        )


def _varint(number: int) -> bytes:
    made = b""
    while number > 127:
        made, number = made + bytes([number & 127 | 128]), number >> 7
    return made + bytes([number])


def _quoted(text: str) -> str:
    return "".join(chr(byte) if chr(byte).isalnum() and byte < 128 else f"%{byte:02X}" for byte in text.encode())


@dataclass(slots=True)
class Outcome:
    """How many answers there were of each kind, and what should not have been."""

    codes: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def is_theirs(code: int, body: bytes) -> bool:
    """Whether an answer puts the fault where it is. The few 500s a real server gives to noise carry no reason."""
    if code < 500:
        return True
    try:
        return code in (500, 504) and json.loads(body).get("reason", "") in ("", "Timeout")
    except (ValueError, AttributeError):
        return False


class Stretches:
    """The longest that one callback of the loop has kept its thread busy: others wait as long. It counts processor time, so that other
    processes do not matter."""

    def __init__(self) -> None:
        self.longest_s = 0.0

    @contextmanager
    def measured(self) -> Iterator[Stretches]:
        run = asyncio.Handle._run

        def timed(handle: asyncio.Handle) -> None:
            began = time.thread_time()
            run(handle)
            self.longest_s = max(self.longest_s, time.thread_time() - began)

        asyncio.Handle._run = timed  # type: ignore[method-assign]
        try:
            yield self
        finally:
            asyncio.Handle._run = run  # type: ignore[method-assign]


async def make_noise(world: World, seed: int, requests: int, stretches: Stretches | None = None) -> Outcome:
    """Send so many requests, one after the other. With `stretches`, a request that keeps the loop busy for long is wrong, too."""
    noise, outcome = Noise(seed), Outcome()
    reader, writer = await world.connect()
    for number in range(requests):
        sent = noise.request()
        head = f"{sent.method} {sent.target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {world.admin}\r\nContent-Length: {len(sent.body)}\r\n"
        head += f"Content-Type: {sent.kind}\r\n" if sent.kind else ""
        writer.write(head.encode() + b"\r\n" + sent.body)
        answer = await read_answer(reader)
        outcome.codes[answer.status] += 1
        took = stretches.longest_s if stretches else 0.0
        if stretches:
            stretches.longest_s = 0.0
        if not is_theirs(answer.status, answer.body) or took > MAX_STRETCH_S:
            outcome.wrong.append(
                f"seed {seed}, request {number}, {took:.3f} s: {sent} -> {answer.status} {answer.body[:300]!r}"
            )
        if answer.headers.get("connection", "").lower() == "close":
            writer.close()
            reader, writer = await world.connect()
    writer.close()
    return outcome
