"""Patterns that users send run on an engine that never backtracks: none can hold up the server, however it is written."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import corral
from corral.core import regex
from corral.core.cel.strings import find, find_all, matches
from corral.core.quantity import Quantity, QuantityError
from corral.core.schema.formats import FORMATS
from corral.jobs.jobset.children import ATTEMPT, REPLICATED_JOB
from corral.jobs.jobset.kind import _check_rules
from corral.jobs.jobset.plan import plan_job_set

SOURCES = Path(corral.__file__).parent
NAMES = ("compile", "search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer")
CALLS = {f"re.{name}" for name in NAMES}
LONG = 5_000
"""Letters: what backtracks on this many needs more than the age of the universe, or, where quadratic, is seen below."""

EXPLOSIVE = [r"Job ((\w+)+\s?)+X", r"^(a+)+$", r"(a|aa)+$", r"(a|a)*b", r"(.*a){20}$", r"(\w+\s?)+X", r"((a*)*)*b"]


@pytest.mark.parametrize("pattern", EXPLOSIVE)
def test_a_failure_pattern_of_a_jobset_cannot_hold_up_the_cluster(pattern: str) -> None:
    message = "Job " + "a" * LONG + "!"
    condition = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": message,
                 "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
    metadata = {"name": "js-leader-0", "labels": {REPLICATED_JOB: "leader", ATTEMPT: "0"}}
    failed = {"metadata": metadata, "spec": {}, "status": {"conditions": [condition]}}
    rule = {"name": "r", "action": "FailJobSet", "onJobFailureMessagePatterns": [pattern]}
    jobs = [{"name": "leader", "replicas": 1, "template": {"spec": {"template": {}}}}]
    job_set = {
        "metadata": {"name": "js", "namespace": "default", "uid": "u"},
        "spec": {"replicatedJobs": jobs, "failurePolicy": {"maxRestarts": 1, "rules": [rule]}},
    }
    plan = plan_job_set(job_set, [failed], 1_800_000_000.0)
    conditions = {one["type"] for one in plan.status["conditions"] if one["status"] == "True"}
    assert conditions == ({"Failed"} if regex.search(pattern, message) else {"RestartingJobSet"})


@pytest.mark.parametrize("pattern", EXPLOSIVE)
def test_no_function_of_cel_backtracks(pattern: str) -> None:
    text = "a" * 60 + "!"
    found = matches(text, pattern)
    assert bool(find(text, pattern)) <= found
    assert all(one in text for one in find_all(text, pattern))


@pytest.mark.parametrize("name", sorted(FORMATS))
@pytest.mark.parametrize("letter", ["1", "a", "1-", " ", "f:", "1."])
def test_no_format_of_a_definition_backtracks(name: str, letter: str) -> None:
    assert FORMATS[name](letter * LONG + "!") in (True, False)


@pytest.mark.parametrize("text", ["1" * 100_000 + "!", "1." + "1" * 100_000 + "!", "E" * 100_000 + "!"])
def test_a_quantity_is_read_once_from_left_to_right(text: str) -> None:
    with pytest.raises(QuantityError):
        Quantity.parse(text)


@pytest.mark.parametrize(
    "pattern", ["(?=a)b", r"(a)\1", "(?<!a)b", "(?>a)", "(", "[a", "a{2,1}", "\ud800", r"(\w{1000}){1000}"]
)
def test_what_the_engine_cannot_run_is_refused_at_admission(pattern: str) -> None:
    rule = {"name": "r", "action": "FailJobSet", "onJobFailureMessagePatterns": [pattern]}
    causes = _check_rules({"failurePolicy": {"rules": [rule]}})
    assert [cause.field for cause in causes] == ["spec.failurePolicy.rules[0].onJobFailureMessagePatterns"]
    assert "invalid pattern: error parsing regexp" in causes[0].message


@pytest.mark.parametrize("pattern", [")(", "a|b)|(c", ""])
def test_the_whole_text_is_matched_by_the_whole_pattern(pattern: str) -> None:
    if pattern:
        with pytest.raises(regex.RegexError):
            regex.fullmatch(pattern, "c")
    else:
        assert regex.fullmatch(pattern, "")
        assert not regex.fullmatch(pattern, "c")


@pytest.mark.parametrize("path", sorted(SOURCES.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCES)))
def test_pythons_engine_sees_only_patterns_of_the_program(path: Path) -> None:
    if path == SOURCES / "core" / "regex.py":
        return
    tree = ast.parse(path.read_text())
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "re"]
    scopes: list[ast.AST] = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    wrong = [
        f"line {node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in CALLS
        and not _is_fixed(node.args[0], _assigned(tree, [one for one in scopes if node in ast.walk(one)]))
    ]
    assert not wrong, "use corral.core.regex for patterns that are not written in the program"


def _assigned(tree: ast.Module, around: list[ast.AST]) -> list[ast.Assign | ast.AnnAssign]:
    """What is assigned at the top of a module and in the functions around a place."""
    nodes = [*tree.body, *(node for function in around for node in ast.walk(function))]
    return [node for node in nodes if isinstance(node, ast.Assign | ast.AnnAssign)]


def _is_fixed(node: ast.expr, assigned: list[ast.Assign | ast.AnnAssign]) -> bool:
    """Whether a pattern is written in the program: constants, names of such, and words that are escaped."""
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.JoinedStr):
        return all(_is_fixed(part, assigned) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return _is_fixed(node.value, assigned)
    if isinstance(node, ast.BinOp):
        return _is_fixed(node.left, assigned) and _is_fixed(node.right, assigned)
    if isinstance(node, ast.Name):
        values = [one.value for one in assigned if node.id in map(ast.unparse, _targets(one)) and one.value]
        return bool(values) and all(_is_fixed(value, assigned) for value in values)
    return ast.unparse(node).startswith(("'|'.join((re.escape(", "re.escape("))


def _targets(node: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]
