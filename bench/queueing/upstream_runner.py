"""Kueue's own performance runner against Corral, and beside it against Kueue where the binaries are there.

    python bench/queueing/upstream_runner.py [baseline|large-scale|tas ...] [--only corral|kueue] [--timeout 30m] [--generator FILE]

All three unless some are named; `python -m bench kueue-runner` is the same.
The runner is built from Kueue's Go module (kept in the cache folder). For Corral it gets the kubeconfig of one cluster that
`corral up --workers 0 --bare --simulated` started; for Kueue it starts its own kube-apiserver and etcd (KUBE_TOOLS) with its
minimal manager. The same generator configuration creates the load for both. Prints the runner's summaries one after the other.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.differential.kueue import programs_folder, source

CORRAL = Path(sys.executable).with_name("corral")
PACKAGES = ("./test/performance/scheduler/runner", "./test/performance/scheduler/minimalkueue")
REQUESTS_PER_SECOND, BURST = "1000", "2000"
RUNS = ("baseline", "large-scale", "tas")
SCALE = "test/performance/scheduler/configs"


def build() -> Path:
    """The folder with runner and minimalkueue."""
    folder = programs_folder()
    folder.mkdir(parents=True, exist_ok=True)
    if not all((folder / Path(package).name).exists() for package in PACKAGES):
        environment = {**os.environ, "GOFLAGS": "-buildvcs=false -mod=mod"}
        subprocess.run(["go", "build", "-o", f"{folder}/", *PACKAGES], check=True, cwd=source(), env=environment)
    return folder


def run(generator: Path, output: Path, more: list[str], environment: dict[str, str], timeout: str) -> bool:
    """One run of the runner, and what it found; whether it came to its end."""
    command = [str(build() / "runner"), "-o", str(output), "--generatorConfig", str(generator), "--timeout", timeout]
    command += ["--qps", REQUESTS_PER_SECOND, "--burst", BURST, "--zap-log-level", "error", *more]
    started = time.monotonic()
    ended = subprocess.run(command, env={**os.environ, **environment})
    print(f"ended with {ended.returncode} after {time.monotonic() - started:.1f} s", flush=True)
    summary = output / "summary.yaml"
    if summary.exists():
        print(summary.read_text(), flush=True)
    return ended.returncode == 0 and summary.exists()


def with_corral(name: str, generator: Path, timeout: str) -> bool:
    with tempfile.TemporaryDirectory(prefix="corral-runner-") as folder:
        state, output = Path(folder) / "state", Path(folder) / "out"
        output.mkdir()
        up: list[str | Path] = [CORRAL, "up", "--workers", "0", "--bare", "--simulated", "--state", state]
        subprocess.run(up, check=True, stdout=subprocess.DEVNULL)
        try:
            print(f"== {name}, Corral")
            kubeconfig = next((state / "clusters").glob("*/admin.kubeconfig"))
            return run(generator, output, [], {"KUBECONFIG": str(kubeconfig)}, timeout)
        finally:
            subprocess.run([CORRAL, "down", "--state", state], check=True, stdout=subprocess.DEVNULL)


def with_kueue(name: str, generator: Path, timeout: str) -> bool:
    assets = os.environ.get("KUBEBUILDER_ASSETS") or os.environ.get("KUBE_TOOLS")
    if not assets or not (Path(assets) / "kube-apiserver").exists():
        print("== Kueue is left out: needs kube-apiserver and etcd (run `make kube-tools` and set KUBE_TOOLS)")
        return True
    with tempfile.TemporaryDirectory(prefix="corral-runner-") as output:
        print(f"== {name}, Kueue")
        crds = source() / "config" / "components" / "crd" / "bases"
        more = ["--crds", str(crds), "--minimalKueue", str(build() / "minimalkueue")]
        more += ["--enableTAS"] if name == "tas" else []
        return run(generator, Path(output), more, {"KUBEBUILDER_ASSETS": assets}, timeout)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(RUNS)}; all when none is named")
    options.add_argument("--only", choices=("corral", "kueue"))
    options.add_argument("--timeout", default="30m", help="the longest the runner may record")
    options.add_argument("--generator", type=Path, help="another generator configuration than upstream's")
    chosen = options.parse_args()
    if unknown := sorted({*chosen.names} - {*RUNS}):
        options.error(f"no run {unknown[0]!r}; there are {', '.join(RUNS)}")
    if shutil.which("go") is None:
        print("left out: needs Go to build Kueue's runner")
        return 0
    ended = True
    for name in chosen.names or RUNS:
        generator = (chosen.generator or source() / SCALE / name / "generator.yaml").resolve()
        if chosen.only != "kueue":
            ended &= with_corral(name, generator, chosen.timeout)
        if chosen.only != "corral":
            ended &= with_kueue(name, generator, chosen.timeout)
    return 0 if ended else 1


if __name__ == "__main__":
    sys.exit(main())
