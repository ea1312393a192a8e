"""`corral run` and `corral submit` as a person types them: a folder with a script, a fleet, nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.started import PATIENCE_S, client, eventually, started

from corral.core.meta import name_of
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.framework.registry import submission_makers
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SCRIPT = """import os, sys, helper
print("arguments", sys.argv[1:], os.environ.get("LR"), helper.WORD)
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with started(tmp_path_factory.mktemp("fleet"), "--workers", "1", "--cpu", "4", "--memory", "8Gi") as state:
        yield state


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "helper.py").write_text("WORD = 'helped'\n")
    return tmp_path


def typed(fleet: Path, project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "corral.cli.main", *words]
    environment = {**os.environ, "KUBECONFIG": str(fleet / "kubeconfig")}
    return subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


@pytest.mark.parametrize("code", [0, 7])
def test_a_script_runs_on_a_worker_with_its_folder_and_ends_with_its_exit_code(
    fleet: Path, project: Path, code: int
) -> None:
    done = typed(fleet, project, "run", "--env", "LR=3e-4", "train.py", str(code), "--flag")
    assert done.returncode == code, done.stderr
    assert f"arguments ['{code}', '--flag'] 3e-4 helped" in done.stdout
    assert "on worker1" in done.stderr
    assert ("succeeded" if code == 0 else "failed with exit code 7") in done.stderr


@pytest.mark.parametrize("kind", sorted(submission_makers()))
def test_every_kind_is_submitted_and_told_what_waiting_does_not_cure(fleet: Path, project: Path, kind: str) -> None:
    made = typed(
        fleet, project, "submit", "--kind", kind, "--workers", "2", "--cpus", "100", "--name", f"a-{kind}", "train.py"
    )
    assert made.returncode == 0, made.stderr
    target = made.stdout.strip()
    assert target.endswith(f"/a-{kind}")
    eventually(lambda: "-> It asks for more than there can ever be" in typed(fleet, project, "explain", target).stdout)
    assert typed(fleet, project, "delete", target).returncode == 0


def test_what_is_asked_for_in_vain_is_said_first(fleet: Path, project: Path) -> None:
    said = typed(
        fleet, project, "submit", "--cpus", "100", "--image", "a/b:c", "--dry-run", "train.py"
    ).stderr.splitlines()
    assert said[0].startswith(
        "# all its pods together ask for 100 cpu, and the largest worker has 4 cpu: it will not start"
    )
    assert "where pods are processes, this machine's own programs run" in said[1]
    for words, why in (
        (("--python", "python3", "echo"), "--python has no effect: echo is no Python script"),
        (("--gpu-resource", "amd.com/gpu", "train.py"), "--gpu-resource amd.com/gpu has no effect without --gpus"),
        (("--no-code", "--workdir", ".", "echo"), "--no-code sends none"),
    ):
        done = typed(fleet, project, "run", *words)
        assert done.returncode > 0
        assert why in done.stderr


def test_in_place_it_runs_in_the_folder_and_what_it_writes_stays(fleet: Path, project: Path) -> None:
    (project / "write.py").write_text("from pathlib import Path\nPath('model.txt').write_text('learned')\n")
    (project / "large.bin").write_bytes(os.urandom(9 * 2**20))  # more than can travel
    done = typed(fleet, project, "run", "--in-place", "write.py")
    assert done.returncode == 0, done.stderr
    assert (project / "model.txt").read_text() == "learned"


def test_what_is_asked_for_is_brought_back_however_the_program_ends_and_nothing_else(
    fleet: Path, project: Path
) -> None:
    (project / "write.py").write_text(
        "import os, sys\nos.makedirs('out put/deep')\nopen('out put/deep/plot.svg', 'w').write('drawn')\n"
        "for name in ('a.pt', 'b.pt', 'scratch'): open(name, 'w').write(name)\nopen('a.pt', 'w').write('learned')\nsys.exit(3)\n"
    )
    (project / "a.pt").write_text("older")
    (project / "scratch").write_text("mine")
    words = ("--name", "writes", "--fetch", "*.pt", "--fetch", "out put", "--fetch", "never", "write.py")
    done = typed(fleet, project, "run", *words)
    assert done.returncode == 3, done.stderr
    assert "# never was not fetched: the program wrote no such thing" in done.stderr
    assert done.stderr.count("not fetched") == 1
    written = {
        path.name: path.read_text()
        for path in project.rglob("*")
        if path.suffix in (".pt", ".svg", "") and path.is_file()
    }
    assert written == {"a.pt": "learned", "b.pt": "b.pt", "plot.svg": "drawn", "scratch": "mine"}
    assert (project / "out put" / "deep" / "plot.svg").exists()
    late = typed(fleet, project, "cp", "job/writes:/workspace/scratch", "late")
    assert late.returncode == 1
    assert "its files went with it: `corral run --fetch PATH` brings them back" in late.stderr


@pytest.mark.parametrize("kind", sorted(submission_makers()))
def test_what_a_job_of_any_kind_wrote_is_there_when_it_has_ended_and_nobody_followed(
    fleet: Path, project: Path, kind: str
) -> None:
    (project / "write.py").write_text("open('model.txt', 'w').write('learned')\n")
    words = ("--kind", kind, "--cpus", "100m", "--fetch", "model.txt", "write.py")
    target = typed(fleet, project, "submit", *words).stdout.strip()
    waited = typed(fleet, project, "wait", target)
    if waited.returncode:  # its own launcher is not installed here, which has to be said and must not hold it up
        why = typed(fleet, project, "explain", target).stdout
        assert ('exec: "mpirun": executable file not found' in why) or ("Ray is not installed" in why), waited.stderr
        return
    assert (project / "model.txt").read_text() == "learned"


def test_names_and_arguments_arrive_as_they_were_typed(fleet: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mein Projekt ü"
    (folder / "src" / "übung").mkdir(parents=True)
    (folder / "data").mkdir()
    (folder / "data" / "zahlen 1.csv").write_text("1,2\n")
    (folder / "src" / "übung" / "hilfe.py").write_text("WORT = 'geübt'\n")
    (folder / "lern modell.py").write_text(
        "import json, sys\nsys.path.insert(0, 'src')\nfrom übung.hilfe import WORT\n"
        "print(json.dumps([WORT, open('data/zahlen 1.csv').read(), *sys.argv[1:]], ensure_ascii=False))\n"
    )
    words = ["two words", "", "$HOME $(echo no) `no` \\ \"q\" 'q'", "ä=✓", "--gpus", "-o", "*"]
    done = typed(fleet, folder, "run", "--env", "GREETING=guten Tag ✓", "lern modell.py", *words)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == ["geübt", "1,2\n", *words]
    program = "import os, sys; print(os.environ['GREETING'], sys.argv[1:])"
    done = typed(fleet, folder, "run", "--env", "GREETING=guten Tag ✓", "python3", "-c", program, "a b")
    assert "guten Tag ✓ ['a b']" in done.stdout, done.stderr


def test_what_the_program_did_not_write_stays_as_it_is_here(fleet: Path, project: Path) -> None:
    (project / "write.py").write_text("open('made.txt', 'w').write('made')\nopen('.hidden', 'w').write('too')\n")
    project.chmod(0o750)
    before = {path.name: path.stat().st_mtime_ns for path in project.iterdir()}
    done = typed(fleet, project, "run", "--fetch", ".", "write.py")
    assert done.returncode == 0, done.stderr
    assert {path.name for path in project.iterdir()} == {*before, "made.txt", ".hidden"}
    assert {name: (project / name).stat().st_mtime_ns for name in before} == before
    assert project.stat().st_mode & 0o777 == 0o750


def test_what_was_written_before_a_job_was_cancelled_is_brought_back(fleet: Path, project: Path) -> None:
    (project / "slow.py").write_text(
        "import time\nopen('half.txt', 'w').write('half')\nprint('written', flush=True)\ntime.sleep(600)\n"
    )
    target = typed(fleet, project, "submit", "--fetch", "half.txt", "slow.py").stdout.strip()
    eventually(lambda: "written" in typed(fleet, project, "logs", target).stdout)
    assert typed(fleet, project, "cancel", target).returncode == 0
    assert eventually((project / "half.txt").exists)


@pytest.fixture
def environment() -> Iterator[Path]:
    """A folder with an environment of its own, where pods see it: each has a /tmp for itself."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        beside = Path(folder) / ".venv" / "bin"
        beside.mkdir(parents=True)
        (beside / "python").symlink_to(sys.executable)
        yield Path(folder)


def test_programs_of_the_environment_are_found_by_their_names_also_by_what_a_job_starts(
    fleet: Path, environment: Path
) -> None:
    beside = environment / ".venv" / "bin"
    (beside / "my-launcher").write_text("#!/bin/sh\necho launched $(command -v python)\n")
    (beside / "my-launcher").chmod(0o755)
    (environment / "go.sh").write_text("my-launcher\necho unbuffered $PYTHONUNBUFFERED\n")
    for words in (("my-launcher",), ("go.sh",)):
        done = typed(fleet, environment, "run", *words)
        assert f"launched {beside / 'python'}" in done.stdout, done.stderr
    assert "unbuffered 1" in done.stdout  # what it prints is seen at once, also of a Python that it starts


@pytest.mark.parametrize("kind", sorted(submission_makers()))
def test_a_job_of_every_kind_is_described_cancelled_retried_and_deleted(fleet: Path, project: Path, kind: str) -> None:
    typed(fleet, project, "queue", "stop", "lq/user-queue", "--keep-already-running")
    try:
        words = ("--kind", kind, "--cpus", "100m", "--name", f"life-{kind}", "train.py", "0")
        target = typed(fleet, project, "submit", *words).stdout.strip()
        eventually(lambda: "is stopped" in typed(fleet, project, "explain", target).stdout)
        assert f"life-{kind}" in typed(fleet, project, "describe", target).stdout
        assert "cancelled" in typed(fleet, project, "cancel", target).stdout
        again = typed(fleet, project, "retry", target)
        assert again.returncode == 0, again.stderr
        assert f"life-{kind}-2" in again.stdout
        for name in (target, f"{target}-2"):
            assert typed(fleet, project, "delete", name).returncode == 0
            assert typed(fleet, project, "get", name).returncode == 1
    finally:
        typed(fleet, project, "queue", "resume", "lq/user-queue")


def test_a_module_is_run_as_python_runs_it(fleet: Path, project: Path) -> None:
    done = typed(fleet, project, "run", "--env", "LR=1", "-m", "train", "0", "--flag")
    assert done.returncode == 0, done.stderr
    assert "arguments ['0', '--flag'] 1 helped" in done.stdout


def test_a_misspelt_option_is_not_taken_for_the_program(fleet: Path, project: Path) -> None:
    done = typed(fleet, project, "run", "--gpu", "1", "train.py", "0")
    assert done.returncode == 2
    assert "No such option '--gpu'" in done.stderr
    assert "--gpus" in done.stderr


def test_one_that_takes_more_memory_than_it_asked_for_is_ended(fleet: Path, project: Path) -> None:
    (project / "greedy.py").write_text("held = []\nwhile True:\n    held.append(bytearray(10**7))\n")
    done = typed(fleet, project, "run", "--memory", "100Mi", "greedy.py")
    assert done.returncode == 137
    assert "OOMKilled" in done.stderr


@pytest.mark.parametrize(("command", "stays"), [(["run"], False), (["submit", "-f"], True)], ids=["run", "submit"])
def test_behind_head_a_job_that_is_run_ends_and_one_that_was_submitted_goes_on(
    fleet: Path, project: Path, command: list[str], stays: bool
) -> None:
    (project / "talk.py").write_text("while True:\n    print('x' * 1000)\n")
    name = f"talks-{command[0]}"
    words = [sys.executable, "-m", "corral.cli.main", *command, "--name", name, "talk.py"]
    environment = {**os.environ, "KUBECONFIG": str(fleet / "kubeconfig")}
    with subprocess.Popen(
        words, cwd=project, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("xxx")
        process.stdout.close()
        told = process.stderr.read()
        process.wait(PATIENCE_S)
    there = name in [name_of(job) for job in client(fleet).list(JOBS, "default")["items"]]
    if there:
        client(fleet).delete(JOBS, name, "default")
    assert "Traceback" not in told
    assert (f"# {name} goes on" in told) is stays
    assert there is stays


def test_the_folder_goes_when_its_job_goes(fleet: Path, project: Path) -> None:
    (project / "only-here.txt").write_text("x")
    done = typed(fleet, project, "submit", "--name", "leaves", "train.py", "0")
    assert done.stdout == "job/leaves\n", done.stderr
    manager = client(fleet)
    job = manager.get(JOBS, "leaves", "default")
    (sent,) = [
        name_of(found)
        for found in manager.list(CONFIG_MAPS, "default")["items"]
        if any(owner["uid"] == job["metadata"]["uid"] for owner in found["metadata"].get("ownerReferences", ()))
    ]
    manager.delete(JOBS, "leaves", "default")
    eventually(lambda: sent not in [name_of(found) for found in manager.list(CONFIG_MAPS, "default")["items"]])


def wheel(folder: Path) -> str:
    """A package that can be installed without asking anybody for it."""
    name = "tiny-1.0-py3-none-any.whl"
    about = "tiny-1.0.dist-info"
    with zipfile.ZipFile(folder / name, "w") as archive:
        archive.writestr("tiny.py", "WORD = 'installed'\n")
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    return name


def test_what_a_script_requires_is_installed_for_it_alone(fleet: Path, project: Path) -> None:
    (project / "requirements.txt").write_text(f"./{wheel(project)}\n")
    (project / "uses.py").write_text("import sys, tiny\nprint(tiny.WORD, sys.argv[1:])\n")
    done = typed(
        fleet, project, "run", "--python", sys.executable, "--requirements", "requirements.txt",
        "uses.py", "--", "--lr", "1",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "installed ['--lr', '1']" in done.stdout


def test_what_cannot_be_installed_is_said_by_explain(fleet: Path, project: Path) -> None:
    (project / "requirements.txt").write_text("./nowhere-1.0-py3-none-any.whl\n")
    done = typed(
        fleet, project, "run", "--python", sys.executable, "--requirements", "requirements.txt",
        "--name", "lacks", "train.py", "0",
    )  # fmt: skip
    assert done.returncode != 0
    assert "nowhere-1.0" in done.stdout
    assert "nowhere-1.0" in typed(fleet, project, "explain", "job/lacks").stdout


def test_many_jobs_are_one_command(fleet: Path, project: Path) -> None:
    (project / "lines.txt").write_text("0 first   # comment\n\n0 'second word'\n")
    done = typed(fleet, project, "submit", "--map", "lines.txt", "--name", "lines", "--cpus", "100m", "train.py")
    assert done.stdout == "job/lines-0\njob/lines-1\n", done.stderr
    assert "arguments ['0', 'second word'] None helped" in typed(fleet, project, "logs", "-f", "job/lines-1").stdout
    done = typed(fleet, project, "submit", "--count", "3", "--name", "counted", "--cpus", "100m", "train.py", "0")
    assert done.stdout.split() == ["job/counted-0", "job/counted-1", "job/counted-2"]
    assert typed(fleet, project, "wait", *done.stdout.split()).returncode == 0


def test_many_jobs_that_are_refused_leave_nothing_behind(fleet: Path, project: Path) -> None:
    (project / "only-in-this-test.txt").write_text("x")
    before = len(client(fleet).list(CONFIG_MAPS, "default")["items"])
    done = typed(fleet, project, "submit", "--count", "3", "--gpus", "1", "--gpu-resource", "no name", "train.py", "0")
    assert done.returncode == 1
    assert "0 of 3 jobs were created, then: " in done.stderr
    assert len(client(fleet).list(CONFIG_MAPS, "default")["items"]) <= before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["missing.py"], "there is no missing.py in"),
        (["--queue", "nobody", "train.py"], "there is no queue nobody in namespace default; there are user-queue"),
        (
            ["--kind", "sparkling", "train.py"],
            "there is no kind 'sparkling'; there are jax, job, jobset, mpi, pytorch, ray",
        ),
        (["--env", "LR", "train.py"], "--env LR: write NAME=VALUE"),
        (["--memory", "4GB", "train.py"], "memory '4GB' is no amount; did you mean 4Gi?"),
        (["--count", "2", "--memory", "4GB", "train.py"], "memory '4GB' is no amount; did you mean 4Gi?"),
        (
            ["--priority", "urgent", "train.py"],
            'workloadpriorityclasses.kueue.x-k8s.io "urgent" not found; there are no',
        ),
        (["-n", "nowhere", "train.py"], "there is no namespace nowhere; there are default, "),
        (["--python", "/nowhere/python", "train.py"], "there is no Python at /nowhere/python"),
        (["--requirements", "missing.txt", "train.py"], "there is no missing.txt in"),
        (["--requirements", "helper.py", "--no-code", "train.py"], "helper.py goes with the folder"),
    ],
)
def test_what_cannot_be_submitted_is_a_sentence_and_leaves_nothing_behind(
    fleet: Path, project: Path, words: list[str], says: str
) -> None:
    before = len(client(fleet).list(CONFIG_MAPS, "default")["items"])
    done = typed(fleet, project, "submit", *words)
    assert done.returncode == 1
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert len(client(fleet).list(CONFIG_MAPS, "default")["items"]) <= before


def test_a_dry_run_prints_the_object_and_creates_nothing(fleet: Path, project: Path) -> None:
    done = typed(
        fleet,
        project,
        "submit",
        "--dry-run",
        "-o",
        "yaml",
        "--name",
        "dry",
        "--kind",
        "pytorch",
        "--workers",
        "2",
        "train.py",
        "größer",
    )
    assert "kind: PyTorchJob" in done.stdout
    assert "- größer" in done.stdout
    assert "&id" not in done.stdout
    assert "replicas: 1" in done.stdout
    assert "dry" not in [name_of(job) for job in client(fleet).list(JOBS, "default")["items"]]
