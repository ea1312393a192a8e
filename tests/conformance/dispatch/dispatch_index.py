"""Writes SCENARIOS.md of dispatch, as `tests/conformance/queueing/index.py` does for queueing.

python tests/conformance/dispatch/dispatch_index.py LIST
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "queueing"))

import index

HERE = Path(__file__).parent
OUTPUT = HERE / "SCENARIOS.md"
CLAIMS = HERE / "scenarios.toml"
FOLDERS = (
    "tests/conformance/dispatch",
    "tests/conformance/test_job_adapters.py",
    "tests/conformance/test_managed_by.py",
    "tests/conformance/test_replay_multikueue.py",
    "tests/simulation/dispatch",
    "tests/simulation/jobs",
    "tests/simulation/queueing/test_elastic.py",
    "tests/unit/controllers/dispatch",
    "tests/unit/decide/dispatch",
    "tests/unit/jobs/framework",
)
CHAPTERS = tuple(f"9.{number}" for number in range(19, 26))


if __name__ == "__main__":
    chapters = index.read_list(Path(sys.argv[1]).read_text(), CHAPTERS)
    index.write(chapters, index.collect(FOLDERS), index.read_claims(CLAIMS.read_text()), OUTPUT)
