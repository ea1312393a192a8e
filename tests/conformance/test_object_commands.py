"""`corral get`, `describe`, `apply`, `delete`, `wait`, `cancel` and `retry` against a served cluster that queues jobs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import yaml
from tests.conformance.served_cli import JOBS, Run, job, serve, until

from corral.clusters.embedded_api import EmbeddedApi
from corral.core.errors import NotFound
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, PODS
from corral.kinds.kueue import WORKLOADS


def config_map(name: str, **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"n": name}}


async def queues(run: Run) -> None:
    await run("queue", "create", "rf", "default")
    await run("queue", "create", "cq", "team", "--nominal-quota", "default:cpu=1")
    await run("queue", "create", "lq", "lq", "-c", "team")


async def finish(embedded: EmbeddedApi, name: str, kind: str) -> None:
    """Let a Job end, as its controller would."""
    conditions = [{"type": "FailureTarget" if kind == "Failed" else "SuccessCriteriaMet", "status": "True"}]
    conditions.append({"type": kind, "status": "True", "reason": "Test", "message": "it ended"})
    times: dict[str, Any] = {"startTime": "2026-01-01T00:00:00Z"}
    if kind == "Complete":
        times["completionTime"] = "2026-01-01T00:01:00Z"
    status = {"status": {"conditions": conditions, **times}}
    await embedded.client.patch(JOBS, name, "default", status, subresource="status")


async def test_objects_are_shown_in_every_format(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run) -> None:
        for name in ("one", "two"):
            await embedded.client.create(CONFIG_MAPS, config_map(name, team=name))
        lines = (await run("get", "cm")).splitlines()
        assert lines[0].split() == ["NAME", "DATA", "AGE"]
        assert [line.split()[0] for line in lines[1:]][-2:] == ["one", "two"]
        assert (await run("get", "configmaps", "-l", "team=two", "-o", "name")) == "configmap/two\n"
        assert json.loads(await run("get", "cm/one", "-o", "json"))["data"] == {"n": "one"}
        listed = yaml.safe_load(await run("get", "cm", "one", "two", "-o", "yaml"))
        assert [item["metadata"]["name"] for item in listed["items"]] == ["one", "two"]
        assert await run("get", "cm/one", "-o", "jsonpath={.data.n}") == "one\n"
        columns = await run("get", "cm/one", "-o", "custom-columns=N:.metadata.name,D:.data.n", "--no-headers")
        assert columns.split() == ["one", "one"]
        newest = await run("get", "cm", "-l", "team", "--sort-by", ".data.n", "-L", "team")
        assert [line.split()[-1] for line in newest.splitlines()] == ["TEAM", "one", "two"]
        assert (await run("get", "cm", "-A")).split()[0] == "NAMESPACE"

    await serve(tmp_path, scenario)


async def test_several_kinds_are_shown_one_below_the_other(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run) -> None:
        await embedded.client.create(CONFIG_MAPS, config_map("one"))
        shown = await run("get", "namespaces,cm")
        assert "namespace/default" in shown
        assert "configmap/one" in shown
        assert "\n\n" in shown
        assert "Error: --watch follows one kind" in await run("get", "namespaces,cm", "--watch", code=2)

    await serve(tmp_path, scenario)


async def test_what_is_not_there_is_answered_with_what_is(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run) -> None:
        await embedded.client.create(CONFIG_MAPS, config_map("settings"))
        answer = await run("get", "cm", "setings", "settings", code=1)
        assert 'configmaps "setings" not found; did you mean settings?' in answer
        assert "settings   1" in answer
        assert "did you mean configmap" in await run("get", "confgmap", code=1)
        assert "No jobs found in namespace default." in await run("get", "jobs")
        assert "there is no namespace nosuch; there are default" in await run("get", "jobs", "-n", "nosuch", code=1)
        assert "has no effect on one that is named" in await run("get", "cm", "settings", "-l", "a=b", code=2)
        assert "is not one of table, wide" in await run("get", "cm", "-o", "yml", code=2)

    await serve(tmp_path, scenario)


async def test_manifests_are_applied_and_deleted(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run) -> None:
        file = tmp_path / "two.yaml"
        documents = [config_map("one"), {**config_map("bad"), "data": {"n": 1}}, config_map("two")]
        file.write_bytes(b"\xef\xbb\xbf" + yaml.safe_dump_all(documents).encode())
        answer = await run("apply", "-f", str(file), code=1)
        assert "configmap/one created" in answer
        assert "configmap/two created" in answer
        assert f"{file}, document 2: " in answer
        file.write_text(yaml.safe_dump_all([config_map("one"), {**config_map("two"), "data": {"n": "changed"}}]))
        assert await run("apply", "-f", str(file)) == "configmap/one unchanged\nconfigmap/two configured\n"
        file.write_text(yaml.safe_dump_all([config_map("one"), {**config_map("two"), "data": {"n": "again"}}]))
        assert "configmap/two configured (server dry run)" in await run("apply", "-f", str(file), "--dry-run")
        assert (await embedded.client.get(CONFIG_MAPS, "two", "default"))["data"] == {"n": "changed"}
        assert "and -n says other" in await run("apply", "-f", str(file), "-n", "other", code=1)
        assert await run("delete", "-f", str(file)) == "configmap/one deleted\nconfigmap/two deleted\n"
        await run("delete", "-f", str(file), code=1)
        assert await run("delete", "-f", str(file), "--ignore-not-found") == ""

    await serve(tmp_path, scenario)


async def test_files_that_are_no_manifests_are_named(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run) -> None:
        for content, fault in (
            (b"a: [", "is not YAML: yaml: line 1"),
            (b"\x80\x81\x82", "not a text file"),
            (b"", "there is no object in it"),
            (b"- 1", "it is not an object with apiVersion"),
            (b"kind: Job", "apiVersion is missing"),
            (b"apiVersion: v1\nkind: Pod\nmetadata: {}", "Pod has no metadata.name"),
        ):
            (tmp_path / "x.yaml").write_bytes(content)
            answer = await run("apply", "-f", str(tmp_path / "x.yaml"), code=1)
            assert fault in answer, answer
        (tmp_path / "empty").mkdir()
        assert "the folder has no manifests" in await run("apply", "-f", str(tmp_path / "empty"), code=1)
        await run("apply", "-f", str(tmp_path / "gone.yaml"), code=1)

    await serve(tmp_path, scenario)


async def test_deleting_is_asked_for_by_name_or_selector(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run) -> None:
        for name in ("one", "two", "three"):
            await embedded.client.create(CONFIG_MAPS, config_map(name, mine="yes"))
        assert "name the configmaps to delete, select them with -l, or use --all" in await run("delete", "cm", code=2)
        assert "one deleted (server dry run)" in await run("delete", "cm/one", "--dry-run")
        assert await run("delete", "cm", "one") == "configmap/one deleted\n"
        assert await run("delete", "cm", "-l", "mine") == "configmap/three deleted\nconfigmap/two deleted\n"
        assert "not found" in await run("delete", "cm/one", code=1)
        assert await run("delete", "cm/one", "--ignore-not-found") == ""

    await serve(tmp_path, scenario)


async def test_a_job_is_waited_for_cancelled_and_retried(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run) -> None:
        await queues(run)
        await embedded.client.create(JOBS, job("train", "1"))
        assert await run("wait", "train", "--for", "admitted") == "job.batch/train admitted\n"
        assert "has not ended; `corral cancel job/train`" in await run("retry", "job/train", code=1)
        assert "time ran out: job.batch/train is not finished yet" in await run(
            "wait", "job/train", "--timeout", "0s", code=1
        )
        assert await run("cancel", "job/train") == "job.batch/train cancelled\n"
        (workload,) = (await embedded.client.list(WORKLOADS, "default")).items
        assert workload["spec"]["active"] is False
        assert await run("retry", "job/train") == "job.batch/train-2 created\n"
        second = await embedded.client.get(JOBS, "train-2", "default")
        assert second["metadata"]["annotations"]["corral.dev/retry-of"] == "train"
        await run("wait", "job/train-2", "--for", "admitted")
        waiting = asyncio.ensure_future(run("wait", "job/train-2"))
        await finish(embedded, "train-2", "Complete")
        assert await waiting == "job.batch/train-2 succeeded\n"
        assert await run("cancel", "job/train-2") == "job.batch/train-2 has ended already\n"
        described = await run("describe", "job/train-2")
        assert "Explanation: Finished" in described
        assert "AGE" in described

    await serve(tmp_path, scenario)


async def test_many_jobs_are_meant_by_their_labels_or_by_their_names_alone(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run) -> None:
        await queues(run)
        for name in ("sweep-0", "sweep-1", "other"):
            made = job(name, "100m")
            labels = made["metadata"]["labels"] | ({"batch": "sweep"} if name != "other" else {})  # type: ignore[index]
            await embedded.client.create(
                JOBS, {**made, "metadata": {"name": name, "namespace": "default", "labels": labels}}
            )
        both = ("wait", "-l", "batch=sweep", "--for", "admitted")
        assert (await run(*both)).split() == ["job.batch/sweep-0", "admitted", "job.batch/sweep-1", "admitted"]
        assert (await run("cancel", "jobs", "-l", "batch=sweep")).count("cancelled") == 2
        again = await run("retry", "sweep-0", "sweep-1")
        assert again == "job.batch/sweep-2 created\njob.batch/sweep-3 created\n"
        assert "did you mean sweep-0" in await run("cancel", "other", "sweep", code=1)
        assert "no jobs in namespace default have the labels batch=none" in await run(
            "wait", "-l", "batch=none", code=1
        )
        assert "name the kind alone" in await run("cancel", "job/other", "-l", "batch=sweep", code=2)
        assert "or select jobs with -l" in await run("cancel", code=2)
        assert "does not know a resource type 'pytorchjb'; did you mean pytorchjob" in await run(
            "wait", "pytorchjb", "x", code=1
        )

    await serve(tmp_path, scenario)


async def test_a_failed_job_is_an_exit_code(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run) -> None:
        await queues(run)
        await embedded.client.create(JOBS, job("good", "100m"))
        await embedded.client.create(JOBS, job("bad", "100m"))
        await run("wait", "job", "good", "bad", "--for", "admitted")
        await finish(embedded, "good", "Complete")
        await finish(embedded, "bad", "Failed")
        answer = await run("wait", "job/good", "job/bad", code=1)
        assert answer.splitlines() == ["job.batch/good succeeded", "job.batch/bad failed"]

    await serve(tmp_path, scenario)


async def test_other_things_are_waited_for_by_condition_path_and_deletion(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run) -> None:
        await embedded.client.create(CONFIG_MAPS, config_map("one"))
        assert "has no end of its own" in await run("wait", "cm/one", code=1)
        assert "cm" not in await run("wait", "cm/one", "--for", "jsonpath={.data.n}=one")
        assert "is not one of finished, admitted" in await run("wait", "cm/one", "--for", "ready", code=2)
        waiting = asyncio.ensure_future(run("wait", "cm/one", "--for", "delete"))
        await embedded.client.delete(CONFIG_MAPS, "one", "default")
        await waiting
        await run("wait", "cm/one", "--for", "delete")
        pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        await embedded.client.create(PODS, pod)
        ready = {"status": {"phase": "Succeeded", "conditions": [{"type": "Ready", "status": "False"}]}}
        await embedded.client.patch(PODS, "p", "default", ready, subresource="status")
        assert await run("wait", "pod/p", "--for", "condition=ready=false") == "pod/p ready=false\n"
        assert await run("wait", "pod/p") == "pod/p succeeded\n"
        assert "is in no queue; `corral delete pod/p`" in await run("cancel", "pod/p", code=1)
        assert "is not a job" in await run("retry", "pod/p", code=1)

    await serve(tmp_path, scenario)


async def test_a_retried_job_keeps_what_was_sent_for_the_first(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run) -> None:
        await queues(run)
        first = await embedded.client.create(JOBS, job("train", "1"))
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": first["metadata"]["uid"]}
        piece = config_map("code")
        piece["metadata"]["ownerReferences"] = [owner]
        await embedded.client.create(CONFIG_MAPS, piece)
        await run("wait", "train", "--for", "admitted")
        await finish(embedded, "train", "Failed")
        assert "train-2 created" in await run("retry", "train")
        await run("delete", "job/train")

        async def given_on() -> bool:
            found = await embedded.client.get(CONFIG_MAPS, "code", "default")
            return "train-2" in [one["name"] for one in found["metadata"]["ownerReferences"]]

        await until(given_on)
        await run("delete", "job/train-2")

        async def gone() -> bool:
            try:
                await embedded.client.get(CONFIG_MAPS, "code", "default")
            except NotFound:
                return True
            return False

        await until(gone)

    await serve(tmp_path, scenario)
