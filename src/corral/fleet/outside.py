"""What a fleet does to its machine beyond its own folder and its own addresses, so far as its description asks for it.

Who writes fleet.yaml may ask for all of this. A description that comes from elsewhere, in a backup, is looked through first."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import PurePath
from typing import NamedTuple

from corral.configuration.fleet import ClusterSpec, FleetSpec


class Reach(NamedTuple):
    """One thing a fleet does outside, and the field that asks for it; `what` is the program, file or address."""

    does: str
    what: str
    field: str

    def __str__(self) -> str:
        return f"{self.does} {self.what!r} ({self.field})"


def reaches(fleet: FleetSpec) -> Iterator[Reach]:
    """Everything a fleet does outside, once for each field."""
    if fleet.encryption_provider:
        yield Reach("runs the program", shlex.join(fleet.encryption_provider), "encryptionProvider")
    if not _is_loopback(fleet.address):
        yield Reach("listens on", fleet.address, "address")
    if fleet.images:
        yield Reach("takes programs from", fleet.images, "images")
    for cluster in fleet.clusters:
        yield from _of_cluster(cluster)


def _of_cluster(cluster: ClusterSpec) -> Iterator[Reach]:
    if cluster.config:
        yield Reach("is configured by", cluster.config, "config")
    if cluster.audit_log is not None and not _is_below(cluster.audit_log.path):
        yield Reach("writes", cluster.audit_log.path, "auditLog")
    for network in cluster.webhook_networks:
        yield Reach("calls webhooks in", network, "webhookNetworks")


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def _is_below(path: str) -> bool:
    """Whether a file that is named from a folder is in it."""
    return not PurePath(path).is_absolute() and ".." not in PurePath(path).parts
