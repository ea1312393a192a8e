"""Our CEL and Google's give the same answers, errors included."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.cel import CelError, compile_expression
from corral.core.cel.values import UInt

cel = pytest.importorskip("cel_expr_python.cel", reason="the reference engine cel-expr-python is not installed")
ENVIRONMENT = cel.NewEnv(variables={"self": cel.Type.DYN})
FAILED = object()

names = st.sampled_from(["a", "b", "c"])
numbers = st.integers(-3, 3)
texts = st.sampled_from(["", "a", "ab", "b-c", "é"])
leaves = st.one_of(numbers, texts, st.booleans(), st.none())
documents = st.dictionaries(
    names, st.recursive(leaves, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=3)), max_leaves=6)
)  # fmt: skip


def extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(["+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "in"])
    macros = st.sampled_from(["all", "exists", "exists_one", "map", "filter"])
    methods = st.sampled_from(["startsWith", "endsWith", "contains"])
    return st.one_of(
        st.builds("({} {} {})".format, inner, operators, inner),
        st.builds("({} ? {} : {})".format, inner, inner, inner),
        st.builds("!{}".format, inner),
        st.builds("(-{})".format, inner),
        st.builds("size({})".format, inner),
        st.builds("{}.{}(x, {})".format, inner, macros, st.one_of(inner, st.just("x > 0"), st.just("x == 'a'"), st.just("x"))),
        st.builds("{}.{}({})".format, inner, methods, inner),
        st.builds("[{}, {}]".format, inner, inner),
        st.builds("{{'a': {}}}".format, inner),
        st.builds("{}[{}]".format, inner, inner),
    )  # fmt: skip


atoms = st.one_of(
    st.sampled_from(["self.a", "self.b", "self.a.b", "has(self.c)", "has(self.a.b)", "self", "[]", "true", "false", "null", "1.5", "2u"]),
    numbers.map(str),
    texts.map(repr),
)  # fmt: skip
expressions = st.recursive(atoms, extend, max_leaves=5)


def ours(expression: str, document: Any) -> Any:
    try:
        return compile_expression(expression, {"self": None}).evaluate(document)
    except CelError:
        return FAILED


def theirs(expression: str, document: Any) -> Any:
    try:
        value = ENVIRONMENT.compile(expression).eval(data={"self": document})
    except RuntimeError:
        return FAILED
    if value.type() == cel.Type.ERROR:
        return FAILED
    return value.plain_value()


def agree(a: Any, b: Any) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        # Loops over maps come in any order.
        rest = list(b)
        for item in a:
            found = next((at for at, other in enumerate(rest) if agree(item, other)), None)
            if found is None:
                return False
            del rest[found]
        return not rest
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(agree(a[key], b[key]) for key in a)
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b):
        return True
    if isinstance(a, UInt):
        a = int(a)
    return isinstance(a, bool) == isinstance(b, bool) and bool(a == b)


def rejects_statically(expression: str) -> bool:
    """The reference engine checks types before it runs; we find the same faults when a value meets them."""
    try:
        ENVIRONMENT.compile(expression)
    except RuntimeError:
        return True
    return False


@given(expressions, documents)
def test_we_agree_with_the_reference_engine(expression: str, document: dict[str, Any]) -> None:
    if not rejects_statically(expression):
        mine, reference = ours(expression, document), theirs(expression, document)
        assert (mine is FAILED) == (reference is FAILED), (expression, mine, reference)
        assert mine is FAILED or agree(mine, reference), (expression, mine, reference)
