"""A TrainJob and the runtime it uses: what both together say about the training."""

from __future__ import annotations

from dataclasses import dataclass

from corral.core.meta import Obj, name_of, spec_of
from corral.jobs.trainjob.kind import policy_of


@dataclass(frozen=True, slots=True)
class Training:
    """One TrainJob with its runtime."""

    job: Obj
    runtime: Obj

    @property
    def name(self) -> str:
        return name_of(self.job)

    @property
    def trainer(self) -> Obj:
        """What the TrainJob says about its trainer."""
        return spec_of(self.job).get("trainer") or {}

    @property
    def policy(self) -> str:
        """The framework."""
        return policy_of(self.runtime)

    @property
    def policy_settings(self) -> Obj:
        """What the runtime says about its framework."""
        return (spec_of(self.runtime).get("mlPolicy") or {}).get(self.policy) or {}

    @property
    def nodes(self) -> int:
        """How many nodes train: the TrainJob's number, else the runtime's, else one."""
        own = self.trainer.get("numNodes")
        if own is not None:
            return int(own)
        return int((spec_of(self.runtime).get("mlPolicy") or {}).get("numNodes", 1))
