"""Workers out of ClusterProfiles and files: what is accepted, what is refused in which words, and changes that are followed."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from corral.configuration.dispatch import dispatch_settings
from corral.controllers.dispatch.workers.credentials_sources import check_path
from corral.controllers.dispatch.workers.kubeconfigs import AccessProblem
from corral.core import conditions
from corral.core.meta import Obj
from corral.kinds.fleet import CLUSTER_PROFILES
from corral.kinds.kueue import MULTI_KUEUE_CLUSTERS
from corral.runtime.virtual import run_virtual
from corral.simulate.fleet import SimulatedFleet, kubeconfig_data

PLUGIN = {"apiVersion": "client.authentication.k8s.io/v1", "command": "get-token"}


def configuration(
    *, gate: bool = True, providers: tuple[str, ...] = ("corporate",), name: str = "accessProviders"
) -> Obj:
    entries = [{"name": provider, "execConfig": PLUGIN} for provider in providers]
    return {
        "featureGates": {"MultiKueueClusterProfile": gate},
        "multiKueue": {"clusterProfile": {name: entries}},
    }


async def set_profile(
    fleet: SimulatedFleet, name: str, provider: str, namespace: str = "kueue-system", cluster: Obj | None = None
) -> None:
    client = fleet.manager.client
    made = await client.create(
        CLUSTER_PROFILES,
        {"metadata": {"name": name, "namespace": namespace}, "spec": {"clusterManager": {"name": "m"}}},
    )
    reached = {"server": "https://worker1"} if cluster is None else cluster
    status = {"accessProviders": [{"name": provider, "cluster": reached}]}
    await client.update(CLUSTER_PROFILES, {**made, "status": status}, subresource="status")


async def active(fleet: SimulatedFleet, name: str = "one") -> tuple[str, str]:
    await asyncio.sleep(10)
    cluster = await fleet.manager.client.get(MULTI_KUEUE_CLUSTERS, name)
    entry = conditions.find(cluster, "Active") or {}
    return str(entry.get("reason")), str(entry.get("message"))


async def refer(fleet: SimulatedFleet, profile: str, name: str = "one") -> None:
    source = {"clusterProfileRef": {"name": profile}}
    await fleet.manager.client.create(
        MULTI_KUEUE_CLUSTERS, {"metadata": {"name": name}, "spec": {"clusterSource": source}}
    )


def on_fleet(test: Callable[[SimulatedFleet], Awaitable[None]], settings: Obj) -> None:
    async def main() -> None:
        async with SimulatedFleet(configuration=settings) as fleet:
            await test(fleet)

    run_virtual(main)


@pytest.mark.parametrize("name", ["accessProviders", "credentialsProviders"])
def test_a_worker_is_reached_through_its_profile(name: str) -> None:
    async def test(fleet: SimulatedFleet) -> None:
        await set_profile(fleet, "p", "corporate")
        await refer(fleet, "p")
        await refer(fleet, "p", "two")
        assert await active(fleet) == ("Active", "Connected")
        assert await active(fleet, "two") == ("Active", "Connected")

    on_fleet(test, configuration(name=name))


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        ({"server": ""}, "kubeconfig: cluster 'p' has no server"),
        ({"server": "https://under_score"}, "untrusted server endpoint"),
        ({"server": "http://worker1"}, "the server is reached without TLS, which shows its credentials: "),
    ],
    ids=["no server", "no host", "no TLS"],
)
def test_a_profile_whose_cluster_cannot_be_reached_safely_is_told(cluster: Obj, said: str) -> None:
    async def test(fleet: SimulatedFleet) -> None:
        await set_profile(fleet, "p", "corporate", cluster=cluster)
        await refer(fleet, "p")
        reason, message = await active(fleet)
        assert reason == "BadRestConfig"
        assert message.startswith(f"load client config failed: {said}")

    on_fleet(test, configuration())


@pytest.mark.parametrize("providers", [(), ("other",)], ids=["nothing configured", "none that fits"])
def test_a_missing_profile_is_told_before_anything_about_providers(providers: tuple[str, ...]) -> None:
    async def test(fleet: SimulatedFleet) -> None:
        await refer(fleet, "p")
        told = 'load client config failed: ClusterProfile.multicluster.x-k8s.io "p" not found'
        assert await active(fleet) == ("BadClusterProfile", told)

    on_fleet(test, configuration(providers=providers))


def test_a_profile_that_comes_goes_and_comes_again_is_followed() -> None:
    missing = ("BadClusterProfile", 'load client config failed: ClusterProfile.multicluster.x-k8s.io "p" not found')

    async def test(fleet: SimulatedFleet) -> None:
        await refer(fleet, "p")
        assert await active(fleet) == missing
        await set_profile(fleet, "p", "corporate", namespace="default")
        assert await active(fleet) == missing
        await set_profile(fleet, "p", "corporate")
        assert await active(fleet) == ("Active", "Connected")
        await fleet.manager.client.delete(CLUSTER_PROFILES, "p", "kueue-system")
        assert await active(fleet) == missing
        await set_profile(fleet, "q", "corporate")
        patch = {"spec": {"clusterSource": {"clusterProfileRef": {"name": "q"}}}}
        await fleet.manager.client.patch(MULTI_KUEUE_CLUSTERS, "one", "", patch)
        assert await active(fleet) == ("Active", "Connected")

    on_fleet(test, configuration())


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        (configuration(gate=False), ("MultiKueueClusterProfileFeatureDisabled", "MultiKueueClusterProfile feature gate is disabled")),
        (configuration(providers=()), ("BadClusterProfile", "no access provider configured")),
        (configuration(providers=("other",)), ("BadClusterProfile", 'no configured access provider fits ClusterProfile "p"')),
    ],
    ids=["switched off", "nothing configured", "none that fits"],
)  # fmt: skip
def test_a_profile_that_cannot_be_used_is_told(settings: Obj, wanted: tuple[str, str]) -> None:
    async def test(fleet: SimulatedFleet) -> None:
        await set_profile(fleet, "p", "corporate")
        await refer(fleet, "p")
        assert await active(fleet) == (wanted[0], f"load client config failed: {wanted[1]}")

    on_fleet(test, settings)


def test_the_old_and_the_new_name_of_providers_exclude_each_other() -> None:
    both = {
        "multiKueue": {"clusterProfile": {"accessProviders": [{"name": "a"}], "credentialsProviders": [{"name": "b"}]}}
    }
    with pytest.raises(ValueError, match="exclude each other"):
        dispatch_settings(both)


def test_only_files_in_their_place_are_taken(tmp_path: Path) -> None:
    allowed, outside = tmp_path / "kubeconfigs", tmp_path / "secret"
    allowed.mkdir()
    outside.write_text("x")
    (allowed / "good").write_text("x")
    (allowed / "link").symlink_to(outside)
    check_path(str(allowed / "good"), allowed)
    for bad in (
        "",
        "kubeconfigs/good",
        str(outside),
        f"{allowed}/../secret",
        f"{allowed}-other/good",
        str(allowed / "link"),
        "/var/run/secrets/kubernetes.io/serviceaccount/token",
    ):
        with pytest.raises(AccessProblem):
            check_path(bad, allowed)


def test_a_kubeconfig_file_that_changes_is_taken_up(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(base64.b64decode(kubeconfig_data("worker1")))

    async def test(fleet: SimulatedFleet) -> None:
        source = {"kubeConfig": {"location": str(path), "locationType": "Path"}}
        made = {"metadata": {"name": "one"}, "spec": {"clusterSource": source}}
        await fleet.manager.client.create(MULTI_KUEUE_CLUSTERS, made)
        assert await active(fleet) == ("Active", "Connected")
        path.write_text("{{")
        await asyncio.sleep(20)
        assert (await active(fleet))[0] == "InsecureKubeConfig"
        path.write_bytes(base64.b64decode(kubeconfig_data("worker2")))
        await asyncio.sleep(20)
        assert await active(fleet) == ("Active", "Connected")

    on_fleet(test, {"corral": {"kubeconfigDirectory": str(tmp_path)}})
