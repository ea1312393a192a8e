"""The server calls pods and Services of its cluster for those who may ask it to, and nobody else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from corral.core.admission import UserInfo
from corral.core.errors import ApiError, BadRequest
from corral.server import paths
from corral.server.extension.egress import Egress
from corral.server.extension.outcalls import Address, CallFailed, for_others, passed_back
from corral.server.http.message import Request, Stream
from corral.server.pods.proxy import Proxying, pod_port
from corral.server.verbs.options import Warnings
from corral.store import ObjectKey, Store

ROOT = "/api/v1/namespaces/a"


class Calls:
    """A caller that writes down where it is sent, and does not go."""

    def __init__(self) -> None:
        self.to: list[str] = []

    async def open(self, method: str, address: Address, *, suffix: str, **rest: Any) -> Any:
        self.to.append(address.url + suffix)
        raise CallFailed("stopped here")


async def reached(path: str, *objects: dict[str, Any], networks: tuple[str, ...] | None = None) -> str:
    """The URL that a request for `path` makes the server call; "" when it is refused."""
    store = Store(now=lambda: 0.0)
    for obj in objects:
        await store.put(ObjectKey(obj["resource"], "a", "web"), {"metadata": {"name": "web"}, **obj}, expected=0)
    calls = Calls()
    proxying = Proxying(store, calls, Egress(networks))  # type: ignore[arg-type]  # all it needs of a caller
    request = Request("GET", ROOT + path)
    info = paths.parse("GET", request.path)
    handler = proxying.by_subresource[info.resource, "proxy"]
    with pytest.raises((ApiError, CallFailed)):
        await handler(request, info, UserInfo("u"), Warnings())
    return calls.to[0] if calls.to else ""


def pod(address: str, **spec: Any) -> dict[str, Any]:
    ports = [{"name": "http", "containerPort": 8080}]
    status = {"podIP": address, "hostIP": "127.0.0.1"}
    return {"resource": "pods", "spec": {"containers": [{"ports": ports}], **spec}, "status": status}


def service(**spec: Any) -> dict[str, Any]:
    return {"resource": "services", "spec": {"ports": [{"port": 80}], **spec}}


def endpoints(address: str) -> dict[str, Any]:
    return {"resource": "endpoints", "subsets": [{"addresses": [{"ip": address}], "ports": [{"port": 81}]}]}


@pytest.mark.parametrize(
    "port", ["x@127.0.0.1", "8080@localhost", "0", "65536", "-1", "80#", "80%3f", "nope", "\u0661", "8080.evil", "1e3"]
)  # fmt: skip
async def test_a_port_is_a_number_or_the_name_of_one(port: str) -> None:
    with pytest.raises(BadRequest):
        pod_port(pod("10.0.0.1"), port)
    assert await reached(f"/pods/web:{port}/proxy/secret", pod("10.0.0.1")) == ""


@pytest.mark.parametrize(("port", "number"), [("", 8080), ("http", 8080), ("81", 81)])
async def test_a_pod_is_reached_at_its_port(port: str, number: int) -> None:
    name = f"web:{port}" if port else "web"
    assert await reached(f"/pods/{name}/proxy/x?y=z", pod("10.0.0.1")) == f"http://10.0.0.1:{number}/x?y=z"
    assert await reached(f"/pods/https:web:{port}/proxy/", pod("10.0.0.1")) == f"https://10.0.0.1:{number}/"


OURS = ("127.64.0.0/16",)
NOT_OURS = [
    "127.0.0.1", "127.65.0.1", "169.254.169.254", "0.0.0.0", "::1", "::ffff:127.0.0.1", "fe80::1", "fe80::1%eth0", "224.0.0.1",
    "localhost", "evil.example", "2130706433", "0x7f.1", "127.1", "10.0.0.1@127.0.0.1", "[::1]", "",
]  # fmt: skip


@pytest.mark.parametrize("address", NOT_OURS)
@pytest.mark.parametrize("networks", [None, OURS, ()], ids=["unknown", "known", "none"])
async def test_what_is_no_address_of_a_pod_is_not_called(address: str, networks: tuple[str, ...] | None) -> None:
    assert await reached("/pods/web/proxy/x", pod(address), networks=networks) == ""
    assert await reached("/services/web/proxy/x", service(clusterIP=address), networks=networks) == ""
    assert await reached("/services/web/proxy/x", service(), endpoints(address), networks=networks) == ""
    named = service(type="ExternalName", externalName=address)
    assert await reached("/services/web/proxy/x", named, networks=networks) == ""


async def test_the_networks_of_the_cluster_are_the_only_way_out_where_they_are_known() -> None:
    assert await reached("/pods/web/proxy/x", pod("127.64.0.10"), networks=OURS) == "http://127.64.0.10:8080/x"
    assert await reached("/services/web/proxy/x", service(), endpoints("127.64.0.10"), networks=OURS)
    assert await reached("/services/web/proxy/x", service(clusterIP="127.64.128.9"), networks=OURS)
    for elsewhere in ("10.0.0.1", "192.168.1.1", "8.8.8.8"):
        assert await reached("/pods/web/proxy/x", pod(elsewhere), networks=OURS) == ""
        assert await reached("/services/web/proxy/x", service(), endpoints(elsewhere), networks=OURS) == ""
        assert await reached("/services/web/proxy/x", service(clusterIP=elsewhere)) == ""
    assert await reached("/pods/web/proxy/x", pod("10.0.0.1"), networks=()) == ""


async def test_a_pod_on_the_host_is_reached_at_the_ports_it_declares() -> None:
    lives = pod("127.0.0.1", hostNetwork=True)
    assert await reached("/pods/web/proxy/x", lives, networks=OURS) == "http://127.0.0.1:8080/x"
    assert await reached("/pods/web:22/proxy/x", lives, networks=OURS) == ""


async def test_a_path_does_not_become_another_request() -> None:
    url = await reached("/pods/web/proxy/a%0d%0aX:%20y%3fz%23", pod("10.0.0.1"))
    assert url == "http://10.0.0.1:8080/a%0D%0AX:%20y%3Fz%23"


def test_another_server_sees_no_credentials_and_no_other_word_on_who_asks() -> None:
    request = Request("GET", "/")
    request.fields = [
        ("accept", "a/b"),
        ("authorization", "Bearer secret"),
        ("impersonate-user", "somebody"),
        ("impersonate-extra-x", "y"),
        ("x-remote-user", "root"),
        ("x_remote_group", "system:masters"),
        ("connection", "x"),
        ("sec-websocket-protocol", "v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.c2VjcmV0"),
        ("x-own", "zo\u00c3\u00ab"),
    ]
    assert for_others(request) == [
        ("accept", "a/b"),
        ("sec-websocket-protocol", "v4.channel.k8s.io"),
        ("x-own", "zo\u00eb"),
    ]


class Told:
    """Another server's answer; `read` counts as held, `chunks` does not."""

    def __init__(self, status: int, length: str) -> None:
        self.status, self._length = status, length
        self.held = self.left = False

    def header(self, name: str, default: str = "") -> str:
        return self._length if name == "content-length" else default

    async def read(self) -> bytes:
        self.held = True
        return b"x"

    async def chunks(self) -> AsyncIterator[bytes]:
        yield b"x"

    async def __aenter__(self) -> Told:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.left = True


@pytest.mark.parametrize(
    ("method", "status", "length", "is_held"),
    [
        ("GET", 200, "5", True),
        ("GET", 404, "5", True),
        ("GET", 200, "60000000", False),
        ("GET", 500, "60000000", False),
        ("GET", 200, "", False),
        ("GET", 599, "", False),
        ("GET", 200, "9" * 40, False),
        ("GET", 200, "²", False),
        ("GET", 204, "", True),
        ("GET", 304, "60000000", True),
        ("HEAD", 200, "60000000", True),
    ],
)
async def test_a_long_answer_is_not_held_before_its_client_takes_it(
    method: str, status: int, length: str, is_held: bool
) -> None:
    told = Told(status, length)
    answer = await passed_back(told, method, "text/plain", ())  # type: ignore[arg-type]  # all it needs of an answer
    assert answer.status == status
    assert told.held == is_held
    if isinstance(answer, Stream):
        taken = bytearray()

        class Client:
            async def write(self, data: bytes) -> None:
                taken.extend(data)

        await answer.produce(Client())
        assert taken == b"x"
    assert told.left


async def test_a_switch_of_protocols_nobody_asked_for_is_no_answer() -> None:
    with pytest.raises(CallFailed, match="status 101"):
        await passed_back(Told(101, ""), "GET", "", ())  # type: ignore[arg-type]  # all it needs of an answer
