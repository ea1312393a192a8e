"""Every way to a thing asks for the same right: by whichever verb, path, subresource or deputy it is reached."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from itertools import product
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.security.served import RBAC, World, rule, served

CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
CERTIFICATES = "certificates.k8s.io"
CLIENT = "kubernetes.io/kube-apiserver-client"
SECRETS = "/api/v1/namespaces/default/secrets"
AGGREGATED = {"metadata": {"labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with served() as made:
        yield made


# certificates


def asked(name: str, *groups: str) -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()


def csr(name: str, request: str, signer: str = CLIENT, **spec: Any) -> dict[str, Any]:
    full = {"request": request, "signerName": signer, "usages": ["client auth"], **spec}
    return {"metadata": {"name": name}, "spec": full}


APPROVED = {"type": "Approved", "status": "True", "reason": "Mine"}


async def test_nobody_asks_for_a_certificate_of_the_masters(world: World) -> None:
    answer = await world.ask("POST", CSRS, csr("evil", asked("evil", "system:masters")))
    assert answer.status == 403
    assert "with system:masters group is not allowed" in answer.json["message"]


@pytest.mark.parametrize("names", [(), (CLIENT,), ("kubernetes.io/*",), ("example.com/*",)], ids=str)
async def test_approving_needs_the_right_to_approve_for_the_signer(world: World, names: tuple[str, ...]) -> None:
    token = world.user("clerk")
    rights = [rule("create get update patch", "certificatesigningrequests", CERTIFICATES)]
    rights.append(rule("update patch", "certificatesigningrequests/approval", CERTIFICATES))
    if names:
        rights.append(rule("approve", "signers", CERTIFICATES, *names))
    await world.allow("clerk", *rights)
    assert (await world.ask("POST", CSRS, csr("a", asked("a")), token=token)).status == 201
    patch = {"status": {"conditions": [APPROVED]}}
    expected = 200 if names and names[0] in (CLIENT, "kubernetes.io/*") else 403
    answer = await world.ask("PATCH", f"{CSRS}/a/approval", patch, token=token, kind="merge")
    assert answer.status == expected
    whole = {**(await world.ask("GET", f"{CSRS}/a")).json, "status": {"conditions": [APPROVED]}}
    assert (await world.ask("PUT", f"{CSRS}/a/approval", whole, token=token)).status == expected


async def test_a_status_neither_approves_nor_signs_without_the_right(world: World) -> None:
    token = world.user("clerk")
    await world.allow("clerk", rule("update patch", "certificatesigningrequests/status", CERTIFICATES))
    await world.ask("POST", CSRS, csr("a", asked("a"), "example.com/mine"))
    approving = {"status": {"conditions": [APPROVED]}}
    assert (await world.ask("PATCH", f"{CSRS}/a/status", approving, token=token, kind="merge")).status == 200
    assert not (await world.ask("GET", f"{CSRS}/a")).json["status"].get("conditions")
    certificate = base64.b64encode(b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n").decode()
    signing = {"status": {"certificate": certificate}}
    answer = await world.ask("PATCH", f"{CSRS}/a/status", signing, token=token, kind="merge")
    assert (answer.status, "not permitted to sign" in answer.json["message"]) == (403, True)


async def test_what_was_asked_for_stays_what_it_was_after_the_approval(world: World) -> None:
    token = world.user("asker")
    await world.allow("asker", rule("create get update patch", "certificatesigningrequests", CERTIFICATES))
    harmless = asked("harmless")
    await world.ask("POST", CSRS, csr("a", harmless, "example.com/harmless"), token=token)
    await world.ask("PATCH", f"{CSRS}/a/approval", {"status": {"conditions": [APPROVED]}}, kind="merge")
    evil = {"spec": {"request": asked("evil", "system:masters"), "signerName": CLIENT}}
    await world.ask("PATCH", f"{CSRS}/a", evil, token=token, kind="merge")
    whole = (await world.ask("GET", f"{CSRS}/a")).json
    await world.ask("PUT", f"{CSRS}/a", {**whole, "spec": {**whole["spec"], **evil["spec"]}}, token=token)
    spec = (await world.ask("GET", f"{CSRS}/a")).json["spec"]
    assert (spec["request"], spec["signerName"]) == (harmless, "example.com/harmless")


async def test_only_usages_of_a_client_are_signed(world: World) -> None:
    await world.ask("POST", CSRS, csr("a", asked("a"), usages=["client auth", "cert sign"]))
    watch = f"{CSRS}?watch=true&timeoutSeconds=20&fieldSelector=metadata.name=a&resourceVersion=0"
    await world.ask("PATCH", f"{CSRS}/a/approval", {"status": {"conditions": [APPROVED]}}, kind="merge")
    reader, writer = await world.connect()
    writer.write(f"GET {watch} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {world.admin}\r\n\r\n".encode())
    await reader.readuntil(b'"SigningError"')
    writer.close()


def test_the_front_proxy_has_an_authority_of_its_own() -> None:
    """Checked on the documents: what is trusted for one thing is not trusted for another."""
    from corral.clusters.embedded_api import EmbeddedApi

    data = EmbeddedApi(None).server.extension_authentication()["data"]
    assert data["client-ca-file"] != data["requestheader-client-ca-file"]


# roles


@pytest.mark.parametrize("kind", ["merge", "strategic", "json", "apply", "put"])
async def test_a_role_is_not_widened_by_a_label(world: World, kind: str) -> None:
    token = world.user("writer")
    await world.allow("writer", rule("get create update patch", "clusterroles", "rbac.authorization.k8s.io"))
    path = f"{RBAC}/clusterroles/cluster-admin"
    body: Any = AGGREGATED
    if kind == "put":
        whole = (await world.ask("GET", path)).json
        whole["metadata"]["labels"] = AGGREGATED["metadata"]["labels"]
        answer = await world.ask("PUT", path, whole, token=token)
    else:
        if kind == "json":
            body = [{"op": "add", "path": "/metadata/labels", "value": AGGREGATED["metadata"]["labels"]}]
        if kind == "apply":
            metadata = {"name": "cluster-admin", **AGGREGATED["metadata"]}
            body = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata}
        answer = await world.ask("PATCH", f"{path}?fieldManager=me", body, token=token, kind=kind)
    assert (answer.status, "attempting to grant" in answer.json["message"]) == (403, True)


async def test_a_role_may_be_let_go_of_and_labelled_by_who_holds_its_rules(world: World) -> None:
    token = world.user("writer")
    held = rule("get", "configmaps")
    await world.allow("writer", rule("get create update patch", "clusterroles", "rbac.authorization.k8s.io"), held)
    await world.ask("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "small"}, "rules": [held]})
    await world.ask("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "big"}, "rules": [rule("*", "*", "*")]})
    assert (await world.ask("PATCH", f"{RBAC}/clusterroles/small", AGGREGATED, token=token, kind="merge")).status == 200
    holding = {"metadata": {"finalizers": ["example.com/mine"]}}
    assert (await world.ask("PATCH", f"{RBAC}/clusterroles/big", holding, token=token, kind="merge")).status == 200


# names


ONE = ("get", "list", "watch", "delete", "deletecollection")
OTHERS = [
    "{s}", "{s}?watch=true&timeoutSeconds=1", "{s}/hidden", "{s}/hidden?watch=true", "{w}", "{w}/hidden",
    "{s}?fieldSelector=metadata.name!%3Dzzz", "{s}?fieldSelector=metadata.name%3Dhidden",
    "{s}?fieldSelector=metadata.name%3Dallowed&fieldSelector=metadata.name%3Dhidden",
    "{s}?fieldSelector=metadata.name%3Dhidden&fieldSelector=metadata.name%3Dallowed",
    "{s}?fieldSelector=metadata.name%3Dallowed,metadata.name%3Dhidden", "{s}?fieldSelector=metadata.name%3D",
    "{w}/allowed?timeoutSeconds=1&fieldSelector=metadata.name!%3Dzzz",
    "{w}/allowed?timeoutSeconds=1&fieldSelector=metadata.name%3Dhidden",
    "{w}/allowed?timeoutSeconds=1&fieldSelector=metadata.namespace%3Ddefault",
    "{w}/allowed?timeoutSeconds=1&fieldSelector=", "{w}/allowed?timeoutSeconds=1&labelSelector=!none",
    "{w}?timeoutSeconds=1&fieldSelector=metadata.name%3Dallowed", "{s}//hidden", "{s}/%2e%2e/secrets/hidden",
    "{s}/allowed/../hidden", "/api/v1/secrets", "/api/v1/watch/secrets?timeoutSeconds=1",
    "/api/v1/secrets?fieldSelector=metadata.name%3Dhidden", "{s}?limit=1", "{s}/allowed%2Fhidden",
]  # fmt: skip


async def test_who_may_see_one_name_never_sees_another(world: World) -> None:
    token = world.user("reader")
    await world.allow("reader", rule(" ".join(ONE), "secrets", "", "allowed"), namespace="default")
    for name in ("allowed", "hidden"):
        await world.ask("POST", SECRETS, {"metadata": {"name": name}, "stringData": {"key": f"secret of {name}"}})
    told = base64.b64encode(b"secret of hidden")
    paths = [spelling.format(s=SECRETS, w="/api/v1/watch/namespaces/default/secrets") for spelling in OTHERS]
    for method in ("GET", "DELETE"):
        answers = await asyncio.gather(*(world.ask(method, path, token=token) for path in paths))
        leaks = [
            path
            for path, answer in zip(paths, answers, strict=True)
            if told in answer.body or (b'"hidden"' in answer.body and answer.status not in (403, 404))
        ]
        assert leaks == []
        assert (await world.ask("GET", f"{SECRETS}/hidden")).status == 200


SUBRESOURCES = ("", "/log", "/exec?command=ls", "/status", "/eviction", "/proxy/x", "/binding")


async def test_the_old_path_of_a_watch_does_nothing_but_watch(world: World) -> None:
    token = world.user("watcher")
    await world.allow("watcher", rule("watch", "*", "*"))
    await world.ask("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "x"}})
    for method, sub, resource in product(
        ("GET", "POST", "PUT", "PATCH", "DELETE"), SUBRESOURCES, ("pods", "configmaps")
    ):
        path = f"/api/v1/watch/namespaces/default/{resource}/x{sub}{'&' if '?' in sub else '?'}timeoutSeconds=1"
        answer = await world.ask(method, path, {} if method in ("POST", "PUT", "PATCH") else None, token=token)
        assert answer.status == (200 if method == "GET" and not sub else 404 if sub else 405)
    assert (await world.ask("GET", "/api/v1/namespaces/default/configmaps/x")).status == 200


async def test_who_may_see_one_name_sees_it_by_every_way(world: World) -> None:
    token = world.user("reader")
    await world.allow("reader", rule(" ".join(ONE), "secrets", "", "allowed"), namespace="default")
    await world.ask("POST", SECRETS, {"metadata": {"name": "allowed"}})
    for path in ("/allowed", "?fieldSelector=metadata.name%3Dallowed", "?watch=1&timeoutSeconds=1&fieldSelector=metadata.name=allowed"):  # fmt: skip
        assert b'"allowed"' in (await world.ask("GET", SECRETS + path, token=token)).body
    watched = "/api/v1/watch/namespaces/default/secrets/allowed?timeoutSeconds=1"
    assert b'"allowed"' in (await world.ask("GET", watched, token=token)).body
    assert (await world.ask("DELETE", SECRETS + "?fieldSelector=metadata.name%3Dallowed", token=token)).status == 200


# creating


CREATED = {
    "configmaps": ("/api/v1/namespaces/default", {"apiVersion": "v1", "kind": "ConfigMap"}),
    "services": ("/api/v1/namespaces/default", {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}]}}),
    "endpoints": ("/api/v1/namespaces/default", {"apiVersion": "v1", "kind": "Endpoints"}),
    "limitranges": ("/api/v1/namespaces/default", {"apiVersion": "v1", "kind": "LimitRange", "spec": {"limits": []}}),
    "leases": (
        "/apis/coordination.k8s.io/v1/namespaces/default",
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("resource", CREATED)
@pytest.mark.parametrize("may", [False, True], ids=["without create", "with create"])
async def test_what_creates_asks_for_create(world: World, resource: str, may: bool) -> None:
    token = world.user("writer")
    base, body = CREATED[resource]
    group = base.split("/")[2] if base.startswith("/apis") else ""
    await world.allow("writer", rule("update patch" + (" create" if may else ""), resource, group))
    obj = {**body, "metadata": {"name": "new"}}
    for dry in ("&dryRun=All", ""):
        path = f"{base}/{resource}/new?fieldManager=me{dry}"
        answer = await world.ask("PATCH", path, obj, token=token, kind="apply")
        assert answer.status == (201 if may else 403), answer.body
        if not may:
            assert f'cannot create resource "{resource}"' in answer.json["message"]
    put = {**body, "metadata": {"name": "put"}}
    answer = await world.ask("PUT", f"{base}/{resource}/put", put, token=token)
    assert answer.status in ((201, 404) if may else (403, 404))


# tokens


async def test_a_static_token_is_for_the_api_server_alone(world: World) -> None:
    async def review(*audiences: str) -> Any:
        spec = {"token": world.admin, "audiences": list(audiences)}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        return (await world.ask("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body)).json["status"]

    ours = "https://kubernetes.default.svc.cluster.local"
    assert not (await review("vault")).get("authenticated")
    assert (await review("vault", ours))["audiences"] == [ours]
    assert (await review())["authenticated"] is True


async def test_no_token_lives_longer_than_a_year(world: World) -> None:
    path = "/api/v1/namespaces/default/serviceaccounts"
    await world.ask("POST", path, {"metadata": {"name": "a"}})
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 1 << 32}}
    assert (await world.ask("POST", f"{path}/a/token", body)).json["spec"]["expirationSeconds"] == 365 * 24 * 3600


# trailers


@pytest.mark.parametrize("trailer", ["Authorization: Bearer {admin}", "Impersonate-User: bob", "X-Remote-User: bob"])
@pytest.mark.parametrize("own", [False, True], ids=["anonymous", "known"])
async def test_trailers_are_not_headers(world: World, trailer: str, own: bool) -> None:
    body = b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
    credentials = f"Authorization: Bearer {world.user('alice', 'system:masters')}\r\n" if own else ""
    head = f"POST /apis/authentication.k8s.io/v1/selfsubjectreviews HTTP/1.1\r\nHost: x\r\n{credentials}"
    head += "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    end = f"0\r\n{trailer.format(admin=world.admin)}\r\n\r\n"
    answer = await world.send(head.encode() + b"%x\r\n%b\r\n" % (len(body), body) + end.encode())
    if own:
        assert answer.json["status"]["userInfo"]["username"] == "alice"
    else:
        assert answer.status in (401, 403)


@pytest.mark.parametrize("hosts", [("a", "b"), ("127.0.0.1:1, evil",), ("a b",), ("a/b",), ("user@a",)], ids=str)
async def test_a_request_names_one_host(world: World, hosts: tuple[str, ...]) -> None:
    lines = "".join(f"Host: {host}\r\n" for host in hosts)
    assert (await world.send(f"GET /version HTTP/1.1\r\n{lines}\r\n".encode())).status == 400


# every resource


async def test_one_right_opens_one_door(world: World) -> None:
    """Every verb on every served resource and subresource: a nobody gets nothing, and whoever has one right that alone."""
    nobody, holder = world.user("nobody"), world.user("holder")
    await world.allow("holder", rule("get", "configmaps"), namespace="default")
    reviews = {"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"}
    opened: list[tuple[str, str, str]] = []
    keep = await world.keep()
    for method, path in await _doors(world):
        if path.split("?")[0].rsplit("/", 1)[-1] in reviews and method == "POST":
            continue
        for who, token in (("nobody", nobody), ("holder", holder)):
            if await keep(method, path, token) not in (401, 403):
                opened.append((who, method, path))
    assert opened == [("holder", "GET", "/api/v1/namespaces/default/configmaps/x")]


async def _doors(world: World) -> list[tuple[str, str]]:
    groups = (await world.ask("GET", "/apis")).json["groups"]
    versions = ["/api/v1", *(f"/apis/{each['groupVersion']}" for group in groups for each in group["versions"])]
    doors = []
    for version in versions:
        for resource in (await world.ask("GET", version)).json.get("resources", ()):
            name, _, sub = resource["name"].partition("/")
            base = f"{version}/namespaces/default/{name}" if resource["namespaced"] else f"{version}/{name}"
            if sub:
                doors += [(method, f"{base}/x/{sub}") for method in ("GET", "POST", "PUT", "PATCH", "DELETE")]
                continue
            doors += [("GET", base), ("GET", base + "?watch=true"), ("POST", base), ("DELETE", base)]
            doors += [(method, f"{base}/x") for method in ("GET", "PUT", "PATCH", "DELETE")]
    return doors
