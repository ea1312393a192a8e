"""What somebody asks for who has a program and a folder; checked, and made the object of its kind.

The command line and the Python API fill in the same `Request`, so that both refuse with the same words. What a request is made of
is looked up on the cluster once: many jobs of one request differ in their names, arguments and environment only.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from corral.client.sync import SyncClient
from corral.core.errors import Forbidden, NotFound
from corral.core.meta import Obj, name_of
from corral.core.resource import Resource
from corral.inspect.lookup import find_resource
from corral.inspect.naming import UnknownName, check_namespace, get_named
from corral.jobs.framework.registry import made_from, submission_makers
from corral.jobs.framework.submission import Submission
from corral.kinds.kueue import LOCAL_QUEUES, WORKLOAD_PRIORITY_CLASSES
from corral.submit.archive import Archive, pack
from corral.submit.errors import SubmitError
from corral.submit.folder import IGNORE_FILES
from corral.submit.interpreter import LOCAL_IMAGE, command_of, local_python, search_path, uses_python
from corral.submit.share import USUAL, too_much, usual_cpus
from corral.submit.values import check_values, slug

LONGEST_NAME: Final = 40
MODULE: Final = "-m"
SCRIPTS: Final = (".py", ".sh")
GPU: Final = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One program to run; what is empty is chosen for the user."""

    program: tuple[str, ...]
    """A script or a command, and its arguments."""
    folder: Path = field(default_factory=Path.cwd)
    """What goes with the job."""
    sends_folder: bool = True
    in_place: bool = False
    """Whether it runs in the folder itself and not in a copy: what it writes stays."""
    fetch: tuple[str, ...] = ()
    """What the program writes that is brought back into the folder when it has ended: files and folders, also as patterns."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """What goes with it beside the folder, by where it is in the job's own."""
    kind: str = "job"
    name: str = ""
    namespace: str = ""
    queue: str = ""
    priority: str = ""
    workers: int = 1
    cpus: str = ""
    """CPUs of each pod; empty is one, or as much less as lets the job fit the largest worker."""
    memory: str = ""
    gpus: int = 0
    gpu_resource: str = GPU
    environment: Mapping[str, str] = field(default_factory=dict)
    image: str = ""
    python: str = ""
    requirements: str = ""
    """A file of the folder whose packages are installed before the program starts."""
    retries: int = 0

    def check(self) -> None:
        """What can be said without a cluster. A script that does not travel is said now, and not in the logs of a pod."""
        if not self.program:
            raise SubmitError("there is nothing to run: name a script or a command")
        check_values(self)
        if self.kind not in submission_makers():
            raise SubmitError(f"there is no kind {self.kind!r}; there are {', '.join(sorted(submission_makers()))}")
        script = self.script
        looks_like_file = script.endswith(SCRIPTS) and not Path(script).is_absolute()
        is_sent = script in self.files or (self.folder / script).is_file()
        if script.endswith(".ipynb") and (self.folder / script).is_file():
            raise SubmitError(f"{script} is a notebook: `jupyter nbconvert --to script {script}` makes a script of it")
        if self.sends_folder and looks_like_file and not is_sent:
            raise SubmitError(
                f"there is no {script} in {self.folder}; --workdir names the folder that goes with the job"
            )
        if not is_sent and not self.image:
            self._check_program(script)
        if is_sent and not self.image and "/" not in script and not looks_like_file and shutil.which(script) is None:
            raise SubmitError(f"{script} is a file of the folder, and no program is called that: ./{script} runs it")
        if len(words := script.split()) > 1 and not is_sent and not self.image:
            raise SubmitError(f"there is no program {script!r}; write the words of a command apart: {' '.join(words)}")
        if self.in_place:
            self._check_in_place()
        for path in self.fetch:
            self._check_fetched(path)
        if self.python and not self.requirements and not uses_python(script):
            raise SubmitError(
                f"--python has no effect: {script} is no Python script, and no --requirements are installed"
            )
        if self.gpu_resource != GPU and not self.gpus:
            raise SubmitError(f"--gpu-resource {self.gpu_resource} has no effect without --gpus")
        if self.requirements and self.requirements not in self.files:
            self._check_requirements()

    @property
    def script(self) -> str:
        """What is run, by where it is in the folder that goes with the job."""
        named = Path(self.program[0])
        if self.sends_folder and named.is_absolute() and named.is_file() and named.is_relative_to(self.folder):
            return named.relative_to(self.folder).as_posix()
        return self.program[0]

    def _check_program(self, script: str) -> None:
        """Words that look like a program to whoever wrote them."""
        there = self.folder / script
        if there.is_dir() and (there / "__main__.py").is_file():
            raise SubmitError(f"{script} is a package: `-m {script}` runs it")
        if there.is_dir():
            raise SubmitError(f"{script} is a folder; name a script or a command")
        if (self.folder / f"{script}.py").is_file() and shutil.which(script) is None:
            raise SubmitError(f"there is no program {script}; did you mean {script}.py?")

    def _check_in_place(self) -> None:
        if not self.sends_folder:
            raise SubmitError("running in place needs the folder, and sending none leaves it away: choose one")
        if self.files:
            raise SubmitError("functions cannot run in place: what they are made of travels with their job")

    def _check_fetched(self, path: str) -> None:
        if self.in_place:
            raise SubmitError(f"{path} needs no fetching: in place, what the program writes is in the folder itself")
        if not self.sends_folder and not self.files:
            raise SubmitError(f"{path} is fetched from the folder that goes with the job, and no folder is sent")
        if not path or Path(path).is_absolute() or ".." in Path(path).parts:
            raise SubmitError(
                f"{path or 'nothing'} cannot be fetched: name what the program writes by its place in the folder it starts in"
            )

    def _check_requirements(self) -> None:
        if not self.sends_folder:
            raise SubmitError(f"{self.requirements} goes with the folder, and no folder is sent")
        if not self.requirements_file.is_file():
            raise SubmitError(f"there is no {self.requirements} in {self.folder}")
        if not self.requirements_file.is_relative_to(self.folder.resolve()):
            raise SubmitError(
                f"{self.requirements} is not in {self.folder}, the folder that goes with the job; --workdir names another"
            )

    @property
    def requirements_file(self) -> Path:
        return (self.folder / self.requirements).resolve()

    def archive(self) -> Archive | None:
        """What goes with the job, packed; None where nothing does."""
        if self.in_place or (not self.sends_folder and not self.files):
            return None
        packed = pack(self.folder if self.sends_folder else None, files=self.files)
        if self.sends_folder:
            self._check_travels(packed)
        return packed

    def _check_travels(self, packed: Archive) -> None:
        """What the job begins with is in its folder, and no ignore file leaves it out."""
        script = self.script if self.program else ""
        named = [script] if script.endswith(SCRIPTS) or "/" in script else []
        top = self.folder.resolve()
        for name in (*named, self.requirements):
            file = (top / name).resolve()
            if Path(name).is_absolute() or name in self.files or not file.is_file():
                continue
            if not file.is_relative_to(top):
                raise SubmitError(
                    f"{name} is not in {self.folder}, the folder that goes with the job; --workdir names another"
                )
            if (inside := file.relative_to(top).as_posix()) not in packed.names:
                raise SubmitError(
                    f"{name} does not go with the job, which begins with it: an ignore file in {self.folder} leaves it out; "
                    f"`!/{inside}` at the end of {IGNORE_FILES[0]} brings back what is not in a folder that is left out"
                )

    def sent_requirements(self) -> str:
        """The name of the file of requirements inside what goes with the job."""
        if not self.requirements or self.requirements in self.files:
            return self.requirements
        return self.requirements_file.relative_to(self.folder.resolve()).as_posix()


def submission_for(client: SyncClient, request: Request, archive: Archive | None) -> Submission:
    """A request with everything filled in that this cluster and this machine decide."""
    request.check()
    namespace = request.namespace or client.access.namespace
    if not request.image and not is_embedded(client):
        raise SubmitError("pods are containers on this cluster: name an image with --image")
    if request.in_place and not is_embedded(client):
        raise SubmitError(
            "pods are containers on this cluster, which do not have your folder: nothing runs in place here"
        )
    if request.fetch and not is_embedded(client):
        raise SubmitError(
            "pods are containers on this cluster, which do not have your folder: nothing is fetched into it; let the program write to "
            "a volume or to storage, or copy from it while it runs (`corral cp job/NAME:PATH .`)"
        )
    python, environment = request.python or "python3", dict(request.environment)
    if not request.image:
        python = local_python(request.python, os.environ, request.folder)
        environment = {"PATH": search_path(python, os.environ), **environment}
    script, arguments = request.script, request.program[1:]
    if not uses_python(script):  # which is told by its arguments; a program may be Python all the same, or start it
        environment = {"PYTHONUNBUFFERED": "1", **environment}
    queue = queue_for(client, namespace, request.queue)
    _check_priority(client, request.priority)
    wanted = Submission(
        name=request.name or name_from(arguments[0] if script == MODULE and arguments else script),
        namespace=namespace,
        command=command_of(script, arguments, python),
        image=request.image or LOCAL_IMAGE,
        queue=name_of(queue),
        priority=request.priority,
        workers=request.workers,
        cpus=request.cpus or USUAL,
        memory=request.memory,
        gpus=request.gpus,
        gpu_resource=request.gpu_resource,
        environment=environment,
        folder=str(request.folder) if request.in_place else "",
        home=str(request.folder) if request.fetch else "",
        fetch=request.fetch,
        code=tuple(name_of(piece) for piece in archive.config_maps(namespace)) if archive else (),
        requirements=request.sent_requirements(),
        python=python,
        retries=request.retries,
    )
    if not request.cpus:
        cpus = usual_cpus(queue, lambda cpus: made_from(request.kind, replace(wanted, cpus=cpus)))
        wanted = replace(wanted, cpus=cpus)
    return replace(wanted, warning=too_much(queue, made_from(request.kind, wanted)))


def object_of(client: SyncClient, kind: str, wanted: Submission) -> tuple[Resource, Obj]:
    """The resource and the object of a kind."""
    job = made_from(kind, wanted)
    group, _, version = job["apiVersion"].rpartition("/")
    resource = find_resource(client, f"{job['kind'].lower()}.{group}")
    if resource is None:
        raise SubmitError(f"this cluster does not know {job['kind']}s")
    return resource.at(version), job  # a group may have more versions, of which another is preferred


def queue_for(client: SyncClient, namespace: str, given: str) -> Obj:
    """The queue to submit to: the one named, or the only one of the namespace."""
    try:
        known: dict[str, Obj] = {name_of(queue): queue for queue in client.list(LOCAL_QUEUES, namespace)["items"]}
    except NotFound as error:
        raise SubmitError(
            "this cluster has no queues at all: Corral does not run on it; `corral controllers install` brings it there"
        ) from error
    queues = sorted(known)
    if given:
        if given in known:
            return known[given]
        there = f"there are {', '.join(queues)}" if queues else "there are none"
        raise SubmitError(f"there is no queue {given} in namespace {namespace}; {there}")
    if len(queues) == 1:
        return known[queues[0]]
    if not queues:
        check_namespace(client, namespace)
        raise SubmitError(
            f"namespace {namespace} has no queue; `corral queue create` makes one, -n names another namespace"
        )
    raise SubmitError(f"namespace {namespace} has several queues: name one of {', '.join(queues)} with --queue")


def _check_priority(client: SyncClient, name: str) -> None:
    """A class of priority that is not there is said now: a job that names one is queued nowhere."""
    if not name:
        return
    try:
        get_named(client, WORKLOAD_PRIORITY_CLASSES, name)
    except Forbidden:
        return  # it is not the user's to know
    except UnknownName as error:
        raise SubmitError(str(error)) from error


def is_embedded(client: SyncClient) -> bool:
    """Whether pods are processes of a machine and not containers: Corral's own servers say so in their version."""
    return "corral" in str(client.call("GET", "/version").get("gitVersion", ""))


def name_from(word: str) -> str:
    """A name for a job from that of its script or function, with a few letters that make it one of its own."""
    from corral.runtime.secrets import random_bytes

    return f"{slug(Path(word).stem, LONGEST_NAME) or 'job'}-{random_bytes(3).hex()}"
