"""Numbers in texts that others write, in annotations, expressions and headers: what is none is a wrong value, never an error of ours."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import corral
from corral.core.cel import CelError, compile_expression
from corral.core.errors import BadRequest
from corral.core.meta import Obj
from corral.decide.placement.overrides import OverrideError, _edit_list, _index
from corral.jobs.appwrapper.plan import RETRY_LIMIT, retry_limit
from corral.jobs.batch_job.plan import index_failures
from corral.jobs.framework.adapter import maximum_execution_time
from corral.jobs.leader_worker_set.rollout import scaled
from corral.jobs.pod.group import total_count
from corral.kinds.kueue import names
from corral.server.pods.streaming import _port

DIGITS = "9" * 5000  # more than Python reads
TEXTS = ("\N{SUPERSCRIPT TWO}", DIGITS, "", "x", "-1", "1e400", "* * * * *")


def annotated(name: str, text: str) -> Obj:
    return {"metadata": {"annotations": {name: text}, "labels": {name: text}}}


@pytest.mark.parametrize("text", TEXTS)
def test_an_annotation_that_is_no_number_says_nothing(text: str) -> None:
    assert total_count(annotated(names.POD_GROUP_TOTAL_COUNT, text)) == 0
    assert maximum_execution_time(annotated(names.MAX_EXEC_TIME, text)) is None
    assert retry_limit(annotated("workload.codeflare.dev.appwrapper/retryLimit", text)) == RETRY_LIMIT
    assert index_failures(annotated("batch.kubernetes.io/job-index-failure-count", text)) == 0


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("percent", ["", "%"])
def test_a_share_that_is_no_number_is_none_at_all(text: str, percent: str) -> None:
    assert scaled(text + percent, 10, up=True) == 0


@pytest.mark.parametrize("part", ["\N{SUPERSCRIPT TWO}", DIGITS, "\N{ARABIC-INDIC DIGIT TWO}"])
def test_a_place_in_a_list_that_is_no_number_is_none(part: str) -> None:
    assert _index([1, 2, 3], part) is None
    with pytest.raises(OverrideError):
        _edit_list([1, 2, 3], part, "add", "/a", 4)


@pytest.mark.parametrize(
    "source",
    [
        "int(self.t) > 1",
        "uint(self.t) > uint(1)",
        "semver(self.t + '.0.0').major() > 1",
        "semver(self.t, true) > semver('1.0.0')",
        "isSemver(self.t + '.0.0')",
        "timestamp('0001-01-01T00:00:00Z').getHours('-14:00') > 1",
        "timestamp('9999-12-31T23:59:59Z').getHours('+14:00') > 1",
    ],
)
def test_an_expression_over_what_cannot_be_reckoned_with_fails_and_nothing_else_does(source: str) -> None:
    program: Any = compile_expression(source, {"self": None})
    with pytest.raises(CelError):
        program.evaluate({"t": DIGITS})


@pytest.mark.parametrize("source", [DIGITS, f"{DIGITS}u", f"-{DIGITS}", r"'\UFFFFFFFF'", r"'\U00110000'", r"'\ud800'"])
def test_a_literal_nobody_can_read_is_a_fault_of_the_expression(source: str) -> None:
    with pytest.raises(CelError):
        compile_expression(source, {"self": None})


def test_nobody_asks_a_text_of_others_whether_it_is_digits() -> None:
    """`isdigit` is true of what `int` refuses. Who reads what the system writes, or asks for ASCII and a length too, may."""
    source = Path(corral.__file__).parent
    asking = re.compile(r"\.(isdigit|isdecimal|isnumeric)\(\)")
    found = {
        str(path.relative_to(source))
        for folder in ("jobs", "controllers", "workload", "kinds", "dashboard", "decide")
        for path in (source / folder).rglob("*.py")
        if any(asking.search(line) and "len(" not in line for line in path.read_text().splitlines())
    }
    assert found <= {
        "decide/apps/endpoints.py",  # a port, which has been checked
        "decide/queueing/provisioning.py",  # the end of a name
        "jobs/batch_job/rules.py",  # says what is wrong with whatever cannot be read
        "jobs/framework/described.py",  # a path in the administrator's configuration
    }


@pytest.mark.parametrize("text", [*TEXTS, "0", "65536"])
def test_a_port_to_forward_to_that_is_none_is_a_bad_request(text: str) -> None:
    with pytest.raises(BadRequest, match="as a port"):
        _port(text)
