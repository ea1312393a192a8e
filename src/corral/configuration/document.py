"""Reading a cluster's `config` before anything starts: what is wrong is told with the file and the field.

The document is Kueue's Configuration with three parts of ours. Its fields are those that the parsers of this room ask for;
there is no other list. One of Kueue's that has no effect here is told in the log, one that looks like a slip of the pen is
refused, and so is every unknown one in the parts that are ours.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from corral.configuration.part import ConfigurationError, Part
from corral.core.meta import Obj
from corral.core.text_files import read_text

log = logging.getLogger(__name__)

OURS = ("corral", "placement", "member")
UNUSED = (
    "apiVersion", "clientConnection", "controller", "health", "internalCertManagement", "leaderElection", "metadata",
    "pprofBindAddress", "tls", "webhook",
)  # fmt: skip
"""What Kueue's Configuration says of Kueue's own process; there is nothing to tell when it has no effect on ours."""


def read_configuration(path: Path) -> Obj:
    """The document in a file, checked."""
    try:
        content = yaml.safe_load(read_text(path))
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise ConfigurationError(
            f"{path}: it is not a mapping; a configuration has fields such as `integrations` and `multiKueue`"
        )
    document = Part(content)
    for fault in faults(document):
        raise ConfigurationError(f"{path}: {fault}")
    for field in without_effect(document):
        log.warning("%s: the field %s has no effect in Corral", path, field)
    return dict(content)


def faults(document: Part) -> Iterator[str]:
    """What is wrong with a document. Afterwards it knows which of its fields have been read."""
    try:
        read_all(document)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        yield str(error)
        return
    for name in OURS:
        part = document.part(name)
        for field in part.unread():
            unknown = field.partition(".")[2]
            yield f"{name}: unknown field {unknown!r}; there are {', '.join(part.known())}"
    for field in document.unread():
        if "." not in field and (close := _close_to(field, [*document.known(), *UNUSED])):
            yield f"unknown field {field!r}; did you mean {close[0]!r}?"
    yield from _unknown_frameworks(document.part("integrations").get("frameworks") or ())


def read_all(document: Part) -> None:
    """Let every parser read the document."""
    from corral.configuration.dispatch import dispatch_settings
    from corral.configuration.member import member_settings
    from corral.configuration.placement import placement_settings
    from corral.configuration.queueing import load_config

    readers: tuple[Callable[[Part], object], ...] = (
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


def _close_to(name: str, known: list[str]) -> list[str]:
    from difflib import get_close_matches  # only for words of complaint

    return [] if name in known else get_close_matches(name, known, n=1)


def _unknown_frameworks(names: Any) -> Iterator[str]:
    from corral.jobs.framework.registry import known_frameworks

    known = known_frameworks()
    for name in names:
        if name not in known:
            yield f"integrations.frameworks: Corral does not queue {name!r}; there are {', '.join(known)}"
