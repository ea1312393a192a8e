"""The command line on a terminal: progress, colours, watching, completion, a shell in a pod, and Ctrl-C at every moment."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.started import client, eventually, started
from tests.e2e.terminal import COLUMNS, CTRL_C, ROWS, Terminal

from corral.core.meta import name_of, owner_references_of, status_of
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, PODS

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

MAIN = "from corral.cli.main import main; main({words!r})"
WAIT = "import time\nprint('begun', flush=True)\ntime.sleep(3000)\n"
STILL = "import time\ndef still(*_, **__):\n    print('{what}', flush=True)\n    time.sleep(3000)\n"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with started(tmp_path_factory.mktemp("fleet"), "--workers", "1", "--cpu", "2", "--memory", "4Gi") as state:
        yield state


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "wait.py").write_text(WAIT)
    (tmp_path / "train.py").write_text("import sys\nprint('learning')\nsys.exit(int(sys.argv[1]))\n")
    return tmp_path


def terminal(fleet: Path, folder: Path, *words: str, patch: str = "", **environment: str) -> Terminal:
    """`corral` on a terminal; `patch` is run before, to hold it up at a place of the test's choosing."""
    command = [sys.executable, "-c", f"{patch}\n{MAIN.format(words=list(words))}"]
    known = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM", "COLUMNS", "LINES")}
    reached = {"KUBECONFIG": str(fleet / "kubeconfig"), "CORRAL_HOME": str(fleet)}
    return Terminal(command, environment={**known, **reached, **environment}, folder=folder)


def jobs(fleet: Path) -> list[str]:
    return [name_of(job) for job in client(fleet).list(JOBS, "default")["items"]]


def no_orphan(fleet: Path, name: str) -> None:
    """Neither the job, nor a pod of it on the worker, nor its folder is left."""
    assert name not in jobs(fleet)
    worker = client(fleet, "corral-worker1")
    eventually(lambda: not [pod for pod in worker.list(PODS, "default")["items"] if name_of(pod).startswith(name)])
    sent = [
        one for one in client(fleet).list(CONFIG_MAPS, "default")["items"] if name_of(one).startswith("corral-code")
    ]
    assert not [one for one in sent if not owner_references_of(one)]
    assert not [one for one in sent if any(owner["name"] == name for owner in owner_references_of(one))]


@pytest.mark.parametrize(("command", "code"), [(("run",), 0), (("run",), 7), (("submit", "--follow"), 0)])
def test_a_job_is_shown_from_its_queue_to_its_end(
    fleet: Path, project: Path, command: tuple[str, ...], code: int
) -> None:
    with terminal(fleet, project, *command, "train.py", str(code)) as seen:
        assert seen.ended() == code, seen.text
    assert "learning\n" in seen.text
    assert "\r\x1b[K" in seen.shown, "the line that says how far it is was redrawn in place"
    assert ("succeeded" if code == 0 else "failed with exit code 7") in seen.last_line


def test_interrupted_while_it_packs_nothing_was_sent(fleet: Path, project: Path) -> None:
    before = jobs(fleet)
    patch = f"{STILL.format(what='packing now')}\nimport corral.submit.archive as archive\narchive._add = still"
    with terminal(fleet, project, "run", "--name", "packed", "wait.py", patch=patch) as seen:
        seen.until("packing now")
        seen.press(CTRL_C)
        assert seen.ended() == 130, seen.text
    assert seen.last_line == "Interrupted."
    assert jobs(fleet) == before
    no_orphan(fleet, "packed")


def test_interrupted_while_it_is_created_it_is_taken_back(fleet: Path, project: Path) -> None:
    patch = f"""
import time
from pathlib import Path
from corral.client.sync import SyncClient
create = SyncClient.create
def slow(self, resource, obj, **options):
    made = create(self, resource, obj, **options)
    if resource.kind == "Job":
        print("creating now", flush=True)
        while not Path({str(project / "go")!r}).exists():
            time.sleep(0.05)
    return made
SyncClient.create = slow
"""
    with terminal(fleet, project, "run", "--name", "made", "wait.py", patch=patch) as seen:
        seen.until("creating now")
        seen.press(CTRL_C)
        seen.until("interrupted while it is created; it is taken back")
        (project / "go").write_text("")
        assert seen.ended() == 130, seen.text
    assert seen.last_line == "# made: cancelled and deleted"
    no_orphan(fleet, "made")


@pytest.mark.parametrize("phase", ["queued", "starting", "running"])
def test_interrupted_while_it_is_on_its_way_it_is_cancelled_and_deleted(fleet: Path, project: Path, phase: str) -> None:
    name, worker = f"while-{phase}", client(fleet, "corral-worker1")
    options = ["--cpus", "500m"]
    words = {"queued": "queued in user-queue", "starting": "pods are starting", "running": "begun"}
    if phase == "queued":
        options = ["--cpus", "100"]
    if phase == "starting":
        # Quota is free and the node is not: a pod that is in no queue has it.
        request = {"resources": {"requests": {"cpu": "1600m"}}}
        container = {"name": "c", "image": "python", "command": ["sleep", "3000"], **request}
        spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
        worker.create(PODS, {"metadata": {"name": "in-the-way", "namespace": "default"}, "spec": spec})
        eventually(lambda: status_of(worker.get(PODS, "in-the-way", "default")).get("phase") == "Running")
    try:
        with terminal(fleet, project, "run", "--name", name, *options, "wait.py") as seen:
            seen.until(words[phase])
            if phase == "queued":
                seen.until("-> It asks for more than there can ever be")
                seen.until("s)")  # how long it waits already
            if phase == "starting":
                seen.until("has no node: 0/1 nodes are available: 1 Insufficient cpu")
            seen.press(CTRL_C)
            assert seen.ended() == 130, seen.text
    finally:
        if phase == "starting":
            worker.delete(PODS, "in-the-way", "default")
    assert seen.last_line == f"# {name}: cancelled and deleted"
    no_orphan(fleet, name)


def test_the_line_says_how_many_are_before_a_job_and_follows_as_they_go(fleet: Path, project: Path) -> None:
    def submitted(name: str, *options: str) -> Terminal:
        return terminal(fleet, project, *options, "--name", name, "--cpus", "2", "wait.py")

    before = ["runs", "first", "second"]
    for name in before:
        with submitted(name, "submit") as one:
            assert one.ended() == 0, one.text
    try:
        with submitted("last", "run") as seen:
            seen.until("last: queued in user-queue, 2 before it")
            for name, words in (("second", "1 before it"), ("first", "the next")):
                client(fleet).delete(JOBS, name, "default")
                seen.until(f"last: queued in user-queue, {words}")
            seen.press(CTRL_C)
            assert seen.ended() == 130, seen.text
    finally:
        for name in set(before) & set(jobs(fleet)):
            client(fleet).delete(JOBS, name, "default")
    no_orphan(fleet, "last")


def test_interrupted_after_its_end_it_stays_to_be_looked_at(fleet: Path, project: Path) -> None:
    patch = f"{STILL.format(what='reading now')}\nfrom corral.cli.log_streams import Streams\nStreams.join = still"
    with terminal(fleet, project, "run", "--name", "over", "train.py", "0", patch=patch) as seen:
        seen.until("reading now")
        seen.press(CTRL_C)
        assert seen.ended() == 130, seen.text
    assert seen.last_line == "# over: succeeded; the end of its log was not waited for"
    assert "over" in jobs(fleet)


def test_a_terminal_that_is_closed_ends_what_was_run_in_it(fleet: Path, project: Path) -> None:
    with terminal(fleet, project, "run", "--name", "closed", "--cpus", "500m", "wait.py") as seen:
        seen.until("begun")
        seen.hang_up()
    eventually(lambda: "closed" not in jobs(fleet))
    no_orphan(fleet, "closed")


def test_what_was_submitted_goes_on_without_who_followed_it(fleet: Path, project: Path) -> None:
    with terminal(fleet, project, "submit", "-f", "--name", "goes", "--cpus", "500m", "wait.py") as seen:
        seen.until("begun")
        seen.press(CTRL_C)
        assert seen.ended() == 130, seen.text
    assert seen.last_line == "# goes goes on; `corral logs -f job/goes` shows it again"
    assert status_of(client(fleet).get(JOBS, "goes", "default")).get("active") == 1
    try:
        with terminal(fleet, project, "logs", "-f", "job/goes") as again:
            again.until("begun")
            again.press(CTRL_C)
            assert again.ended() == 130
    finally:
        client(fleet).delete(JOBS, "goes", "default")


@pytest.mark.parametrize(
    ("command", "shows"), [("get configmaps", "kube-root-ca"), ("queue list", "cluster-queue"), ("status", "ready")]
)
def test_a_watch_goes_on_until_it_is_interrupted(fleet: Path, project: Path, command: str, shows: str) -> None:
    with terminal(fleet, project, *command.split(), "--watch") as seen:
        seen.until(shows)
        seen.press(CTRL_C)
        assert seen.ended() == 130, seen.text
    assert "Traceback" not in seen.text


def test_a_watch_shows_what_changes(fleet: Path, project: Path) -> None:
    manager = client(fleet)
    with terminal(fleet, project, "get", "configmaps", "--watch") as seen:
        seen.until("kube-root-ca.crt")
        manager.create(CONFIG_MAPS, {"metadata": {"name": "brand-new", "namespace": "default"}})
        seen.until("brand-new")
    manager.delete(CONFIG_MAPS, "brand-new", "default")


def test_colours_are_for_terminals_whose_owner_wants_them(fleet: Path, project: Path) -> None:
    with terminal(fleet, project, "status") as colourful:
        assert colourful.ended() == 0
    assert "\x1b[32mready\x1b[0m" in colourful.shown
    for without in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        with terminal(fleet, project, "status", **without) as plain:
            assert plain.ended() == 0
        assert "\x1b[" not in plain.shown
        assert plain.text == colourful.text or "ready" in plain.text


def test_a_shell_in_a_pod_has_this_terminal(fleet: Path, project: Path) -> None:
    with terminal(fleet, project, "submit", "--name", "shelled", "--cpus", "500m", "wait.py") as submitted:
        assert submitted.ended() == 0, submitted.text
    try:
        eventually(lambda: status_of(client(fleet).get(JOBS, "shelled", "default")).get("ready"))
        with terminal(fleet, project, "exec", "-it", "job/shelled", "--", "sh") as shell:
            shell.press("echo $((6 * 7)) words; stty size\r")
            shell.until("42 words")
            shell.until(f"{ROWS} {COLUMNS}")
            shell.press("sh -c 'echo asle''ep; exec sleep 3000'\r")
            shell.until("asleep")
            shell.press(CTRL_C)
            shell.press("echo still $((1 + 1)) here\r")
            shell.until("still 2 here")
            shell.press("exit 9\r")
            assert shell.ended() == 9, shell.text
    finally:
        client(fleet).delete(JOBS, "shelled", "default")


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_a_shell_completes_commands_and_jobs(fleet: Path, project: Path) -> None:
    programs = project / "bin"
    programs.mkdir()
    (programs / "corral").write_text(f'#!/bin/sh\nexec {sys.executable} -m corral "$@"\n')
    (programs / "corral").chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "KUBECONFIG": str(fleet / "kubeconfig")}
    environment |= {"PS1": "> ", "INPUTRC": "/dev/null", "HISTFILE": "/dev/null"}
    with Terminal(["bash", "--norc", "--noprofile", "-i"], environment=environment, folder=project) as shell:
        shell.press('eval "$(corral completion bash)"; echo loa""ded\r')
        shell.until("loaded")
        shell.press("corral versi\t")
        shell.until("corral version")
        shell.press("\x15corral get jobs --context corral-wor\t")
        shell.until("--context corral-worker1")
        shell.press("\x15exit\r")
        shell.ended()
