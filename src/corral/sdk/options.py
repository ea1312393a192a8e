"""What a job may be given, in one place for clients, decorator and command line; made a `Request` that the library checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TypedDict

from corral.submit.errors import SubmitError
from corral.submit.request import Request


class JobOptions(TypedDict, total=False):
    """How a program or function is run; everything has a default."""

    name: str
    """Name of the job (default: from the program, with a few letters)."""
    namespace: str
    """Namespace (default: the client's)."""
    queue: str
    """LocalQueue (default: the only one of the namespace)."""
    priority: str
    """WorkloadPriorityClass."""
    kind: str
    """`job`, `pytorch`, `jax`, `jobset`, `mpi` or `ray` (default: `job`)."""
    workers: int
    """Pods that run it (default: 1)."""
    cpus: int | float | str
    """CPUs of each pod (default: 1)."""
    memory: str
    """Memory of each pod, such as `4Gi`; one that takes more is ended."""
    gpus: int
    """GPUs of each pod (default: 0)."""
    gpu_resource: str
    """What a GPU is called (default: `nvidia.com/gpu`)."""
    env: Mapping[str, str]
    """Environment variables."""
    image: str
    """Container image; needed where pods are containers."""
    python: str
    """Interpreter (default: the active environment's; for functions, this one)."""
    requirements: str
    """A file of the folder whose packages are installed before the start."""
    workdir: str | Path
    """Folder that goes with the job (default: this one; see [functions](#functions) for theirs)."""
    in_place: bool
    """True to run in the folder itself and not in a copy, so that what the program writes stays; for fleets of this machine."""
    fetch: Sequence[str]
    """What the program writes that is brought back into the folder when it has ended, such as `["model.pt", "plots"]`; for fleets of this machine."""
    send_folder: bool
    """False where the image has everything (default: True)."""
    retries: int
    """How often a failed pod is tried again (default: 0)."""


SAME = (
    "name",
    "namespace",
    "queue",
    "priority",
    "kind",
    "workers",
    "gpus",
    "gpu_resource",
    "image",
    "python",
)


def check_options(options: Mapping[str, object]) -> None:
    """Refuse what there is not."""
    for name in options:
        if name not in JobOptions.__annotations__:
            close = get_close_matches(name, JobOptions.__annotations__, n=1)
            raise SubmitError(f"there is no option {name}" + (f"; did you mean {close[0]}?" if close else ""))


def _text(amount: object) -> str:
    """An amount as it is written; nothing where there is none."""
    return "" if amount is None else str(amount)


def request_for(
    program: tuple[str, ...], options: JobOptions, namespace: str, files: Mapping[str, bytes] | None = None
) -> Request:
    """The request of a program."""
    check_options(options)
    given = {
        name: value
        for name in (*SAME, "in_place", "requirements", "retries")
        if (value := options.get(name)) is not None
    }
    environment = options.get("env") or {}
    if not isinstance(environment, Mapping):
        raise SubmitError(f"env is {environment!r}, and has to name values, such as {{'SEED': '1'}}")
    fetch = options.get("fetch") or ()
    if isinstance(fetch, str) or not all(isinstance(path, str) for path in fetch):
        raise SubmitError(f"fetch is {fetch!r}, and has to be a list of files and folders, such as ['model.pt']")
    return Request(
        **{"namespace": namespace, **given},  # type: ignore[arg-type]  # the names and types are those of JobOptions
        program=program,
        files=files or {},
        fetch=tuple(fetch),
        folder=Path(options.get("workdir") or Path()).absolute(),
        sends_folder=options.get("send_folder", True),
        cpus=_text(options.get("cpus")),
        memory=_text(options.get("memory")),
        environment={name: str(value) for name, value in environment.items()},
    )
