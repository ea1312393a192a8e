"""HTTP as clients use it: keep-alive, pipelining, chunks, watches that end with their client, discovery, tables, tokens."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from corral.clusters.embedded_api import EmbeddedApi
from corral.core.meta import Obj

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


class Answer:
    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """One connection, raw."""

    def __init__(self, cluster: EmbeddedApi) -> None:
        self._cluster = cluster
        self.token = cluster.server.admin_token

    async def open(self) -> Client:
        context = ssl.create_default_context(cadata=self._cluster.server.authority.certificate.decode())
        self.reader, self.writer = await asyncio.open_connection(
            "127.0.0.1", self._cluster.server.port, ssl=context, limit=1 << 24
        )
        return self

    def send(self, method: str, path: str, body: bytes = b"", **headers: str) -> None:
        lines = [f"{method} {path} HTTP/1.1", "Host: x"]
        if self.token:
            lines.append(f"Authorization: Bearer {self.token}")
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        self.writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    async def head(self) -> tuple[int, dict[str, str]]:
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        fields = dict(line.split(": ", 1) for line in lines[1:] if line)
        return int(lines[0].split(" ", 2)[1]), fields

    async def answer(self, *, empty: bool = False) -> Answer:
        status, headers = await self.head()
        if empty or status == 304:
            return Answer(status, headers, b"")
        return Answer(status, headers, await self.reader.readexactly(int(headers["Content-Length"])))

    async def chunk(self) -> bytes:
        size = int(await self.reader.readuntil(b"\r\n"), 16)
        return (await self.reader.readexactly(size + 2))[:-2]

    async def call(self, method: str, path: str, obj: Obj | None = None, **headers: str) -> Answer:
        self.send(method, path, json.dumps(obj).encode() if obj is not None else b"", **headers)
        return await asyncio.wait_for(self.answer(), 10)


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedApi]:
    cluster = EmbeddedApi(None)
    await cluster.start()
    yield cluster
    await cluster.stop()


@pytest.fixture
async def client(cluster: EmbeddedApi) -> AsyncIterator[Client]:
    client = await Client(cluster).open()
    yield client
    client.writer.close()


async def test_requests_follow_each_other_and_may_be_pipelined(client: Client) -> None:
    for path in ("/version", f"{CONFIG_MAPS}/nope", "/api", "/readyz"):
        client.send("GET", path)
    answers = [await client.answer() for _ in range(4)]
    assert [answer.status for answer in answers] == [200, 404, 200, 200]
    assert answers[0].json["major"] == "1"
    assert answers[3].body == b"ok"


async def test_bodies_may_come_in_chunks_and_after_a_question(client: Client) -> None:
    body = json.dumps({"metadata": {"name": "a"}}).encode()
    client.send("POST", CONFIG_MAPS, Transfer_Encoding="chunked")
    client.writer.write(b"5\r\n" + body[:5] + b"\r\n%x\r\n" % len(body[5:]) + body[5:] + b"\r\n0\r\n\r\n")
    assert (await client.answer()).status == 201
    head = f"PUT {CONFIG_MAPS}/a HTTP/1.1\r\nAuthorization: Bearer {client.token}\r\nExpect: 100-continue\r\n"
    client.writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode())
    assert (await client.head())[0] == 100
    client.writer.write(body)
    assert (await client.answer()).status == 200


async def test_head_has_no_body(client: Client) -> None:
    client.send("HEAD", "/version")
    assert (await client.answer(empty=True)).status == 200
    assert (await client.call("GET", "/version")).status == 200


async def test_reads_and_their_headers(client: Client) -> None:
    await client.call("POST", CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"k": "v"}})
    answer = await client.call("GET", f"{CONFIG_MAPS}/a")
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Cache-Control"] == "no-cache, private"
    assert answer.headers["Audit-Id"]
    listed = (await client.call("GET", CONFIG_MAPS)).json
    assert listed["kind"] == "ConfigMapList"
    assert "kind" not in listed["items"][0]
    yaml = await client.call("GET", f"{CONFIG_MAPS}/a", Accept="application/yaml")
    assert b"k: v" in yaml.body
    protobuf = await client.call("GET", f"{CONFIG_MAPS}/a", Accept="application/vnd.kubernetes.protobuf")
    assert protobuf.body.startswith(b"k8s\x00")


async def test_deprecated_versions_warn(client: Client) -> None:
    flavor = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "f"}}
    assert (await client.call("POST", "/apis/kueue.x-k8s.io/v1beta2/resourceflavors", flavor)).status == 201
    old = await client.call("GET", "/apis/kueue.x-k8s.io/v1beta1/resourceflavors/f")
    assert "deprecated" in old.headers["Warning"]
    assert old.json["apiVersion"] == "kueue.x-k8s.io/v1beta1"
    assert "Warning" not in (await client.call("GET", "/apis/kueue.x-k8s.io/v1beta2/resourceflavors/f")).headers


async def test_people_get_indented_answers(client: Client) -> None:
    assert (await client.call("GET", "/api")).body.count(b"\n") == 0
    assert (await client.call("GET", "/api?pretty=true")).body.startswith(b'{\n  "kind"')
    path = "/api/v1/namespaces/default"
    assert b'\n  "kind": "Namespace"' in (await client.call("GET", path, User_Agent="curl/8")).body
    assert (await client.call("GET", f"{path}?pretty=false", User_Agent="curl/8")).body.count(b"\n") == 0


async def test_tables_and_metadata(client: Client) -> None:
    await client.call("POST", CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"k": "v"}})
    table = (await client.call("GET", f"{CONFIG_MAPS}/a", Accept=TABLE)).json
    assert table["kind"] == "Table"
    assert table["rows"][0]["cells"][:2] == ["a", 1]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    whole = (await client.call("GET", f"{CONFIG_MAPS}/a?includeObject=Object", Accept=TABLE)).json
    assert whole["rows"][0]["object"]["data"] == {"k": "v"}
    accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    listed = (await client.call("GET", CONFIG_MAPS, Accept=accept)).json
    assert listed["kind"] == "PartialObjectMetadataList"
    assert "data" not in listed["items"][0]


async def test_watch_streams_and_ends_in_time(client: Client, cluster: EmbeddedApi) -> None:
    other = await Client(cluster).open()
    client.send("GET", f"{CONFIG_MAPS}?watch=1&timeoutSeconds=1&resourceVersion={cluster.store.revision}")
    assert (await client.head())[0] == 200
    await other.call("POST", CONFIG_MAPS, {"metadata": {"name": "w"}})
    event = json.loads(await client.chunk())
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "w")
    assert await asyncio.wait_for(client.chunk(), 5) == b""
    assert (await client.call("GET", "/version")).status == 200  # the connection lives on
    other.writer.close()


async def test_watch_as_table_sends_columns_once(client: Client) -> None:
    for name in ("a", "b"):
        await client.call("POST", CONFIG_MAPS, {"metadata": {"name": name}})
    client.send("GET", f"{CONFIG_MAPS}?watch=1&timeoutSeconds=1", Accept=TABLE)
    await client.head()
    frames = []
    while chunk := await client.chunk():
        frames += [json.loads(line) for line in chunk.splitlines()]
    assert frames[0]["object"]["columnDefinitions"][0]["name"] == "Name"
    assert all(frame["object"]["columnDefinitions"] is None for frame in frames[1:])


async def test_expired_watch_is_an_event(client: Client, cluster: EmbeddedApi) -> None:
    await client.call("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    cluster.store.compact(cluster.store.revision)
    client.send("GET", f"{CONFIG_MAPS}?watch=1&resourceVersion=1")
    assert (await client.head())[0] == 200
    event = json.loads(await client.chunk())
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


async def test_a_client_that_leaves_ends_its_watch(cluster: EmbeddedApi) -> None:
    shared = cluster.server.listener.shared
    assert shared is not None
    clients = [await Client(cluster).open() for _ in range(20)]
    for client in clients:
        client.send("GET", f"{CONFIG_MAPS}?watch=1")
        await client.head()
    assert len(shared.connections) == 20
    for client in clients:
        client.writer.transport.abort()
    for _ in range(6000):
        await asyncio.sleep(0.01)
        if not shared.connections:
            break
    assert not shared.connections


async def test_discovery_in_both_forms(client: Client) -> None:
    groups = (await client.call("GET", "/apis")).json
    assert groups["kind"] == "APIGroupList"
    batch = (await client.call("GET", "/apis/batch/v1")).json
    assert {"jobs", "jobs/status", "cronjobs"} <= {row["name"] for row in batch["resources"]}
    assert (await client.call("GET", "/apis/authentication.k8s.io/")).json["kind"] == "APIGroup"
    answer = await client.call("GET", "/apis", Accept=AGGREGATED)
    assert answer.headers["Content-Type"] == "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    assert answer.json["kind"] == "APIGroupDiscoveryList"
    again = await client.call("GET", "/apis", Accept=AGGREGATED, If_None_Match=answer.headers["Etag"])
    assert again.status == 304
    assert (await client.call("GET", "/apis/nope.example/v1")).body == b"404 page not found\n"


async def test_openapi_documents_hold_together(client: Client) -> None:
    index = (await client.call("GET", "/openapi/v3")).json["paths"]
    url = index["apis/batch/v1"]["serverRelativeURL"]
    answer = await client.call("GET", url)
    assert answer.headers["Cache-Control"] == "public, immutable"
    document = answer.json
    patch = document["paths"]["/apis/batch/v1/namespaces/{namespace}/jobs/{name}"]["patch"]
    assert {"dryRun", "fieldManager", "fieldValidation", "force"} == {each["name"] for each in patch["parameters"]}
    schemas = document["components"]["schemas"]
    job = schemas["io.k8s.api.batch.v1.Job"]
    assert job["x-kubernetes-group-version-kind"] == [{"group": "batch", "kind": "Job", "version": "v1"}]
    assert _references(document) <= {f"#/components/schemas/{name}" for name in schemas}
    for name in index:
        whole = (await client.call("GET", f"/openapi/v3/{name}")).json
        assert _references(whole) <= {f"#/components/schemas/{each}" for each in whole["components"]["schemas"]}, name


def _references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*(_references(item) for item in value.values()))
    if isinstance(value, list):
        return set().union(*(_references(item) for item in value))
    return set()


async def test_nobody_gets_in_without_a_name(cluster: EmbeddedApi) -> None:
    stranger = await Client(cluster).open()
    stranger.token = ""
    assert (await stranger.call("GET", "/healthz")).status == 200
    assert (await stranger.call("GET", "/version")).status == 200
    refused = await stranger.call("GET", "/api/v1/secrets")
    assert refused.status == 403
    assert 'User "system:anonymous" cannot list resource "secrets"' in refused.json["message"]
    assert (await stranger.call("GET", "/metrics")).status == 403
    stranger.token = "wrong"
    assert (await stranger.call("GET", "/version")).status == 401
    stranger.writer.close()


async def test_service_account_tokens_end_with_their_account(client: Client, cluster: EmbeddedApi) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    await client.call("POST", accounts, {"metadata": {"name": "bot"}})
    issued = (await client.call("POST", f"{accounts}/bot/token", {"spec": {"expirationSeconds": 600}})).json
    bot = await Client(cluster).open()
    bot.token = issued["status"]["token"]
    reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    me = (await bot.call("POST", reviews, {})).json["status"]["userInfo"]
    assert me["username"] == "system:serviceaccount:default:bot"
    assert "system:serviceaccounts:default" in me["groups"]
    review = (
        await client.call("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": bot.token}})
    ).json
    assert review["status"]["authenticated"] is True
    short = await client.call("POST", f"{accounts}/bot/token", {"spec": {"expirationSeconds": 5}})
    assert short.status == 422
    await client.call("DELETE", f"{accounts}/bot")
    gone = (
        await client.call("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": bot.token}})
    ).json
    assert not gone["status"].get("authenticated")
    bot.writer.close()


async def test_approved_certificate_requests_are_signed(client: Client, cluster: EmbeddedApi, tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "carol")])
    pem = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    request = base64.b64encode(pem.public_bytes(serialization.Encoding.PEM)).decode()
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    spec = {"request": request, "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]}
    made = (await client.call("POST", path, {"metadata": {"name": "carol"}, "spec": {**spec, "username": "root"}})).json
    assert made["spec"]["username"] == "kubernetes-admin"
    approved = {"type": "Approved", "status": "True", "reason": "Known", "message": "it is carol"}
    made["status"] = {"conditions": [approved]}
    assert (await client.call("PUT", f"{path}/carol/approval", made)).status == 200
    for _ in range(3000):
        signed = (await client.call("GET", f"{path}/carol")).json
        if signed["status"].get("certificate"):
            break
        await asyncio.sleep(0.02)
    pair = tmp_path / "carol.pem"
    plain = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    pair.write_bytes(base64.b64decode(signed["status"]["certificate"]) + plain)
    carol = Client(cluster)
    carol.token = ""
    context = ssl.create_default_context(cadata=cluster.server.authority.certificate.decode())
    context.load_cert_chain(pair)
    carol.reader, carol.writer = await asyncio.open_connection("127.0.0.1", cluster.server.port, ssl=context)
    me = (await carol.call("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})).json
    assert me["status"]["userInfo"]["username"] == "carol"
    carol.writer.close()


async def test_metrics_count_requests(client: Client) -> None:
    await client.call("GET", "/api/v1/namespaces")
    text = (await client.call("GET", "/metrics")).body.decode()
    assert (
        'apiserver_request_total{code="200",group="",resource="namespaces",subresource="",verb="LIST",version="v1"} 1'
        in text
    )


async def test_audit_log_has_a_line_per_request(tmp_path: Path) -> None:
    cluster = EmbeddedApi(None, audit=tmp_path / "audit.log")
    await cluster.start()
    client = await Client(cluster).open()
    await client.call("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    await client.call("GET", f"{CONFIG_MAPS}/a", Impersonate_User="bob")
    client.writer.close()
    await cluster.stop()
    first, second = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    assert (first["verb"], first["objectRef"]["resource"], first["responseStatus"]["code"]) == (
        "create",
        "configmaps",
        201,
    )
    assert (second["impersonatedUser"]["username"], second["responseStatus"]["code"]) == ("bob", 403)


async def test_audit_log_has_neither_secrets_nor_tokens(tmp_path: Path) -> None:
    cluster = EmbeddedApi(None, audit=tmp_path / "audit.log")
    await cluster.start()
    client = await Client(cluster).open()
    secrets = "/api/v1/namespaces/default/secrets"
    made = await client.call("POST", secrets, {"metadata": {"name": "s"}, "data": {"password": "aHVudGVyMg=="}})
    read = await client.call("GET", f"{secrets}/s")
    issued = await client.call("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", {"spec": {}})
    client.writer.close()
    await cluster.stop()
    assert (made.status, read.status, issued.status) == (201, 200, 201)
    text = (tmp_path / "audit.log").read_text()
    assert len(text.splitlines()) == 3
    assert "aHVudGVyMg==" not in text
    assert json.loads(issued.body)["status"]["token"] not in text


async def test_stopping_lets_requests_finish(cluster: EmbeddedApi, client: Client) -> None:
    client.send("GET", f"{CONFIG_MAPS}?watch=1&resourceVersion={cluster.store.revision}")
    await client.head()
    await asyncio.wait_for(cluster.server.stop(), 5)
    assert await client.reader.read() in (b"", b"0\r\n\r\n")
