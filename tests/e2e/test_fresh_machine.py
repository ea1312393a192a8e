"""A machine that has never seen Corral: Python, a wheel, a home of its own, no kubectl and no checkout; from installing to a result."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest
from tests.e2e.started import ROOT
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

SCRIPT = """import sys
print("training with", sys.argv[1:])
open("model.txt", "w").write("learned")
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make dist` makes."""
    folder = tmp_path_factory.mktemp("dist")
    pytest.importorskip("hatchling", reason="hatchling is not installed; `make install` brings it")
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=PATIENCE_S)
    return folder


def needed(distribution: str, found: dict[str, metadata.Distribution]) -> None:
    """Put a distribution and everything it needs without extras into `found`."""
    one = metadata.distribution(distribution)
    if one.metadata["Name"] in found:
        return
    found[one.metadata["Name"]] = one
    for requirement in one.requires or ():
        name, _, marker = requirement.partition(";")
        if "extra" not in marker and "win32" not in marker:
            word = re.match(r"[A-Za-z0-9._-]+", name)
            assert word is not None
            try:
                needed(word[0], found)
            except metadata.PackageNotFoundError:
                assert marker, f"{requirement} is needed and not installed here"


@dataclass(frozen=True)
class Machine:
    """A home, a path without kubectl, and an environment with nothing but what the wheel asks for."""

    home: Path
    work: Path

    @property
    def python(self) -> Path:
        return self.home / "venv" / "bin" / "python"

    def typed(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        path = f"{self.home / 'venv' / 'bin'}:{self.home / 'programs'}"
        environment = {"HOME": str(self.home), "PATH": path, "LANG": "C.UTF-8"}
        done = subprocess.run(
            words, cwd=self.work, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode == code, f"{words}: {done.stdout}{done.stderr}"
        return done


@pytest.fixture(scope="module")
def machine(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    home = tmp_path_factory.mktemp("home")
    made = Machine(home, home / "project")
    made.work.mkdir()
    (home / "programs").mkdir()
    for folder in ("/usr/bin", "/bin"):
        for program in Path(folder).iterdir():
            link = home / "programs" / program.name
            if not program.name.startswith(("kubectl", "python", "corral")) and not link.exists():
                link.symlink_to(program)
    venv.create(home / "venv", with_pip=True, symlinks=True)
    (site,) = (home / "venv" / "lib").glob("python*/site-packages")
    _bring_dependencies(next(built.glob("*.whl")), site)
    yield made
    if (home / ".corral").exists():
        made.typed("corral", "down")


def _bring_dependencies(wheel: Path, site: Path) -> None:
    """What the network would bring: the distributions the wheel names, as they are installed here."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [one for one in archive.namelist() if one.endswith(".dist-info/METADATA")]
        described = metadata.PathDistribution(zipfile.Path(wheel, name.rpartition("/")[0] + "/"))
        requirements = [one for one in described.requires or () if "extra ==" not in one]
    found: dict[str, metadata.Distribution] = {}
    for requirement in requirements:
        word = re.match(r"[A-Za-z0-9._-]+", requirement)
        assert word is not None
        needed(word[0], found)
    for one in found.values():
        for top in {file.parts[0] for file in one.files or () if file.parts[0] not in ("..", "__pycache__")}:
            if not (site / top).exists():
                (site / top).symlink_to(Path(str(one.locate_file(top))))


def test_both_distributions_have_everything_in_them(built: Path) -> None:
    (wheel,), (source,) = built.glob("corral_queue-*.whl"), built.glob("corral_queue-*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    examples = {f"corral/examples/{one.relative_to(ROOT / 'examples')}" for one in (ROOT / "examples").rglob("*.yaml")}
    assert examples <= set(names)
    assert "corral/examples/train.py" in names
    assert [name for name in names if name.startswith("corral/kinds/data/kubernetes-") and name.endswith(".json.gz")]
    assert "corral/dashboard/page.html" in names
    assert not [name for name in names if name.startswith(("tests/", "bench/", "tools/"))]
    with tarfile.open(source) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "tools/build_schemas.py", "examples/job.yaml", "README.md", "LICENSE"} <= inside


def test_from_installing_to_a_result(machine: Machine, built: Path) -> None:
    assert shutil.which("kubectl", path=str(machine.home / "programs")) is None
    (wheel,) = built.glob("*.whl")
    machine.typed(str(machine.python), "-m", "pip", "install", "--quiet", "--no-index", str(wheel))
    where = machine.typed(str(machine.python), "-c", "import corral; print(corral.__file__)").stdout
    assert where.startswith(str(machine.home))

    (machine.work / "train.py").write_text(SCRIPT)
    assert "corral run train.py" in machine.typed("corral", "up").stdout
    ran = machine.typed("corral", "run", "train.py", "--lr", "3e-4")
    assert "training with ['--lr', '3e-4']" in ran.stdout
    assert "succeeded" in ran.stderr
    name = next(word for word in ran.stderr.split() if word.startswith("job/"))
    assert "training with ['--lr', '3e-4']" in machine.typed("corral", "logs", name).stdout
    assert "Finished (Succeeded)" in machine.typed("corral", "explain", name).stdout
    assert "cluster manager is ready" in machine.typed("corral", "doctor", "-v").stdout

    machine.typed("corral", "examples", "copy")
    applied = machine.typed("corral", "apply", "-f", "examples/job.yaml").stdout.split()[0]
    assert "step 3 on hello-" in machine.typed("corral", "logs", "-f", applied).stdout
    assert machine.typed("corral", "down").stdout.startswith("Stopped 3 clusters.")
    assert {path.name for path in machine.work.iterdir()} == {"train.py", "examples"}
