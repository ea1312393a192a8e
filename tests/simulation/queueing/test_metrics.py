"""What a scrape shows of queues and cohorts, and that nothing is shown of those that are gone."""

from __future__ import annotations

import re
from typing import Any

from corral.configuration.metric_labels import UNTRACKED
from corral.configuration.queueing import QueueingConfig, load_config
from corral.core.resource import Resource
from corral.kinds.kueue import CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, WORKLOADS
from corral.runtime.virtual import run_virtual
from corral.testing.cluster import VirtualCluster

from .world import JOBS, World, cluster_queue, fill, flavor, job, local_queue

SAMPLE = re.compile(r"^(kueue_\w+)\{(.*)\} (\S+)$", re.MULTILINE)


def scrape(world: VirtualCluster, metric: str, **labels: str) -> dict[tuple[str, ...], float]:
    """Values of a metric by the labels that were not asked for, in the order of their names, `replica_role` left out."""
    found = {}
    for name, text, value in SAMPLE.findall(world.manager.metrics.exposition().decode()):
        given = dict(re.findall(r'(\w+)="([^"]*)"', text))
        if name == metric and all(given[label] == wanted for label, wanted in labels.items()):
            rest = tuple(value for label, value in given.items() if label not in (*labels, "replica_role"))
            found[rest] = float(value)
    return found


async def settle(world: World) -> None:
    """Until every queue and cohort has been counted again."""
    await world.settle()
    await world.advance(3)
    await world.advance(3)


def cohort(name: str, parent: str = "", **spec: Any) -> tuple[Resource, dict[str, Any]]:
    return COHORTS, {"metadata": {"name": name}, "spec": {**({"parentName": parent} if parent else {}), **spec}}


def test_cluster_queues() -> None:
    """QUE-65..68: what waits is added up by resource, and zero stays visible."""

    async def main() -> None:
        async with World() as world:
            await fill(world, flavor(), cluster_queue(cpu="2"), local_queue())
            await fill(world, job("a", cpu="2"))
            await fill(world, job("b", cpu="3"), job("c", cpu="500m"))
            await settle(world)
            assert scrape(world, "kueue_cluster_queue_resource_pending", cluster_queue="cq")[("cpu",)] == 3.5
            assert scrape(world, "kueue_admitted_active_workloads") == {("cq",): 1}
            assert scrape(world, "kueue_cluster_queue_info") == {("cq", "", ""): 1}
            assert scrape(world, "kueue_cluster_queue_status", status="active") == {("cq",): 1}
            await world.client.delete(JOBS, "b", "default", propagation="Background")
            await settle(world)
            assert scrape(world, "kueue_cluster_queue_resource_pending", cluster_queue="cq")[("cpu",)] == 0.5
            await world.client.delete(JOBS, "c", "default", propagation="Background")
            await settle(world)
            assert scrape(world, "kueue_cluster_queue_resource_pending", cluster_queue="cq")[("cpu",)] == 0
            await world.finish_job("a")
            await settle(world)
            assert scrape(world, "kueue_finished_workloads") == {("cq",): 1}
            assert scrape(world, "kueue_local_queue_finished_workloads") == {("lq", "default"): 1}
            await world.client.delete(CLUSTER_QUEUES, "cq")
            await settle(world)
            assert scrape(world, "kueue_cluster_queue_info") == {}
            assert scrape(world, "kueue_pending_workloads") == {}

    run_virtual(main)


def test_local_queues() -> None:
    async def main() -> None:
        async with World() as world:
            await fill(world, flavor(), cluster_queue(), local_queue(), job(cpu="3"))
            await settle(world)
            for metric in ("reservation", "usage"):
                found = scrape(world, f"kueue_local_queue_resource_{metric}")
                assert found == {("default", "lq", "default", "cpu"): 3}
            assert scrape(world, "kueue_local_queue_status", active="True") == {("lq", "default"): 1}
            await world.client.delete(LOCAL_QUEUES, "lq", "default")
            await settle(world)
            assert scrape(world, "kueue_local_queue_resource_usage") == {}

    run_virtual(main)


def test_quota_is_shown_on_request() -> None:
    async def main() -> None:
        async with World(QueueingConfig(cluster_queue_resource_metrics=True)) as world:
            await fill(world, flavor(), cluster_queue(cohortName="team"))
            await settle(world)
            labels = ("cq", "team", "default", "cpu")
            assert scrape(world, "kueue_cluster_queue_nominal_quota") == {labels: 4}
            assert scrape(world, "kueue_cluster_queue_borrowing_limit") == {labels: float("inf")}
            assert scrape(world, "kueue_cluster_queue_resource_usage") == {labels: 0}

    run_virtual(main)


def test_a_tree_of_cohorts() -> None:
    """IPR-51, IPR-61: sums of the whole tree, at every level of it."""

    async def main() -> None:
        async with World() as world:
            await fill(world, flavor(), cohort("root"), cohort("team", "root"))
            await fill(world, cluster_queue("a", cohortName="team"), cluster_queue("b", cohortName="root"))
            await fill(world, local_queue("la", "a"), local_queue("lb", "b"))
            await fill(world, job("x", queue="la", cpu="2"), job("y", queue="lb", cpu="1"))
            await settle(world)
            assert scrape(world, "kueue_cohort_info") == {("root", "", "root"): 1, ("team", "root", "root"): 1}
            assert scrape(world, "kueue_cluster_queue_info") == {("a", "team", "root"): 1, ("b", "root", "root"): 1}
            cpu = {"flavor": "default", "resource": "cpu"}
            assert scrape(world, "kueue_cohort_subtree_quota", **cpu) == {("root",): 8, ("team",): 4}
            assert scrape(world, "kueue_cohort_subtree_resource_reservations", **cpu) == {("root",): 3, ("team",): 2}
            assert scrape(world, "kueue_cohort_subtree_admitted_active_workloads") == {("root",): 2, ("team",): 1}
            total = scrape(world, "kueue_cohort_subtree_admitted_workloads_total", priority_class="")
            assert total == {("root",): 2, ("team",): 1}

    run_virtual(main)


def test_queues_and_cohorts_move() -> None:
    """IPR-52, IPR-53: what moves is counted where it is, deep below as well."""

    async def main() -> None:
        async with World() as world:
            await fill(world, flavor(), cohort("one"), cohort("two"), cohort("team", "one"), cohort("deep", "team"))
            await fill(world, cluster_queue("a", cohortName="deep"))
            await settle(world)
            assert scrape(world, "kueue_cluster_queue_info") == {("a", "deep", "one"): 1}
            await world.client.patch(COHORTS, "team", "", {"spec": {"parentName": "two"}})
            await settle(world)
            assert scrape(world, "kueue_cluster_queue_info") == {("a", "deep", "two"): 1}
            assert scrape(world, "kueue_cohort_info", cohort="deep") == {("team", "two"): 1}
            quota = scrape(world, "kueue_cohort_subtree_quota", flavor="default", resource="cpu")
            assert quota.get(("one",), 0) == 0
            assert quota[("two",)] == 4
            await world.client.patch(CLUSTER_QUEUES, "a", "", {"spec": {"cohortName": "one"}})
            await settle(world)
            quota = scrape(world, "kueue_cohort_subtree_quota", flavor="default", resource="cpu")
            assert quota[("one",)] == 4
            assert quota.get(("two",), 0) == 0

    run_virtual(main)


def test_cohorts_that_are_only_mentioned() -> None:
    """IPR-54, IPR-59: they are shown while somebody mentions them."""

    async def main() -> None:
        async with World() as world:
            await fill(world, flavor(), cluster_queue("a", cohortName="team"))
            await settle(world)
            assert scrape(world, "kueue_cohort_info") == {("team", "", "team"): 1}
            await world.client.delete(CLUSTER_QUEUES, "a")
            await settle(world)
            assert scrape(world, "kueue_cohort_info") == {}
            assert scrape(world, "kueue_cohort_subtree_quota") == {}

    run_virtual(main)


def test_cohorts_disappear_with_their_objects() -> None:
    """IPR-57, IPR-58: in whichever order objects go."""

    async def main(first: Resource, second: Resource) -> None:
        async with World() as world:
            await fill(world, flavor(), cohort("x"), cluster_queue("x", cohortName="x"))
            await settle(world)
            assert scrape(world, "kueue_cohort_info") == {("x", "", "x"): 1}
            for resource in (first, second):
                await world.client.delete(resource, "x")
                await settle(world)
            assert scrape(world, "kueue_cohort_info") == {}

    run_virtual(lambda: main(COHORTS, CLUSTER_QUEUES))
    run_virtual(lambda: main(CLUSTER_QUEUES, COHORTS))


def test_a_queue_takes_another_root() -> None:
    """IPR-60"""

    async def main() -> None:
        async with World() as world:
            await fill(world, flavor(), cluster_queue("a", cohortName="one"))
            await settle(world)
            await world.client.patch(CLUSTER_QUEUES, "a", "", {"spec": {"cohortName": "two"}})
            await settle(world)
            assert scrape(world, "kueue_cohort_info") == {("two", "", "two"): 1}

    run_virtual(main)


def shown(world: World, **labels: str) -> set[str]:
    """The metrics that have a series with these labels."""
    found = set()
    for name, text, _ in SAMPLE.findall(world.manager.metrics.exposition().decode()):
        if labels.items() <= dict(re.findall(r'(\w+)="([^"]*)"', text)).items():
            found.add(name)
    return found


def test_everything_counted_and_timed_for_a_queue_goes_with_it() -> None:
    async def main() -> None:
        async with World() as world:
            await fill(world, flavor(), cluster_queue(cohortName="all"), local_queue(), job("a"))
            await settle(world)
            await world.finish_job("a")
            await settle(world)
            assert "kueue_admitted_workloads_total" in shown(world, cluster_queue="cq")
            assert "kueue_local_queue_admission_wait_time_seconds_sum" in shown(world, name="lq")
            assert "kueue_cohort_subtree_admitted_workloads_total" in shown(world, cohort="all")
            await world.client.delete(JOBS, "a", "default", propagation="Background")
            await world.client.delete(CLUSTER_QUEUES, "cq")
            await settle(world)
            assert shown(world, cluster_queue="cq") == set()
            left = shown(world, name="lq")
            assert "kueue_local_queue_admitted_workloads_total" in left
            assert {name for name in left if not name.endswith(("_total", "_bucket", "_sum", "_count"))} == {
                "kueue_local_queue_pending_workloads",
                "kueue_local_queue_finished_workloads",
                "kueue_local_queue_status",
            }
            assert scrape(world, "kueue_local_queue_status", active="False") == {("lq", "default"): 1}
            for status in ("active", "inadmissible"):
                waiting = scrape(world, "kueue_local_queue_pending_workloads", status=status)
                assert waiting == {("lq", "default"): 0}
            assert shown(world, cohort="all") == set()
            await fill(world, cluster_queue(), job("b"))
            await settle(world)
            assert scrape(world, "kueue_admitted_workloads_total", cluster_queue="cq") == {("",): 1}
            await world.client.delete(LOCAL_QUEUES, "lq", "default")
            await settle(world)
            assert shown(world, name="lq") == set()

    run_virtual(main)


def test_the_last_share_of_a_queue_stays_while_a_local_queue_points_at_it() -> None:
    async def main() -> None:
        async with World(load_config({"fairSharing": {}})) as world:
            await fill(world, flavor(), cluster_queue(cohortName="all"), local_queue())
            await settle(world)
            await world.client.delete(CLUSTER_QUEUES, "cq")
            await settle(world)
            assert shown(world, cluster_queue="cq") == {"kueue_cluster_queue_weighted_share"}
            await world.client.delete(LOCAL_QUEUES, "lq", "default")
            await settle(world)
            assert shown(world, cluster_queue="cq") == set()

    run_virtual(main)


def test_a_metric_without_a_series_is_not_spoken_of() -> None:
    async def main() -> None:
        async with World() as world:
            await settle(world)
            text = world.manager.metrics.exposition().decode()
            assert "kueue_build_info" in text
            assert "kueue_admission_cycle_preemption_skips" not in text

    run_virtual(main)


def test_only_selected_local_queues_have_metrics() -> None:
    chosen = {"metrics": {"localQueueMetrics": {"localQueueSelector": {"matchLabels": {"shown": "yes"}}}}}

    async def main() -> None:
        async with World(load_config(chosen)) as world:
            await fill(world, flavor(), cluster_queue(), local_queue(), local_queue("other"))
            await world.client.patch(LOCAL_QUEUES, "lq", "default", {"metadata": {"labels": {"shown": "yes"}}})
            await settle(world)
            await fill(world, job("a"), job("b", queue="other"))
            await settle(world)
            assert "kueue_local_queue_admitted_workloads_total" in shown(world, name="lq")
            assert shown(world, name="other") == set()
            await world.client.patch(LOCAL_QUEUES, "lq", "default", {"metadata": {"labels": {"shown": "no"}}})
            await settle(world)
            assert shown(world, name="lq") == set()

    run_virtual(main)


def test_a_workload_that_never_had_quota_is_evicted_and_finished_without_a_series_of_no_queue() -> None:
    async def main() -> None:
        async with World() as world:
            await fill(world, flavor(), cluster_queue(cpu="2"), local_queue())
            await fill(world, job("too-big", cpu="3"))
            await world.settle()
            (workload,) = (await world.client.list(WORKLOADS, "default")).items
            await world.client.patch(
                WORKLOADS, workload["metadata"]["name"], "default", {"spec": {"active": False}}, kind="merge"
            )
            await world.settle()
            await world.finish_job("too-big")
            await settle(world)
            assert 'cluster_queue=""' not in world.manager.metrics.exposition().decode()

    run_virtual(main)


LABELLED = {
    "featureGates": {"CustomMetricLabels": True},
    "metrics": {
        "enableClusterQueueResources": True,
        "customLabels": [
            {"name": "team"},
            {"name": "site", "sourceKind": "LocalQueue", "sourceAnnotationKey": "example.com/site"},
            {"name": "owner", "sourceKind": "Cohort"},
            {"name": "tier", "sourceKind": "Workload", "sourceLabelKey": "x/tier", "trackedValues": ["gold", "iron"]},
        ],
    },
}


def test_metrics_carry_labels_of_their_own_objects() -> None:
    async def main() -> None:
        async with World(load_config(LABELLED)) as world:
            await fill(world, cohort("all"), flavor(), cluster_queue(cohortName="all"), local_queue())
            await world.client.patch(COHORTS, "all", "", {"metadata": {"labels": {"owner": "us"}}})
            await world.client.patch(CLUSTER_QUEUES, "cq", "", {"metadata": {"labels": {"team": "red"}}})
            site = {"metadata": {"annotations": {"example.com/site": "north"}}}
            await world.client.patch(LOCAL_QUEUES, "lq", "default", site)
            await settle(world)
            await fill(world, job("a", labels={"x/tier": "gold"}), job("b", labels={"x/tier": "wood"}))
            await settle(world)
            seen = shown(world, cluster_queue="cq") - shown(world, name="lq")
            assert seen <= shown(world, custom_team="red")
            assert {"kueue_admitted_workloads_total", "kueue_cluster_queue_nominal_quota"} <= seen
            assert shown(world, name="lq") <= shown(world, custom_site="north")
            assert shown(world, custom_owner="us") == shown(world, cohort="all") - seen
            assert scrape(world, "kueue_workload_creation_latency_seconds_count") == {("north", "batch/job"): 2}
            active = scrape(world, "kueue_admitted_active_workloads", cluster_queue="cq", custom_team="red")
            assert active == {("gold",): 1, (UNTRACKED,): 1}

    run_virtual(main)


def test_gauges_follow_the_labels_of_their_objects_and_counters_go_on_under_them() -> None:
    async def main() -> None:
        async with World(load_config(LABELLED)) as world:
            await fill(world, flavor(), cluster_queue(cpu="9"), local_queue(), job("a"), job("big", cpu="10"))
            await settle(world)
            await world.client.patch(CLUSTER_QUEUES, "cq", "", {"metadata": {"labels": {"team": "red"}}})
            await settle(world)
            await fill(world, job("b"))
            await settle(world)
            pending = ("kueue_pending_workloads", {"cluster_queue": "cq", "status": "inadmissible"})
            assert scrape(world, pending[0], **pending[1]) == {("red",): 1}
            counted = scrape(world, "kueue_admitted_workloads_total", cluster_queue="cq")
            assert counted == {("", ""): 1, ("red", ""): 1}
            await world.client.delete(JOBS, "big", "default", propagation="Background")
            await world.client.delete(LOCAL_QUEUES, "lq", "default")
            for name in ("a", "b"):
                await world.client.delete(JOBS, name, "default", propagation="Background")
            await world.client.delete(CLUSTER_QUEUES, "cq")
            await settle(world)
            assert shown(world, cluster_queue="cq") == set()

    run_virtual(main)


def test_workloads_carry_what_their_metrics_are_told_apart_by() -> None:
    async def main() -> None:
        async with World(load_config(LABELLED)) as world:
            await fill(world, flavor(), cluster_queue(), local_queue(), job("a", labels={"x/tier": "gold", "y": "z"}))
            await settle(world)
            labels = (await world.workload_of("a"))["metadata"]["labels"]
            assert labels.get("x/tier") == "gold"
            assert "y" not in labels

    run_virtual(main)
