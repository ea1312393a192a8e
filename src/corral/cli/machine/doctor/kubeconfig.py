"""The kubeconfig a command would use: is it there, whole, private, and are its credentials still good?"""

from __future__ import annotations

import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from corral.cli.machine.doctor.findings import Finding, note, ok, wrong
from corral.client import kubeconfig
from corral.client.kubeconfig import Access, KubeconfigError
from corral.fleet.folder import FleetFolder
from corral.fleet.reaching import kubeconfig_file
from corral.runtime.clock import WallClock

PART: Final = "kubeconfig"
DAY_S: Final = 86400.0
SOON_S: Final = 14 * DAY_S


def look_at_kubeconfig(path: Path | None, context: str) -> tuple[list[Finding], Access | None]:
    """What was found, and how to reach the cluster if that can be known."""
    if path is None and not FleetFolder.default().kubeconfig.exists() and not kubeconfig.default_path().exists():
        why = f"there is no kubeconfig {kubeconfig.default_path()}"
        return [note(PART, why, "`corral up` starts a fleet and writes one; --kubeconfig names another")], None
    try:
        file = kubeconfig_file(path, context)
        access = kubeconfig.access(kubeconfig.load(file), context, folder=file.parent, origin=str(file))
        access.ssl_context()
    except KubeconfigError as error:
        return [wrong(PART, str(error), "correct the file, or name another with --kubeconfig or KUBECONFIG")], None
    return [*_file(file, access), *_credentials(access)], access


def _file(file: Path, access: Access) -> Iterator[Finding]:
    yield ok(PART, f"{file} leads to {access.server}")
    if file.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        yield note(PART, f"others on this machine can read {file}, which holds credentials", f"`chmod 600 {file}`")


def _credentials(access: Access) -> Iterator[Finding]:
    if access.insecure:
        yield note(
            PART, "the server's certificate is not checked (insecure-skip-tls-verify)", "name its authority instead"
        )
    if access.exec and not shutil.which(str(access.exec.get("command"))):
        program = access.exec.get("command")
        yield wrong(PART, f"the credential program {program} is not on the PATH", f"install {program}")
    if access.token_file and not Path(access.token_file).is_file():
        yield wrong(PART, f"the token file {access.token_file} is not there", "write it, or name another")
    for what, content in (("the client certificate", access.certificate), ("the server's authority", access.ca)):
        if content:
            yield from _expiry(what, content)


def _expiry(what: str, content: bytes) -> Iterator[Finding]:
    from cryptography.x509 import load_pem_x509_certificate

    try:
        end = load_pem_x509_certificate(content).not_valid_after_utc
    except ValueError:
        yield wrong(PART, f"{what} is not PEM", "write the kubeconfig anew")
        return
    left = end.timestamp() - WallClock().now()
    renew = "`corral up` writes a new one for a fleet of this machine; elsewhere ask whoever runs the cluster"
    if left < 0:
        yield wrong(PART, f"{what} has expired on {end:%Y-%m-%d}", renew)
    elif left < SOON_S:
        yield note(PART, f"{what} expires in {left / DAY_S:.0f} days", renew)
    else:
        yield ok(PART, f"{what} is good until {end:%Y-%m-%d}")
