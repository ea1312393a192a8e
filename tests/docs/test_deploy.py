"""What `deploy/` ships holds without a cluster: it is what the code says, names metrics that exist, and runs without rights."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parents[2]))

from tools.deployment.__main__ import CHART, KUSTOMIZE, NAMESPACES, ROOT, chart_files
from tools.runtime_requirements import chosen, closure, name_of

from corral.core.meta import Obj

CONTAINERFILE = (ROOT / "deploy" / "Containerfile").read_text()
SUFFIXES = ("_bucket", "_sum", "_count")


def shipped(role: str) -> list[Obj]:
    return [*yaml.safe_load_all((KUSTOMIZE / role / "corral.yaml").read_text())]


@pytest.mark.parametrize("path", sorted(chart_files()), ids=lambda path: path.name)
def test_generated_files_are_what_the_code_says(path: Path) -> None:
    assert path.read_text() == chart_files()[path], "`make deploy` writes them again"


@pytest.mark.parametrize("role", sorted(NAMESPACES))
def test_the_plain_manifests_have_the_roles_that_the_code_says(role: str) -> None:
    webhooks = {"manager": ["webhooks"], "worker": ["webhooks"], "hub": ["hub-webhooks"]}
    files = [role, *webhooks.get(role, [])]
    wanted = [each for name in files for each in yaml.safe_load_all(roles_file(name))]
    found = [each for each in shipped(role) if "Role" in each["kind"]]
    assert sorted(map(repr, found)) == sorted(map(repr, wanted))


def roles_file(name: str) -> str:
    return (CHART / "files" / "roles" / f"{name}.yaml").read_text()


def known_metrics() -> set[str]:
    """What the reference lists, which is what is exported (tests/unit/controllers/queueing/test_metrics.py)."""
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    return set(re.findall(r"^\| `(\w+)`", page, re.MULTILINE))


def queries() -> list[str]:
    rules = yaml.safe_load((CHART / "files" / "rules.yaml").read_text())
    board = json.loads((CHART / "files" / "board.json").read_text())
    alerts = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    return [*alerts, *(target["expr"] for panel in board["panels"] for target in panel["targets"])]


@pytest.mark.parametrize("query", queries())
def test_rules_and_board_ask_for_metrics_that_exist(query: str) -> None:
    named = set(re.findall(r"\b(?:kueue|corral|fleet)_\w+", query))
    assert named
    for name in named:
        plain = next((name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix)), name)
        assert name in known_metrics() or plain in known_metrics()


@pytest.mark.parametrize("role", sorted(NAMESPACES))
def test_pods_run_without_rights_on_their_node(role: str) -> None:
    (deployment,) = (each for each in shipped(role) if each["kind"] == "Deployment")
    spec = deployment["spec"]["template"]["spec"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    for container in spec["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}


@pytest.mark.parametrize("role", sorted(NAMESPACES))
def test_the_arguments_of_a_pod_are_options_of_the_command(role: str) -> None:
    from corral.cli.controllers import controllers

    (deployment,) = (each for each in shipped(role) if each["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    group, command, *options = container["args"]
    assert group == "controllers"
    known = {word for option in controllers.commands[command].params for word in option.opts}
    assert {option.partition("=")[0] for option in options} <= known


def test_the_image_is_built_from_what_is_here_and_does_not_run_as_root() -> None:
    lines = re.sub(r"\\\n", " ", CONTAINERFILE).splitlines()
    stages = [number for number, line in enumerate(lines) if line.startswith("FROM ")]
    assert len(stages) == 2
    for line in lines[: stages[1]]:
        if line.startswith("COPY "):
            *sources, _ = line.split()[1:]
            assert [name for name in sources if not (ROOT / name).exists()] == []
    users = [line.split()[1] for line in lines[stages[1] :] if line.startswith("USER ")]
    assert users == ["65532:65532"]
    assert not [line for line in lines[stages[1] :] if line.startswith("RUN ")]


def test_the_image_gets_every_dependency_with_its_hashes_and_no_tool() -> None:
    text = chosen(
        (ROOT / "constraints.txt").read_text(), closure(["click>=8.1", "cryptography", "uvloop; sys_platform"])
    )
    entries = [entry for entry in re.split(r"\n(?=\S)", text) if entry.strip()]
    assert {"click", "cryptography", "cffi", "uvloop"} <= {name_of(entry) for entry in entries}
    assert all("--hash=sha256:" in entry for entry in entries)
    assert "pytest" not in text
