"""What the folder of a job kind says about itself: one value, which the whole of Corral is put together from.

Every part is named as `module:attribute` and imported when it is first needed: a command line loads no operator, and a
cluster loads only what it runs. The same value is the door for kinds from outside: a package that declares it under the
entry point group `corral.jobs` is served, queued, dispatched and run like the kinds in `corral.jobs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Any

ENTRY_POINTS = "corral.jobs"
"""The group of entry points that packages declare their kinds under."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledOperator:
    """What people and tools look for when they ask whether an operator is installed."""

    namespace: str
    deployment: str
    labels: Mapping[str, str]
    """On its pods; the Deployment selects by them."""
    container: str = "manager"
    replicas: int = 1
    """None where the namespace is one in which people look at their own pods."""
    webhook_service: str = ""
    """The Service its webhooks are called by; what they check is checked by the kind's admission here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    """A kind of job, or the kinds that one project ships together."""

    name: str
    """How it is called in messages, such as `jobset`."""
    kinds: str = ""
    """The `KindDef`s it brings. Those that are not `builtin` get a CustomResourceDefinition."""
    adapters: Mapping[str, str] = field(default_factory=dict)
    """Its `JobAdapter` classes by framework name, the name in `integrations.frameworks`."""
    sets: Mapping[str, str] = field(default_factory=dict)
    """`QueuedSet` classes by framework name: for kinds without a suspend flag, queued by their pods."""
    on_by_default: bool = True
    """Whether it is queued where the configuration does not say what is."""
    operators: str = ""
    """A function of an `OperatorContext` that registers the controllers that run its jobs in an embedded cluster."""
    identity: str = ""
    """The `Identity` its operators act under in an embedded cluster: whatever its rules do not allow is refused them."""
    installation: InstalledOperator | None = None
    """The Deployment its operator has where it runs by itself, shown in embedded clusters while the operator runs there."""
    admission: str = ""
    """A function of an `OperatorContext`: admission plug-ins, for what its webhooks check elsewhere."""
    posts: str = ""
    """A function of an `OperatorContext`: handlers of POST requests to its subresources."""
    features: Mapping[str, bool] = field(default_factory=dict)
    """Feature gates of its operators, and whether they are on by default."""
    carried: str = ""
    """A function of an object of its kinds: the objects inside that its operator creates for whoever made it."""
    options: tuple[str, ...] = ()
    """Switches of its operators under `operators` in a fleet's file: true, false, or left to the operator."""
    submissions: Mapping[str, str] = field(default_factory=dict)
    """Makers of its objects from a `Submission`, by the word of `corral submit --kind`."""
    simulated: str = ""
    """`SimulatedKind`s: jobs of its kinds as a fleet on virtual time submits them."""

    def part(self, reference: str) -> Any:
        """What a part refers to, imported now; None for an empty one."""
        return resolve_name(reference) if reference else None
