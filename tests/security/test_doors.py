"""The whole served API, door by door: every verb on every resource and subresource, by everybody who has one right, and under every hostile name.

Requests go to the application itself, without a wire, so that there is time for all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from urllib.parse import quote

import pytest
from tests.security.served import World, rule, served
from tests.security.test_paths import HOSTILE

from corral.kinds.kubernetes.rbac import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from corral.server import paths
from corral.server.app import App
from corral.server.http.message import Request, Response, Stream

REVIEWS = {"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"}
"""What anybody may ask about himself."""
Right = tuple[str, str, str]
"""A verb, an API group, and a resource with its subresource."""
NAMES = [text for text in HOSTILE if text]


class Doors:
    """The application, its doors, and who knocks."""

    def __init__(self, world: World, app: App, doors: list[tuple[str, str]]) -> None:
        self._world, self._app = world, app
        self.all = doors

    async def knock(self, method: str, path: str, token: str) -> int:
        request = Request(method, path)
        request.headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        request.fields = list(request.headers.items())
        request.body = b"{}" if method in ("POST", "PUT", "PATCH") else b""
        answer = await self._app.answer(request)
        if isinstance(answer, Response):
            return answer.status
        if isinstance(answer, Stream):
            await _leave(answer)
        return 200

    def user(self, name: str, *groups: str) -> str:
        return self._world.user(name, *groups)

    async def allow(self, name: str, right: Right) -> None:
        """Give a user one right, everywhere."""
        client, (verb, group, resource) = self._world.cluster.client, right
        metadata = {"name": f"one-right-of-{name}"}
        await client.create(CLUSTER_ROLES, {"metadata": metadata, "rules": [rule(verb, resource, group)]})
        binding = {
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": metadata["name"]},
            "subjects": [{"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}],
        }
        await client.create(CLUSTER_ROLE_BINDINGS, binding)


async def _leave(answer: Stream) -> None:
    """End a stream as a client that has left does."""

    class Gone:
        async def write(self, data: bytes) -> None:
            raise ConnectionResetError

    try:
        await answer.produce(Gone())
    except ConnectionResetError:
        return


def right_of(method: str, target: str) -> Right:
    info = paths.parse(method, target.partition("?")[0], watch="watch=true" in target)
    return info.verb, info.group, f"{info.resource}/{info.subresource}" if info.subresource else info.resource


async def served_doors(world: World) -> list[tuple[str, str]]:
    """Every method on every path that discovery names; nothing is really deleted."""
    groups = (await world.ask("GET", "/apis")).json["groups"]
    versions = ["/api/v1", *(f"/apis/{each['groupVersion']}" for group in groups for each in group["versions"])]
    found: list[tuple[str, str]] = []
    for version in versions:
        for resource in (await world.ask("GET", version)).json.get("resources", ()):
            name, _, sub = resource["name"].partition("/")
            base = f"{version}/namespaces/default/{name}" if resource["namespaced"] else f"{version}/{name}"
            if sub:
                found += [(method, f"{base}/x/{sub}") for method in ("GET", "POST", "PUT", "PATCH", "DELETE")]
            elif name not in REVIEWS:
                found += [
                    ("GET", base),
                    ("GET", f"{base}?watch=true"),
                    ("POST", base),
                    ("DELETE", f"{base}?dryRun=All"),
                ]
                found += [(method, f"{base}/x") for method in ("GET", "PUT", "PATCH")]
                found.append(("DELETE", f"{base}/x?dryRun=All"))
    return found


@pytest.fixture
async def doors() -> AsyncIterator[Doors]:
    async with served() as world:
        yield Doors(world, world.cluster.server.application(), await served_doors(world))


async def test_whoever_has_one_right_gets_through_the_doors_of_that_right_alone(doors: Doors) -> None:
    neighbours: dict[str, list[tuple[str, str]]] = defaultdict(list)  # by resource, with its subresources
    by_right: dict[Right, tuple[str, str]] = {}
    for method, path in doors.all:
        verb, group, resource = right_of(method, path)
        neighbours[f"{resource.partition('/')[0]}.{group}"].append((method, path))
        by_right.setdefault((verb, group, resource), (method, path))
    opened = 0
    for number, right in enumerate(by_right):
        token = doors.user(f"holder-{number}")
        await doors.allow(f"holder-{number}", right)
        near = neighbours[f"{right[2].partition('/')[0]}.{right[1]}"]
        far = neighbours["secrets."] if right[2] != "secrets" else neighbours["configmaps."]
        for method, path in [*near, *far]:
            if await doors.knock(method, path, token) not in (401, 403):
                assert right_of(method, path) == right, (right, method, path)
                opened += 1
    assert len(by_right) > 1000
    assert opened > 0.9 * len(by_right), "a right opens its own door, but for the few that ask for another one too"


async def test_no_hostile_name_opens_a_door_or_breaks_one(doors: Doors) -> None:
    """For every path with a name in it: a stranger to the API gets nothing, and the administrator neither an object nor an error of ours."""
    nobody, admin = doors.user("nobody"), doors.user("root", "system:masters")
    named = sorted({path.partition("?")[0] for method, path in doors.all if "/x" in path and method == "GET"})
    assert len(named) > 200
    for path in named:
        for text in NAMES:
            for spelt in _spellings(text):
                target = path.replace("/x", f"/{spelt}", 1)
                assert await doors.knock("GET", target, nobody) in (400, 401, 403, 404, 414), target
        # What an administrator is told takes longer: one spelling, in every second place.
        for text in NAMES[len(path) % 2 :: 2]:
            target = path.replace("/x", f"/{quote(text, safe='', errors='surrogatepass')}", 1)
            status = await doors.knock("GET", target, admin)
            assert status < 500, (target, status)


def _spellings(text: str) -> list[str]:
    """As it is where it can be, and escaped."""
    escaped = quote(text, safe="", errors="surrogatepass")
    return [escaped, text] if text.isascii() and text.isprintable() and not set(text) & set(" ?#") else [escaped]


def test_hostile_names_are_many() -> None:
    assert len(NAMES) >= 40
