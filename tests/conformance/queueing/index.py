"""Writes SCENARIOS.md: which of upstream's scenarios is which test of ours, which does not apply, and which is open.

    python tests/conformance/queueing/index.py LIST

LIST is the scenario list: chapters as `### 9.1 Title`, scenarios as `- SCH-01 sentence`. A scenario is matched to a test
whose id has its number in it, else to one whose id is its sentence; `scenarios.toml` has the others, and the reasons
why some do not apply. Sentences stay in LIST.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
OUTPUT = HERE / "SCENARIOS.md"
FOLDERS = (
    "tests/conformance/queueing",
    "tests/conformance/queueing_crd",
    "tests/simulation/queueing",
    "tests/unit/controllers/queueing",
    "tests/unit/decide/queueing",
    "tests/unit/workload",
    "tests/property/test_queueing_state.py",
    "tests/property/test_queueing_topology.py",
)
CHAPTERS = (*(f"9.{number}" for number in range(1, 19)), "9.26")
# Where a test whose id is a scenario's sentence is looked for.
SENTENCES = {
    "SCH": ("test_schedule.py",),
    "SFS": ("test_schedule_fair.py",),
    "PRE": ("test_preemption_classical.py", "test_policy.py"),
    "HPR": ("test_preemption_hierarchical.py",),
    "FPR": ("test_preemption_fair.py",),
    "POL": ("test_policy.py",),
    "FLV": ("test_flavor_assigner.py",),
    "DRS": ("test_shares.py",),
    "QUE": ("test_queue_manager.py",),
    "RES": ("test_queueing_workload.py",),
}
NUMBER = re.compile(r"\b[A-Z]{3}-\d+\b")


@dataclass
class Chapter:
    """A chapter of the list: sentences by scenario number."""

    title: str
    scenarios: dict[str, str] = field(default_factory=dict)


@dataclass
class Claims:
    """What cannot be read off test ids."""

    tests: dict[str, str]
    reasons: dict[str, str]


def collect(folders: Iterable[str] = FOLDERS) -> list[str]:
    """Ids of the tests that may show a scenario, as pytest names them."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:randomly", *folders]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return sorted(line.removeprefix("tests/") for line in found if "::" in line)


def read_list(text: str, numbers: Container[str] = CHAPTERS) -> list[Chapter]:
    chapters: list[Chapter] = []
    wanted = False
    for line in text.splitlines():
        if heading := re.match(r"### (9\.\d+) (.*)", line):
            wanted = heading[1] in numbers
            if wanted:
                chapters.append(Chapter(re.sub(r" \(numbers in .*\)", "", heading[2])))
        elif wanted and (scenario := re.match(r" *- ([A-Z]{3}-\d+) (.*)", line)):
            chapters[-1].scenarios[scenario[1]] = scenario[2]
    return chapters


def expand(numbers: Iterable[str]) -> Iterator[str]:
    """`SCH-01..03` stands for three scenarios."""
    for entry in numbers:
        first, _, last = entry.partition("..")
        prefix, _, start = first.partition("-")
        for number in range(int(start), int(last or start) + 1):
            yield f"{prefix}-{number:02}"


def read_claims(text: str) -> Claims:
    document = tomllib.loads(text)
    tests = {
        number: f"{file}::{test}"
        for file, cases in document["tests"].items()
        for test, numbers in cases.items()
        for number in expand(numbers)
    }
    reasons = {
        number: entry["because"] for entry in document["not_applicable"] for number in expand(entry["scenarios"])
    }
    return Claims(tests, reasons)


def plain(text: str) -> str:
    return " ".join(re.findall(r"[a-z0-9]+", text.lower()))


def match(chapters: Iterable[Chapter], claims: Claims, tests: Iterable[str]) -> dict[str, str]:
    """The test of each scenario that has one."""
    by_number: dict[str, str] = {}
    by_sentence: dict[tuple[str, str], str] = {}
    for test in tests:
        path, _, rest = test.partition("::")
        name, _, case = rest.partition("[")
        case = case.removesuffix("]")
        for number in NUMBER.findall(case):
            by_number.setdefault(number, test)
        for sentence in (case, name.removeprefix("test_")):
            by_sentence.setdefault((Path(path).name, plain(sentence)), test)
    found = {}
    for chapter in chapters:
        for number, sentence in chapter.scenarios.items():
            named = claims.tests.get(number) or by_number.get(number)
            places = () if number in claims.reasons else SENTENCES.get(number[:3], ())
            said = (by_sentence.get((place, plain(sentence))) for place in places)
            if test := named or next(filter(None, said), None):
                found[number] = test
    return found


def missing(named: Iterable[str], tests: Iterable[str]) -> list[str]:
    """Those of the named tests that do not exist; a test may be named without its case."""
    known = {name for test in tests for name in (test, test.partition("[")[0])}
    return sorted(set(named) - known)


def render(chapters: list[Chapter], found: dict[str, str], reasons: dict[str, str]) -> Iterator[str]:
    yield "# Upstream's scenarios and our tests\n"
    yield "Written from test ids and `scenarios.toml`; numbers are those of the scenario list. Paths are below `tests/`.\n"
    yield "| chapter | scenarios | tested | not applicable | open |\n|---|---|---|---|---|"
    totals = [0, 0, 0, 0]
    for chapter in chapters:
        tested = sum(number in found for number in chapter.scenarios)
        refused = sum(number in reasons and number not in found for number in chapter.scenarios)
        row = [len(chapter.scenarios), tested, refused, len(chapter.scenarios) - tested - refused]
        totals = [total + value for total, value in zip(totals, row, strict=True)]
        yield f"| {chapter.title} | {' | '.join(map(str, row))} |"
    yield f"| **all** | {' | '.join(map(str, totals))} |"
    for chapter in chapters:
        yield f"\n## {chapter.title}\n"
        yield from _chapter(chapter, found, reasons)


def _chapter(chapter: Chapter, found: dict[str, str], reasons: dict[str, str]) -> Iterator[str]:
    refused: dict[str, list[str]] = {}
    for number in chapter.scenarios:
        if number in found:
            yield f"- {number}: `{found[number]}`"
        elif number in reasons:
            refused.setdefault(reasons[number], []).append(number)
    for reason, numbers in refused.items():
        yield f"- not applicable, {reason}: {', '.join(numbers)}"
    still = [number for number in chapter.scenarios if number not in found and number not in reasons]
    if still:
        yield f"- open: {', '.join(still)}"


def write(chapters: list[Chapter], tests: list[str], claims: Claims, output: Path) -> None:
    """The index of some chapters; nothing is written when it would name a test that does not exist."""
    found = match(chapters, claims, tests)
    if lost := missing(found.values(), tests):
        sys.exit("no such tests:\n" + "\n".join(lost))
    output.write_text("\n".join(render(chapters, found, claims.reasons)) + "\n")


def main(path: str) -> None:
    claims = read_claims((HERE / "scenarios.toml").read_text())
    write(read_list(Path(path).read_text()), collect(), claims, OUTPUT)


if __name__ == "__main__":
    main(sys.argv[1])
