"""Reading a cluster's `config` before anything starts: what is wrong is told with the file and the field.

The document is Kueue's Configuration with three parts of ours. Its fields are those that the parsers of this room ask for;
there is no other list. One of Kueue's that has no effect here is told in the log, one that looks like a slip of the pen is
refused, and so is every unknown one in the parts that are ours.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from corral.configuration.part import ConfigurationError, Part
from corral.core import yaml_documents
from corral.core.meta import Obj
from corral.core.text_files import read_text
from corral.core.yaml_lines import line_of, steps
from corral.kinds.kueue.gates import FeatureGates

log = logging.getLogger(__name__)

LIKENESS, SLIP = 0.6, 0.85
OURS = ("corral", "placement", "member")
UNUSED = (
    "apiVersion", "controller", "health", "internalCertManagement", "leaderElection", "metadata",
    "pprofBindAddress", "tls", "webhook",
)  # fmt: skip
"""What Kueue's Configuration says of Kueue's own process; there is nothing to tell when it has no effect on ours."""


def read_configuration(path: Path) -> Obj:
    """The document in a file, checked."""
    try:
        text = read_text(path)
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigurationError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    return checked_configuration(text, str(path))


def checked_configuration(text: str, origin: str) -> Obj:
    """The document in a text, checked; `origin` is named in errors."""
    try:
        content = yaml_documents.load(text)
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigurationError(f"{origin} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise ConfigurationError(
            f"{origin}: it is not a mapping; a configuration has fields such as `integrations` and `multiKueue`"
        )
    document = Part(content)
    for fault in faults(document):
        line = line_of(text, steps(fault.field))
        raise ConfigurationError(f"{origin}{f', line {line}' if line else ''}: {fault.text}")
    for sentence in unheeded(document):
        log.warning("%s: %s", origin, sentence)
    return dict(content)


class Fault(NamedTuple):
    """Something wrong with a document: the path of the field, and the words."""

    field: str
    text: str


def faults(document: Part) -> Iterator[Fault]:
    """What is wrong with a document. Afterwards it knows which of its fields have been read."""
    try:
        read_all(document)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        yield Fault(str(error).partition(":")[0], str(error))
        return
    for name in OURS:
        part = document.part(name)
        for field in part.unread():
            unknown = field.partition(".")[2]
            yield Fault(field, f"{name}: unknown field {unknown!r}; there are {', '.join(part.known())}")
    for field in document.unread():
        parent, _, name = field.rpartition(".")
        known = document.within(parent).known() if parent else [*document.known(), *UNUSED]
        # Kueue has more fields than Corral reads: inside a part only what is all but equal to one of ours is a slip of the pen.
        if close := _close_to(name, known, SLIP if parent else LIKENESS):
            yield Fault(field, f"{f'{parent}: ' if parent else ''}unknown field {name!r}; did you mean {close[0]!r}?")
    for unknown in _unknown_frameworks(document.part("integrations").get("frameworks") or ()):
        yield Fault("integrations.frameworks", unknown)


def read_all(document: Part) -> None:
    """Let every parser read the document."""
    from corral.configuration.client_connection import call_rate
    from corral.configuration.dispatch import dispatch_settings
    from corral.configuration.member import member_settings
    from corral.configuration.placement import placement_settings
    from corral.configuration.queueing import load_config

    readers: tuple[Callable[[Part], object], ...] = (
        call_rate,
        load_config,
        dispatch_settings,
        placement_settings,
        member_settings,
    )
    for read in readers:
        read(document)


def without_effect(document: Part) -> list[str]:
    """Fields of a document that everybody has read, and nobody cared for."""
    return [field for field in document.unread() if field.partition(".")[0] not in UNUSED]


def unheeded(document: Part) -> list[str]:
    """What a document asks for and does not get, a sentence each. Every parser must have read it."""
    fields = [f"the field {field} has no effect in Corral" for field in without_effect(document)]
    gates = FeatureGates(document.get("featureGates"))
    if document.part("metrics").get("customLabels") and not gates["CustomMetricLabels"]:
        fields.append("the field metrics.customLabels has no effect while the feature gate CustomMetricLabels is off")
    inert = gates.inert().items()
    return fields + [f"the feature gate {name} has no effect in Corral: {why}" for name, why in inert]


def unheeded_settings(configuration: Obj) -> list[str]:
    """The same of a document that nobody has read yet, and that is not wrong."""
    document = Part(configuration)
    read_all(document)
    return unheeded(document)


def _close_to(name: str, known: list[str], likeness: float) -> list[str]:
    from difflib import get_close_matches  # only for words of complaint

    return [] if name in known else get_close_matches(name, known, n=1, cutoff=likeness)


def _unknown_frameworks(names: Any) -> Iterator[str]:
    from corral.jobs.framework.registry import known_frameworks

    known = known_frameworks()
    for name in names:
        if name not in known:
            yield f"integrations.frameworks: Corral does not queue {name!r}; there are {', '.join(known)}"
