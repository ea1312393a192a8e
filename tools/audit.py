"""Looks the pinned dependencies up among known vulnerabilities: python tools/audit.py REQUIREMENTS.

Exits 1 only when one was found. Where pip-audit or its database cannot be had, it says that nothing was checked, and exits 0: a change
is not refused for want of a network.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

TIMEOUT_S = 300


def main(requirements: str) -> int:
    with tempfile.TemporaryDirectory(prefix="corral-audit-") as folder:
        try:
            python = environment(Path(folder))
            command = [
                python,
                "-m",
                "pip_audit",
                "--requirement",
                requirements,
                "--require-hashes",
                "--disable-pip",
                "--format",
                "json",
            ]
            done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
            return report(done.stdout, done.stderr)
        except (OSError, subprocess.SubprocessError) as error:
            return not_checked(f"pip-audit could not be installed or run ({error})")


def environment(folder: Path) -> str:
    """A Python with pip-audit, apart from the one that is looked at."""
    python = str(folder / "bin" / "python")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=TIMEOUT_S)
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "pip-audit"]
    subprocess.run(install, check=True, timeout=TIMEOUT_S, capture_output=True)
    return python


def report(output: str, errors: str) -> int:
    """pip-audit exits alike when it finds something and when it reaches nobody; only an answer is JSON."""
    try:
        found = json.loads(output)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return not_checked(errors.strip().rpartition("\n")[2] or "no answer")
    known = [(one["name"], one["version"], flaw) for one in found for flaw in one.get("vulns", ())]
    for name, version, flaw in known:
        print(f"{name} {version}: {flaw['id']}, fixed in {', '.join(flaw.get('fix_versions') or []) or 'no version'}")
    print(f"{len(found)} dependencies looked up, {len(known)} known vulnerabilities")
    return 1 if known else 0


def not_checked(why: str) -> int:
    print(f"NOT CHECKED: no database of vulnerabilities could be asked: {why}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
