"""Starting one program: fork, become the container, execute.

`Launch` is the whole order, as JSON-shaped data: what the control plane sends and the supervisor keeps on disk. The child
reports through a socket: nothing and a close when the program runs, a sentence when it cannot, and before that, when
socket calls are to be watched, the listener for them.
"""

# Plain strings instead of pathlib: runs between fork and exec.
# ruff: noqa: PTH110, PTH112, PTH118, PTH119

from __future__ import annotations

import os
import resource
import signal
import socket
from dataclasses import asdict, dataclass, replace
from typing import Any, NoReturn

from corral.node.process import filters, kernel
from corral.node.process.view import Mount, RootView


@dataclass(frozen=True, slots=True)
class Launch:
    """An order to run one program as (part of) a container."""

    id: str
    argv: tuple[str, ...]
    env: dict[str, str]
    directory: str
    """State of this run on disk: `log` and `exit.json` are written here."""
    cwd: str = "/"
    hostname: str = ""
    address: str = ""
    mounts: tuple[Mount, ...] = ()
    user: int | None = None
    group: int | None = None
    memory: int | None = None
    """Bytes; more than this and the container is killed as out of memory."""
    cpu_milli: int | None = None
    groups: tuple[int, ...] = ()
    """Supplementary groups besides the one it runs as."""
    dropped: tuple[str, ...] = ()
    """Capabilities it does without, by name; ALL is all of them."""
    kept: tuple[str, ...] = ()
    """Those that it keeps of ALL."""
    no_new_privileges: bool = False
    read_only_root: bool = False
    filtered: bool = False
    """Whether system calls that change the machine are refused."""
    all_devices: bool = False
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    isolate: bool = True
    inside: str = ""
    """The id of the running container to enter; empty starts a container."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Launch:
        mounts = tuple(Mount(**mount) for mount in data.get("mounts", ()))
        lists = {name: tuple(data.get(name, ())) for name in ("argv", "groups", "dropped", "kept")}
        return cls(**{**data, **lists, "mounts": mounts})


@dataclass(frozen=True, slots=True)
class Abilities:
    """What the supervisor can offer a child."""

    root: str
    """An empty directory on which a view may be built; the mount is private to each child."""
    can_isolate: bool
    can_watch_sockets: bool
    is_real_root: bool


def spawn(
    launch: Launch, streams: tuple[int, int, int], abilities: Abilities, enter: int | None
) -> tuple[int, socket.socket]:
    """Fork a child that becomes `launch` once it is told to. Returns its pid and the socket on which it hears and reports."""
    parent_end, child_end = socket.socketpair()
    pid = os.fork()
    if pid:
        child_end.close()
        return pid, parent_end
    try:
        parent_end.close()
        _become(launch, streams, abilities, enter, child_end)
    except BaseException as error:  # the child must never return into the supervisor's loop
        try:
            child_end.sendall(_sentence(launch, error).encode())
        finally:
            os._exit(128)


def let_go(report: socket.socket) -> None:
    """Tell a child that it may become its program: everything that must hold of it from its first moment holds."""
    try:
        report.send(b".")
    except OSError:
        pass  # it has ended, and its end says why


def probe(abilities: Abilities) -> Abilities:
    """What of `abilities` really works here, found out by a child that tries."""
    pid = os.fork()
    if pid == 0:
        failed = 0
        try:
            if abilities.can_isolate:
                _isolate(Launch("probe", (), {}, ""), abilities)
        except OSError:
            failed |= 1
        try:
            if abilities.can_watch_sockets:
                kernel.watch_socket_calls()
        except OSError:
            failed |= 2
        finally:
            os._exit(failed)
    failed = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return replace(
        abilities,
        can_isolate=abilities.can_isolate and failed in (0, 2),
        can_watch_sockets=abilities.can_watch_sockets and failed in (0, 1),
    )


def _sentence(launch: Launch, error: BaseException) -> str:
    program = launch.argv[0] if launch.argv else ""
    if isinstance(error, FileNotFoundError) and error.filename == launch.cwd:
        return f'failed to set working directory: chdir to cwd ("{launch.cwd}"): no such file or directory'
    if isinstance(error, FileNotFoundError):
        where = "no such file or directory" if "/" in program else "executable file not found in $PATH"
        return f'failed to create task: unable to start container process: exec: "{program}": {where}'
    if isinstance(error, PermissionError):
        return f'failed to create task: unable to start container process: exec: "{program}": permission denied'
    return f"failed to create task: {error}"


def _become(
    launch: Launch, streams: tuple[int, int, int], abilities: Abilities, enter: int | None, report: socket.socket
) -> NoReturn:
    if not report.recv(1):
        os._exit(128)  # the supervisor has ended
    os.setsid()
    os.umask(0o022)  # before mount points are made: other users walk through them
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    if launch.tty:
        import fcntl
        import termios

        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for handled in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGXFSZ):
        signal.signal(handled, signal.SIG_DFL)
    if enter is not None:
        _join(enter)
    elif launch.isolate and abilities.can_isolate:
        _isolate(launch, abilities)
    os.chdir(launch.cwd)
    _limit()
    if launch.address and abilities.can_watch_sockets:
        listener = kernel.watch_socket_calls()
        socket.send_fds(report, [b"+"], [listener])
        os.close(listener)
    if launch.no_new_privileges:
        kernel.refuse_new_privileges()
    if launch.filtered:
        kernel.filter_calls(filters.default_profile())
    kernel.drop_capabilities(launch.dropped, launch.kept)
    if abilities.is_real_root:
        _drop_privileges(launch)
    kernel.die_with_parent(signal.SIGKILL)  # a change of user would have undone it
    _execute(launch)


def _isolate(launch: Launch, abilities: Abilities) -> None:
    kernel.unshare(kernel.NEW_MOUNTS | kernel.NEW_HOSTNAME)
    kernel.detach_propagation()
    view = RootView(abilities.root, all_devices=launch.all_devices)
    view.build(list(launch.mounts))
    if launch.read_only_root:
        view.protect([mount.target for mount in launch.mounts if not mount.read_only])
    view.enter()
    if launch.hostname:
        kernel.set_hostname(launch.hostname[:63])


def _join(pid: int) -> None:
    handles = [
        (os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY), flag)
        for name, flag in (("mnt", kernel.NEW_MOUNTS), ("uts", kernel.NEW_HOSTNAME))
    ]
    for handle, flag in handles:
        kernel.enter(handle, flag)
        os.close(handle)


def _limit() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _drop_privileges(launch: Launch) -> None:
    if launch.group is not None or launch.groups:
        own = [launch.group] if launch.group is not None else os.getgroups()
        os.setgroups([*own, *launch.groups])
    if launch.group is not None:
        os.setgid(launch.group)
    if launch.user is not None:
        os.setuid(launch.user)


def _execute(launch: Launch) -> NoReturn:
    program = launch.argv[0]
    environment = dict(launch.env)
    if program.startswith("/") and not os.path.exists(program):
        # The image would have it there; the machine may have it elsewhere on the path.
        found = _on_path(os.path.basename(program), environment)
        program = found or program
    os.execvpe(program, list(launch.argv), environment)


def _on_path(name: str, environment: dict[str, str]) -> str | None:
    for directory in environment.get("PATH", os.defpath).split(":"):
        candidate = os.path.join(directory, name)
        if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):
            return candidate
    return None
