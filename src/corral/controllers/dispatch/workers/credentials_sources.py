"""Where a worker's address and credentials come from: a Secret, a file on the manager, or a ClusterProfile."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

from corral.client.kubeconfig import Access, KubeconfigError, access
from corral.configuration.dispatch import DispatchSettings
from corral.controllers.dispatch.workers.kubeconfigs import (
    BAD,
    PROFILE_DISABLED,
    AccessProblem,
    check_endpoint,
    is_path,
    load_document,
    path_of,
    safe_access,
    secret_name,
)
from corral.core.meta import Key, Obj, key_of, name_of, spec_of, status_of
from corral.kinds.fleet import CLUSTER_PROFILES
from corral.kinds.kubernetes.core.kinds import SECRETS
from corral.kinds.kueue import MULTI_KUEUE_CLUSTERS
from corral.runtime.controller import Manager
from corral.runtime.informer import Informer

BAD_PROFILE: Final = "BadClusterProfile"
BAD_CONFIG: Final = "BadRestConfig"


class Sources:
    """Reads what MultiKueueClusters refer to, and tells when that changes."""

    def __init__(self, manager: Manager, settings: DispatchSettings, changed: Callable[[Key], None]) -> None:
        """`changed` is told of every MultiKueueCluster whose Secret or ClusterProfile changed."""
        self._settings = settings
        self._clusters = manager.informer(MULTI_KUEUE_CLUSTERS)
        self._secrets = manager.informer(SECRETS, namespace=self._settings.namespace)
        self._follow(self._secrets.on_change, "secret", secret_name, changed)
        # Only with profiles switched on is the kind expected to be served at all.
        self._profiles: Informer | None = None
        if settings.profiles:
            self._profiles = manager.informer(CLUSTER_PROFILES, namespace=settings.namespace)
            self._follow(self._profiles.on_change, "profile", profile_name, changed)

    def _follow(
        self,
        on_change: Callable[[Callable[[Obj | None, Obj | None], None]], None],
        index: str,
        name: Callable[[Obj], str],
        changed: Callable[[Key], None],
    ) -> None:
        self._clusters.add_index(index, lambda cluster: (name(cluster),) if name(cluster) else ())

        def notify(old: Obj | None, new: Obj | None) -> None:
            for cluster in self._clusters.by_index(index, name_of(new or old or {})):
                changed(key_of(cluster))

        on_change(notify)

    def load(self, cluster: Obj) -> tuple[bytes, Access]:
        """What was read, to tell changes by, and how to reach the worker; raises AccessProblem."""
        settings = self._settings
        if profile_name(cluster):
            document = self._from_profile(profile_name(cluster))
            try:
                found = access(document)
            except KubeconfigError as error:
                raise AccessProblem(BAD_CONFIG, str(error)) from error
            check_endpoint(found.server, BAD_CONFIG, plain=settings.allows_insecure)
            return json.dumps(document).encode(), found
        if is_path(cluster):
            check_path(path_of(cluster), Path(settings.kubeconfig_directory))
        text = load_document(cluster, settings.namespace, self._secrets.get)
        return text, safe_access(text, plain=settings.allows_insecure)

    def _from_profile(self, name: str) -> Obj:
        """A kubeconfig out of a ClusterProfile and the program configured for one of its access providers."""
        if self._profiles is None:
            raise AccessProblem(PROFILE_DISABLED, "MultiKueueClusterProfile feature gate is disabled")
        profile = self._profiles.get(Key(self._settings.namespace, name))
        if profile is None:
            raise AccessProblem(BAD_PROFILE, f'ClusterProfile.multicluster.x-k8s.io "{name}" not found')
        providers = {str(entry.get("name")): entry for entry in self._settings.access_providers}
        if not providers:
            raise AccessProblem(BAD_PROFILE, "no access provider configured")
        for offered in status_of(profile).get("accessProviders") or []:
            if offered.get("name") in providers:
                user = {"exec": providers[offered["name"]].get("execConfig") or {}}
                return _kubeconfig(name, offered.get("cluster") or {}, user)
        raise AccessProblem(BAD_PROFILE, f'no configured access provider fits ClusterProfile "{name}"')


def profile_name(cluster: Obj) -> str:
    """The ClusterProfile a MultiKueueCluster refers to; empty when it does not."""
    source = spec_of(cluster).get("clusterSource") or {}
    return str((source.get("clusterProfileRef") or {}).get("name") or "")


def _kubeconfig(name: str, cluster: Obj, user: Obj) -> Obj:
    return {
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
    }


def check_path(text: str, allowed: Path) -> None:
    """Refuse a kubeconfig file that does not lie in the one place for them, however it is written."""
    path = Path(text)
    if not path.is_absolute():
        raise AccessProblem(BAD, f"path {text!r} is not absolute")
    if ".." in path.parts:
        raise AccessProblem(BAD, f"path {text!r} must not lead out of its directory: it contains '..'")
    try:
        inside = path.is_relative_to(allowed) and path.resolve().is_relative_to(allowed.resolve())
    except (OSError, ValueError, RuntimeError) as error:  # a NUL, or links that lead in a circle
        raise AccessProblem(BAD, f"path {text!r} is not the name of a file") from error
    if not inside:
        raise AccessProblem(BAD, f"path {text!r} is not under {allowed}/, the directory of corral.kubeconfigDirectory")
