"""What a cluster hands to the operators of job kinds: the manager they register with, how they are set up, and whom it lets do what."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from corral.client.protocol import Client
from corral.core.admission import UserInfo
from corral.core.meta import Obj
from corral.jobs.framework.registry import features
from corral.runtime.controller import Manager

MayCreate = Callable[[UserInfo, Obj, str], Awaitable[bool]]
"""Whether a user may create an object in a namespace, by every guard there is for that user."""
ActAs = Callable[[UserInfo], Client]
"""The cluster's API as a user: what that user may not do is refused."""


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """Set per cluster."""

    gang_scheduler: str = ""
    """`volcano`, or the name of a scheduler built with scheduler-plugins; empty for none."""
    features: Mapping[str, bool] = field(default_factory=dict)
    """Features switched away from their default."""
    options: Mapping[str, bool | None] = field(default_factory=dict)
    """Switches of single kinds; one that is missing or None is left to the operator."""
    real_pods: bool = False
    """Pods are programs of this machine: what a framework needs has to be there, or nothing of it runs."""

    def __post_init__(self) -> None:
        known = features()
        unknown = sorted(set(self.features) - set(known))
        if unknown:
            raise ValueError(f"unknown feature {unknown[0]}; there are {', '.join(sorted(known))}")

    def has(self, feature: str) -> bool:
        return self.features.get(feature, features()[feature])


@dataclass(frozen=True, slots=True)
class OperatorContext:
    """One cluster, as operators and their admission plug-ins see it."""

    manager: Manager
    """Controllers register themselves with it; its client and clock are the cluster's."""
    settings: OperatorSettings = field(default_factory=OperatorSettings)
    may_create: MayCreate | None = None
    """Answers for kinds that carry other objects inside; None lets everybody."""
    act_as: ActAs | None = None
    """For operators that create whatever somebody describes; None lets them do it as themselves, where nobody has rights."""
    starts_jobs: str = ""
    """The user that queueing acts as. It starts jobs of every kind and says where their pods go, those of wrapped jobs too."""
