"""Prints a CycloneDX bill of materials of what is installed here, from its metadata alone: no network, the same for the same environment."""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import Distribution, distribution, distributions
from typing import Any

COMMAND = "corral.cli.main:main"
REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def purl(name: str, version: str) -> str:
    return f"pkg:pypi/{canonical(name)}@{version}"


def component(found: Distribution, kind: str = "library") -> dict[str, Any]:
    name, version = found.metadata["Name"], found.version
    made: dict[str, Any] = {
        "type": kind, "bom-ref": purl(name, version), "name": name, "version": version, "purl": purl(name, version)
    }  # fmt: skip
    if license := found.metadata.get("License-Expression"):
        made["licenses"] = [{"expression": license}]
    elif license := named_license(found):
        made["licenses"] = [{"license": {"name": license}}]
    return made


def named_license(found: Distribution) -> str:
    """The licence as older metadata gives it: a classifier, or one line of text."""
    classifiers = [one for one in found.metadata.get_all("Classifier") or [] if one.startswith("License ::")]
    if classifiers:
        return classifiers[0].rpartition(" :: ")[2]
    text = str(found.metadata.get("License") or "").strip()
    return text if "\n" not in text else ""


def requirements(found: Distribution, installed: dict[str, str]) -> list[str]:
    """What a distribution needs of what is installed; extras count, as they were asked for."""
    names = [canonical(match[0]) for text in found.requires or () if (match := REQUIREMENT.match(text))]
    return sorted({installed[name] for name in names if name in installed})


def own_name() -> str:
    """The name this project is installed under: that of the distribution whose command is ours."""
    ours = [one for one in distributions() if any(entry.value == COMMAND for entry in one.entry_points)]
    return max(str(one.metadata["Name"]) for one in ours)


def bill(root: str) -> dict[str, Any]:
    every = {canonical(one.metadata["Name"]): one for one in distributions()}
    installed = {name: purl(one.metadata["Name"], one.version) for name, one in every.items()}
    others = [every[name] for name in sorted(every) if name != canonical(root)]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": component(distribution(root), "application")},
        "components": [component(one) for one in others],
        "dependencies": [
            {"ref": installed[name], "dependsOn": requirements(every[name], installed)} for name in sorted(every)
        ],
    }


if __name__ == "__main__":
    json.dump(bill(own_name()), sys.stdout, indent=1)
    print()
