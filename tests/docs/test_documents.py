"""The documentation holds: links lead somewhere, commands exist, manifests are YAML that names a kind."""

from __future__ import annotations

import re
from pathlib import Path

import click
import msgspec
import pytest
import yaml
from click.testing import CliRunner

from corral.cli.main import COMMANDS, corral
from corral.configuration.fleet import load
from corral.core.server_limits import Limits

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
FLEETS = sorted(ROOT.glob("examples/**/fleet.yaml"))
MANIFESTS = sorted(set(ROOT.glob("examples/**/*.yaml")) - set(FLEETS))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_pages_exist(page: Path) -> None:
    for line in re.findall(r"^\$? ?(corral [a-z].*)$", page.read_text(), re.MULTILINE):
        word = line.split()[1]
        assert word in COMMANDS, f"{page.name} says {line!r}"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_explains_itself(name: str) -> None:
    command = corral.get_command(click.Context(corral), name)
    if command is None:
        pytest.skip(f"{name} is not part of this build")
    result = CliRunner().invoke(corral, [name, "--help"])
    assert result.exit_code == 0, result.output
    assert len(result.output.splitlines()) > 3


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.name)
def test_examples_are_manifests(manifest: Path) -> None:
    for document in yaml.safe_load_all(manifest.read_text()):
        assert document["apiVersion"]
        assert document["kind"]
        assert document["metadata"].get("name") or document["metadata"].get("generateName")


@pytest.mark.parametrize("file", FLEETS, ids=lambda path: path.parent.name)
def test_example_fleets_can_be_started(file: Path) -> None:
    assert load(file).clusters


def test_every_gate_that_changes_something_is_explained() -> None:
    read = {
        name
        for file in (ROOT / "src").rglob("*.py")
        for name in re.findall(r'(?:gates\[|"featureGates"\) or {}\)\.get\()"(\w+)"', file.read_text())
    }
    page = (ROOT / "docs" / "reference" / "configuration.md").read_text()
    explained = {word for row in re.findall(r"^\|([^|]+)\|", page, re.MULTILINE) for word in re.findall(r"\w+", row)}
    assert "PartialAdmission" in read
    assert read - explained == set()


def test_every_limit_of_a_server_is_listed_with_its_default() -> None:
    page = (ROOT / "docs" / "reference" / "limits.md").read_text()
    listed = dict(re.findall(r"^\| `(\w+)` \| (\d+) \|", page, re.MULTILINE))
    assert listed == {field.encode_name: str(field.default) for field in msgspec.structs.fields(Limits)}


def test_the_architecture_names_rooms_that_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    named = re.findall(r"`([a-z_]+/(?:[a-z_]+/)*(?:[a-z_]+\.py)?)`", text)
    assert len(named) > 20
    bases = (ROOT, ROOT / "src" / "corral", ROOT / "src" / "corral" / "controllers")
    assert [path for path in named if not any((base / path).exists() for base in bases)] == []


TUTORIALS = sorted(ROOT.glob("docs/tutorials/*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_are_safe_in_every_shell(page: Path) -> None:
    """zsh takes brackets and braces for patterns: what has them is quoted."""
    commands = re.findall(r"^\$ (.*)$", page.read_text(), re.MULTILINE)
    bare = [re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`", "", command) for command in commands]
    assert [command for command in bare if re.search(r"=\{|\S\[[0-9*]", command)] == []


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.name)
def test_a_tutorial_that_starts_a_fleet_stops_it(page: Path) -> None:
    commands = re.findall(r"^\$ (corral (?:up|down)\b.*)$", page.read_text(), re.MULTILINE)
    assert not commands or commands[-1].startswith("corral down"), "the next page could not start"


def test_a_page_says_which_kubectl_it_takes() -> None:
    assert "kubectl is welcome and not needed" in (ROOT / "README.md").read_text()


def test_the_first_pages_say_where_it_runs() -> None:
    readme = (ROOT / "README.md").read_text()
    assert [word for word in ("Linux", "macOS", "Windows", "Python 3.11") if word not in readme] == []
    first = (ROOT / "docs" / "tutorials" / "first-script.md").read_text()
    assert "You need Linux, Python 3.11 or newer, and Corral" in first
    assert "You need no kubectl" in first
