"""What Corral is made of: dependencies pinned by version and hash, a bill of materials, and an audit that never pretends."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"tool_{name}", ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["constraints.txt", "constraints-sdk.txt"])
def test_every_dependency_has_a_version_and_hashes(name: str) -> None:
    text = (ROOT / name).read_text()
    entries = re.split(r"\n(?=[A-Za-z0-9])", text.partition("\n")[2].replace("\\\n", " "))
    pattern = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+( ; [^-]*)?(\s+--hash=sha256:[0-9a-f]{64})+\s*")
    assert [entry[:60] for entry in entries if not pattern.fullmatch(entry)] == []
    assert "://" not in text


def test_everything_is_installed_by_hash() -> None:
    recipes = [line for line in (ROOT / "Makefile").read_text().splitlines() if "pip install" in line]
    unhashed = [line for line in recipes if "--require-hashes" not in line and "--no-deps" not in line]
    assert all(".venv-frameworks" in line for line in unhashed), "torch and Ray are tried at their latest"


@pytest.mark.parametrize("recipe", ["Makefile", "deploy/Containerfile"])
def test_nothing_is_resolved_anew_when_it_is_installed_by_hash(recipe: str) -> None:
    """pip would look for a newer version of what somebody needs with an extra, and refuse the one that is pinned."""
    locked = [line for line in (ROOT / recipe).read_text().splitlines() if "--require-hashes" in line]
    assert locked
    assert [line for line in locked if "--no-deps" not in line] == []


def test_the_bill_of_materials_lists_what_is_installed_and_what_needs_it() -> None:
    name = tool("sbom").own_name()
    made = tool("sbom").bill(name)
    assert (made["bomFormat"], made["metadata"]["component"]["name"]) == ("CycloneDX", name)
    names = [one["purl"].rpartition("@")[0] for one in made["components"]]
    assert names == sorted(names)
    (corral,) = [one for one in made["dependencies"] if one["ref"].startswith(f"pkg:pypi/{name}@")]
    for other in ("click", "cryptography", "httptools", "msgspec", "pyyaml"):
        assert any(one.startswith(f"pkg:pypi/{other}@") for one in corral["dependsOn"])
    assert made == tool("sbom").bill(name)


@pytest.mark.parametrize(
    ("output", "code", "said"),
    [
        pytest.param("", 0, "NOT CHECKED", id="nobody answered"),
        pytest.param("[]", 0, "NOT CHECKED", id="no answer to this question"),
        pytest.param('{"dependencies": [{"name": "a", "version": "1", "vulns": []}]}', 0, "1 dependencies", id="nothing known"),
        pytest.param('{"dependencies": [{"name": "a", "version": "1", "vulns": [{"id": "CVE-1"}]}]}', 1, "a 1: CVE-1", id="known"),
    ],
)  # fmt: skip
def test_an_audit_fails_for_what_it_found_and_says_when_it_could_not_look(
    output: str, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tool("audit").report(output, "no network\n") == code
    assert said in capsys.readouterr().out
