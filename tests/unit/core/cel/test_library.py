"""CEL expressions mean what the language definition says."""

from __future__ import annotations

from typing import Any

import pytest

from corral.core.cel import CelError, compile_expression
from corral.core.schema.structural import compile_schema

TRUE = [
    "1 + 2 * 3 == 7", "-7 / 2 == -3", "-7 % 2 == -1", "7u / 2u == 3u", "1 == 1.0", "1 < 2.5", "!(1 == 'a')", "0x1F == 31",
    "-9223372036854775808 < 0", "1.5e3 == 1500.0", "'a' + 'b' == 'ab'", "[1] + [2] == [1, 2]", "null == null",
    "'héllo'.size() == 5", "size({'a': 1}) == 1", "b'\\xff' == b'\\377'", r"r'\d' == '\\d'", "'''it's''' == \"it's\"",
    "true ? 1 == 1 : 1 / 0 == 1", "true || 1 / 0 == 1", "1 / 0 == 1 || true", "!(1 / 0 == 1 && false)",
    "'a' in ['a', 'b']", "'a' in {'a': 1}", "1 in [1.0]", "[1, 2][0] == 1", "{'a': {'b': 2}}.a.b == 2", "{'a b': 1}['a b'] == 1",
    "has({'a': 1}.a)", "!has({'a': 1}.b)", "[1, 2].all(x, x > 0)", "[1, 2].exists(x, x > 1)", "[1, 2].exists_one(x, x > 1)",
    "[1, 2].map(x, x * 2) == [2, 4]", "[1, 2].map(x, x > 1, x * 2) == [4]", "[1, 2].filter(x, x > 1) == [2]",
    "{'a': 1}.all(k, k == 'a')", "{'a': 1}.exists(k, v, v == 1)", "[5, 6].all(i, v, v - i == 5)",
    "[1, 2].exists(x, x == 2 || 1 / (x - 1) == 5)", "[5, 6].transformList(i, v, i + v) == [5, 7]",
    "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}", "cel.bind(x, 2, x * x) == 4",
    "'abc'.matches('^a.c$')", "'abc'.startsWith('a') && 'abc'.endsWith('c') && 'abc'.contains('b')",
    "'abc'.find('[bc]+') == 'bc'", "'a1b2'.findAll('[0-9]') == ['1', '2']", "'a1b2'.findAll('[0-9]', 1) == ['1']",
    "'a-b'.split('-') == ['a', 'b']", "['a', 'b'].join(',') == 'a,b'", "'abc'.substring(1) == 'bc'", "'abc'.substring(0, 1) == 'a'",
    "'aab'.replace('a', 'c') == 'ccb'", "'aab'.replace('a', 'c', 1) == 'cab'", "'aB'.lowerAscii() == 'ab'", "' a '.trim() == 'a'",
    "'abcb'.indexOf('b') == 1", "'abcb'.lastIndexOf('b') == 3", "'abc'.charAt(1) == 'b'", "'%s=%d'.format(['a', 1]) == 'a=1'",
    "'%.2f'.format([1.5]) == '1.50'", "'%s'.format([[1, 'a', null]]) == '[1, a, null]'", "'%x'.format([255]) == 'ff'",
    "strings.quote('a\"b') == '\"a\\\\\"b\"'", "[1, 2, 3].isSorted()", "[1, 2, 3].sum() == 6", "[1, 3, 2].max() == 3",
    "[1, 3, 2].min() == 1", "[1, 2, 1].indexOf(1) == 0", "[1, 2, 1].lastIndexOf(1) == 2", "[3, 1].sort() == [1, 3]",
    "[1, 2, 3].slice(0, 2) == [1, 2]", "[[1], [2]].flatten() == [1, 2]", "[1, 1].distinct() == [1]", "lists.range(3) == [0, 1, 2]",
    "[{'a': 2}, {'a': 1}].sortBy(x, x.a)[0].a == 1", "sets.contains([1, 2], [2])", "sets.equivalent([1, 2], [2, 1, 1])",
    "sets.intersects([1], [1, 2])", "int('5') == 5", "int(2.9) == 2", "double(1) == 1.0", "string(1.5) == '1.5'", "string(true) == 'true'",
    "bool('true')", "uint(1) == 1u", "type(1) == int", "type('a') == string", "type([]) == list", "dyn(1) == 1",
    "duration('1h30m') == duration('90m')", "duration('90m').getHours() == 1", "string(duration('1h')) == '3600s'",
    "timestamp('2024-01-01T00:00:00Z') + duration('1h') == timestamp('2024-01-01T01:00:00Z')",
    "timestamp('2024-01-01T00:00:00Z') < timestamp('2024-01-01T00:00:01Z')", "timestamp('2024-03-01T00:00:00Z').getMonth() == 2",
    "timestamp('2024-03-01T23:00:00Z').getHours('+02:00') == 1", "timestamp('2024-03-03T00:00:00Z').getDayOfWeek() == 0",
    "quantity('1Gi').isGreaterThan(quantity('1G'))", "quantity('1').add(quantity('500m')).compareTo(quantity('1500m')) == 0",
    "quantity('5').sub(2).asInteger() == 3", "isQuantity('1Gi') && !isQuantity('lots')", "quantity('-1').sign() == -1",
    "ip('10.0.0.1').family() == 4", "isIP('::1') && !isIP('10.0.0')", "ip('127.0.0.1').isLoopback()", "ip.isCanonical('::1')",
    "cidr('10.0.0.0/8').containsIP('10.1.2.3')", "cidr('10.0.0.0/8').containsCIDR(cidr('10.1.0.0/16'))", "cidr('10.0.0.0/8').prefixLength() == 8",
    "string(cidr('10.1.0.0/8').masked()) == '10.0.0.0/8'", "cidr('10.1.0.0/8').ip() == ip('10.1.0.0')", "isCIDR('10.0.0.0/8') && !isCIDR('10.0.0.0')",
    "url('https://a.example:8080/p?q=1').getHost() == 'a.example:8080'", "url('https://a.example:8080/p').getPort() == '8080'",
    "url('https://a.example/p?q=1').getQuery() == {'q': ['1']}", "isURL('https://a') && !isURL('a')", "url('https://a/b').getScheme() == 'https'",
    "semver('1.2.3').isLessThan(semver('1.10.0'))", "semver('1.2.3').major() == 1", "semver('1.0.0-rc.1').isLessThan(semver('1.0.0'))",
    "optional.of(1).hasValue()", "optional.none().orValue(2) == 2", "{'a': 1}.?a.value() == 1", "{'a': 1}.?b.orValue(5) == 5",
    "{'a': {'b': 1}}.?a.?c.orValue(3) == 3", "[1][?5].orValue(0) == 0", "optional.of(2).optMap(x, x * 2).value() == 4",
    "optional.none().or(optional.of(1)).value() == 1", "[?optional.none(), ?optional.of(1)] == [1]", "{?'a': optional.none()} == {}",
    "!optional.ofNonZeroValue('').hasValue()", "format.dns1123Label().validate('Bad').hasValue()", "!format.named('dns1123Label').value().validate('ok').hasValue()",
    "base64.encode(b'hi') == 'aGk='", "base64.decode('aGk=') == b'hi'", "{'a': 1}.`a` == 1",
]  # fmt: skip


@pytest.mark.parametrize("expression", TRUE)
def test_true(expression: str) -> None:
    assert compile_expression(expression, {}).evaluate() is True


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("9223372036854775807 + 1", "integer overflow"),
        ("0u - 1u", "unsigned integer overflow"),
        ("1 / 0", "division by zero"),
        ("1 % 0", "modulus by zero"),
        ("{'a': 1}.b", "no such key: b"),
        ("[1][3]", "index out of bounds: 3"),
        ("'a' + 1", "no such overload: _+_"),
        ("1 / 0 == 1 && true", "division by zero"),
        ("[1, 0].all(x, 1 / x == 1)", "division by zero"),
        ("quantity('lots')", "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
        ("optional.none().value()", "optional.none() dereference"),
        ("lists.range(10000).all(x, lists.range(1000).all(y, true))", "operation cancelled: actual cost limit exceeded"),
    ],
)  # fmt: skip
def test_evaluation_errors(expression: str, message: str) -> None:
    with pytest.raises(CelError) as caught:
        compile_expression(expression, {}).evaluate()
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "expression",
    ["1 +", "(1", "nope", "nope(1)", "x.nope()", "size(1, 2, 3)", "'a'.matches('(')", "has(x)", "9223372036854775808",
     "if", "'a\n'", "1 @ 2", "[1].all(1, true)", "(" * 500 + "1" + ")" * 500, "!" * 500 + "true"],
)  # fmt: skip
def test_compile_errors(expression: str) -> None:
    with pytest.raises(CelError):
        compile_expression(expression, {"x": None})


SCHEMA = compile_schema(
    {
        "type": "object",
        "properties": {
            "when": {"type": "string", "format": "date-time"},
            "span": {"type": "string", "format": "duration"},
            "raw": {"type": "string", "format": "byte"},
            "rate": {"type": "number"},
            "dash-ed": {"type": "integer"},
            "namespace": {"type": "string"},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "times": {"type": "array", "items": {"type": "string", "format": "date-time"}},
            "keyed": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": {"type": "string"}, "v": {"type": "integer"}}},
            },
        },
    }
)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("self.when < timestamp('2025-01-01T00:00:00Z')", {"when": "2024-01-01T00:00:00Z"}),
        ("self.span > duration('1m')", {"span": "1h"}),
        ("self.raw == b'hi'", {"raw": "aGk="}),
        ("self.rate / 2.0 == 0.5", {"rate": 1}),
        ("self.dash__dash__ed == 1", {"dash-ed": 1}),
        ("self.__namespace__ == 'x'", {"namespace": "x"}),
        ("self.set == ['b', 'a']", {"set": ["a", "b"]}),
        ("self.set + ['a', 'c'] == ['a', 'b', 'c']", {"set": ["a", "b"]}),
        ("self.times.all(t, t > timestamp('2020-01-01T00:00:00Z'))", {"times": ["2024-01-01T00:00:00Z"]}),
        ("self.keyed.exists(k, k.name == 'a')", {"keyed": [{"name": "a"}]}),
        ("(self.keyed + [{'name': 'a', 'v': 2}])[0].v == 2", {"keyed": [{"name": "a", "v": 1}]}),
        ("self.?when.hasValue()", {"when": "2024-01-01T00:00:00Z"}),
    ],
)
def test_schemas_give_types(expression: str, value: dict[str, Any]) -> None:
    assert compile_expression(expression, {"self": SCHEMA}).evaluate(value) is True


def test_a_program_knows_its_variables() -> None:
    program = compile_expression("self == oldSelf || [1].exists(x, x == 1)", {"self": None, "oldSelf": None})
    assert program.variables == {"self", "oldSelf"}
