"""Nothing that must stay secret can be computed from what everybody sees, such as names and uids."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

import corral
from corral.clusters.embedded_api import EmbeddedApi
from corral.jobs.mpijob.ssh_keys import ssh_secret
from corral.runtime.random import Random
from corral.runtime.secrets import private_key
from corral.simulate.keys import repeatable_keys

SOURCES = Path(corral.__file__).parent
MAKERS = {"generate_private_key", "derive_private_key", "generate_key", "urandom", "getrandom", "SystemRandom"}
STANDARD = {"random", "secrets"}
HOME = {"runtime/secrets.py", "runtime/random.py"}
# The agent is mounted into pods and has the standard library alone; the simulator's keys and order guard nothing; the nonce of a
# WebSocket's handshake is no secret, and its library draws it from the operating system.
ALLOWED = {
    "client/sessions.py": {"generate_key"},
    "jobs/mpijob/agent.py": {"secrets"},
    "simulate/keys.py": {"derive_private_key"},
    "runtime/virtual.py": {"random"},
}
INJECTING = {
    "clusters/embedded_api.py",
    "runtime/controller.py",
    "simulate/keys.py",
}  # they hand both on and draw nothing themselves


@cache
def modules() -> list[tuple[str, ast.Module]]:
    paths = sorted(SOURCES.rglob("*.py"))
    return [(path.relative_to(SOURCES).as_posix(), ast.parse(path.read_text())) for path in paths]


def imported(tree: ast.Module) -> set[str]:
    """The names of all imported modules, and of what is taken from packages."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def used(tree: ast.Module) -> set[str]:
    """Every name and attribute that makes something random."""
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return (names | {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}) & MAKERS


def test_secrets_are_made_in_one_place() -> None:
    strays = {
        name: found
        for name, tree in modules()
        if name not in HOME and (found := (used(tree) | (imported(tree) & STANDARD)) - ALLOWED.get(name, set()))
    }
    assert strays == {}, "keys, tokens and nonces come from runtime/secrets.py, other randomness from runtime/random.py"


def test_whoever_makes_secrets_does_not_know_the_seeded_generator() -> None:
    both = [
        name
        for name, tree in modules()
        if name not in INJECTING and {"corral.runtime.secrets", "corral.runtime.random"} <= imported(tree)
    ]
    assert both == []


def test_no_job_draws_its_keys_from_a_generator_of_names() -> None:
    """A fork of the manager's generator whose name speaks of keys is how it once was."""
    forks = [
        (name, node.args[0].value)
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "fork"
        if node.args and isinstance(node.args[0], ast.Constant)
    ]
    assert [fork for fork in forks if "key" in str(fork[1])] == [
        ("simulate/cluster.py", "keys"),
        ("testing/cluster.py", "keys"),
    ]


def test_two_keys_of_one_job_are_unlike() -> None:
    job = {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "a", "namespace": "b", "uid": "c"},
    }
    first, second = (ssh_secret(job, "ssh", private_key)["data"]["ssh-privatekey"] for _ in range(2))
    assert first != second


def test_a_served_cluster_makes_its_keys_with_the_operating_system() -> None:
    assert EmbeddedApi(None).manager.private_key is private_key


def test_a_simulation_repeats_its_keys() -> None:
    first, second = (repeatable_keys(Random("s"))(ec.SECP521R1()).private_numbers() for _ in range(2))
    assert first.private_value == second.private_value


def test_uids_of_a_served_cluster_do_not_follow_from_each_other() -> None:
    """Without a seed there is no state to rebuild: neither the source nor its forks can be rewound or copied."""
    source = Random()
    for one in (source, source.fork("names")):
        assert not hasattr(one, "seed")
        assert type(one._source).__name__ == "SystemRandom"


def test_a_seed_gives_the_same_names_again() -> None:
    first, second = Random("s"), Random("s")
    assert [first.uid(), first.fork("x").suffix()] == [second.uid(), second.fork("x").suffix()]
