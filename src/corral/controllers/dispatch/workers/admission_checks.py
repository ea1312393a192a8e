"""The Active condition of AdmissionChecks that dispatch: whether any of the clusters they name can be used."""

from __future__ import annotations

from collections.abc import Iterable

from corral.core import conditions
from corral.core.meta import Key, Obj, generation_of, key_of, name_of, spec_of, status_of
from corral.kinds.kueue import ADMISSION_CHECKS, MULTI_KUEUE_CLUSTERS, MULTI_KUEUE_CONFIGS, names
from corral.runtime.controller import Manager, Watch

BY_CONFIG = "config"
BY_CLUSTER = "cluster"


class MultiKueueChecks:
    """Writes the Active condition."""

    name = "multikueue_admissioncheck"

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._checks = manager.informer(ADMISSION_CHECKS)
        self._configs = manager.informer(MULTI_KUEUE_CONFIGS)
        self._clusters = manager.informer(MULTI_KUEUE_CLUSTERS)
        self._checks.add_index(BY_CONFIG, _config_index)
        self._configs.add_index(BY_CLUSTER, lambda config: spec_of(config).get("clusters") or ())
        manager.add(
            self,
            watches=[
                Watch(ADMISSION_CHECKS),
                Watch(MULTI_KUEUE_CONFIGS, map=self._checks_of_config),
                Watch(MULTI_KUEUE_CLUSTERS, map=self._checks_of_cluster, when=activity_changed),
            ],
        )

    def _checks_of_config(self, config: Obj) -> Iterable[Key]:
        return [key_of(check) for check in self._checks.by_index(BY_CONFIG, name_of(config))]

    def _checks_of_cluster(self, cluster: Obj) -> Iterable[Key]:
        configs = self._configs.by_index(BY_CLUSTER, name_of(cluster))
        return [key for config in configs for key in self._checks_of_config(config)]

    async def reconcile(self, key: Key) -> None:
        check = self._checks.get(key)
        if check is None or spec_of(check).get("controllerName") != names.MULTIKUEUE_CONTROLLER:
            return
        status, reason, message = self._assess(check)
        entry = conditions.condition(names.ACTIVE, status, reason, message, generation_of(check))
        held = status_of(check).get("conditions") or []
        updated = conditions.set_condition(held, entry, self._manager.clock.timestamp())
        if updated != held:
            patch = {"status": {"conditions": updated}}
            await self._manager.client.patch(
                ADMISSION_CHECKS, key.name, "", patch, subresource="status", manager="kueue"
            )

    def _assess(self, check: Obj) -> tuple[bool, str, str]:
        problem, config = self._config_of(check)
        if config is None:
            return False, "BadConfig", f"Cannot load the AdmissionChecks parameters: {problem}"
        wanted = spec_of(config).get("clusters") or []
        missing = [name for name in wanted if self._clusters.get(Key("", name)) is None]
        inactive = [
            name
            for name in wanted
            if (cluster := self._clusters.get(Key("", name))) is not None
            and not conditions.is_true(cluster, names.ACTIVE)
        ]
        parts = []
        if missing:
            parts.append(f"Missing clusters: [{' '.join(missing)}]")
        if inactive:
            parts.append(f"Inactive clusters: [{' '.join(inactive)}]")
        if not parts:
            return True, "Active", "The admission check is active"
        usable = len(missing) + len(inactive) < len(wanted)
        return usable, "SomeActiveClusters" if usable else "NoUsableClusters", ", ".join(parts)

    def _config_of(self, check: Obj) -> tuple[str, Obj | None]:
        parameters = spec_of(check).get("parameters")
        if not parameters:
            return "missing parameters reference", None
        group, kind, name = (str(parameters.get(field) or "") for field in ("apiGroup", "kind", "name"))
        if group != names.GROUP:
            return f'wrong group "{group}", expecting "{names.GROUP}": bad parameters reference', None
        if kind != "MultiKueueConfig":
            return f'wrong kind "{kind}", expecting "MultiKueueConfig": bad parameters reference', None
        if not name:
            return "empty name: bad parameters reference", None
        config = self._configs.get(Key("", name))
        return f'MultiKueueConfig.kueue.x-k8s.io "{name}" not found', config


def config_name(check: Obj) -> str:
    """The MultiKueueConfig a check that dispatches points at; empty for other checks."""
    spec = spec_of(check)
    if spec.get("controllerName") != names.MULTIKUEUE_CONTROLLER:
        return ""
    return str((spec.get("parameters") or {}).get("name") or "")


def _config_index(check: Obj) -> Iterable[str]:
    name = config_name(check)
    return (name,) if name else ()


def activity_changed(old: Obj | None, new: Obj | None) -> bool:
    """Whether a MultiKueueCluster came, went, or can be used from now on, or not any more."""
    if old is None or new is None:
        return True
    return conditions.is_true(old, names.ACTIVE) != conditions.is_true(new, names.ACTIVE)
