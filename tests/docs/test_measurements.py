"""What the page of measurements and the notices say is what the scripts and the build do."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from bench.dispatch.run import TARGET_ADMITTED_MS, TARGET_RATES
from bench.spread import spread
from tools.acceptance.__main__ import SUITES, binary_of
from tools.build_schemas import RELEASE
from tools.build_types import RELEASE as TYPES

ROOT = Path(__file__).parents[2]
RESULTS = (ROOT / "bench" / "RESULTS.md").read_text()
NOTICE = (ROOT / "NOTICE").read_text()


def test_the_targets_of_dispatch_are_those_of_its_script() -> None:
    assert f"p99 <= {TARGET_ADMITTED_MS} ms" in RESULTS
    assert f">= {TARGET_RATES[3, False]} on 2 cores, >= {TARGET_RATES[3, True]} on 16" in RESULTS
    assert f">= {TARGET_RATES[40, True]} at 40 on 16 cores" in RESULTS


def test_few_values_have_a_slowest_and_no_p99() -> None:
    assert spread([0.001, 0.002, 0.1], "ms", 1000) == "p50 2.0 ms, slowest of 3 100.0 ms"
    assert spread(range(1, 301), "s", digits=0) == "p50 151 s, p99 298 s"


def test_the_page_calls_nothing_a_p99_that_is_the_slowest_of_a_few() -> None:
    rows = [line for line in RESULTS.splitlines() if line.startswith("|") and "slowest" in line.split("|")[1]]
    assert rows
    assert all("slowest of" in row for row in rows)


def test_every_version_of_a_suite_is_a_program_of_its_own(tmp_path: Path) -> None:
    suite = SUITES["kueue-single"]
    newer = replace(suite, module="sigs.k8s.io/kueue@v0.20.0")
    assert binary_of("kueue-single", suite, tmp_path) != binary_of("kueue-single", newer, tmp_path)
    assert binary_of("kueue-single-real", suite, tmp_path) == binary_of("kueue-single", suite, tmp_path)


def test_the_notice_names_the_releases_that_are_built_in() -> None:
    (validator,) = re.findall(r"kubernetes-validate==([\d.]+)", (ROOT / "pyproject.toml").read_text())
    for named in (f"Kubernetes {RELEASE} ", f"kubernetes-validate {validator} ", f"v0.{TYPES}", f"v1.{TYPES}"):
        assert named in NOTICE
    for path in re.findall(r"(?:src|tests/data|examples)/[\w/.-]*\w", NOTICE):
        assert list(ROOT.glob(path)) or list(ROOT.glob(f"{path}*")), path
