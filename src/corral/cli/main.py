"""The `corral` command: groups and commands, each loaded only when it is used."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from corral import __version__
from corral.cli.groups import Commands

# section -> command -> (module, attribute, one line of help)
SECTIONS: dict[str, dict[str, tuple[str, str, str]]] = {
    "A fleet on this machine": {
        "up": ("corral.cli.up", "up", "Start a fleet of clusters on this machine."),
        "down": ("corral.cli.down", "down", "Stop the fleet; its state is kept."),
        "status": ("corral.cli.up", "status", "Show the clusters of the fleet."),
        "demo": ("corral.cli.demo", "demo", "Show jobs of three kinds queued, dispatched and run."),
        "doctor": ("corral.cli.machine.doctor.command", "doctor", "Say what is wrong here, and how to mend it."),
        "backup": ("corral.cli.backup", "backup", "Write the fleet to a file, also while it runs."),
        "restore": ("corral.cli.backup", "restore", "Bring the fleet of a backup back."),
        "secrets": ("corral.cli.secrets", "secrets", "Rotate the keys that encrypt Secrets on disk."),
        "kubectl-config": ("corral.cli.up", "kubectl_config", "Print how to point kubectl at the fleet."),
    },
    "Jobs": {
        "run": ("corral.cli.submit", "run", "Run a program as a job, and show it until it ends."),
        "submit": ("corral.cli.submit", "submit", "Submit a program as a job."),
        "explain": ("corral.cli.explain", "explain", "Say why a job waits or where it went."),
        "logs": ("corral.cli.logs", "logs", "Show the logs of a job, wherever it runs."),
        "wait": ("corral.cli.objects.wait", "wait", "Wait until jobs have ended."),
        "cancel": ("corral.cli.objects.cancel", "cancel", "Stop jobs, and keep them to be looked at."),
        "retry": ("corral.cli.objects.cancel", "retry", "Run jobs again that have ended."),
        "exec": ("corral.cli.pods.exec", "exec", "Run a command in a container of a job, wherever it runs."),
        "cp": ("corral.cli.pods.copy", "copy", "Copy files into a container of a job, or out of it."),
        "top": ("corral.cli.pods.top", "top", "Show what nodes and pods use."),
        "events": ("corral.cli.objects.events", "events", "Show what was told about jobs, wherever they run."),
    },
    "Objects of any kind": {
        "get": ("corral.cli.objects.get", "get", "Show objects of any kind."),
        "describe": ("corral.cli.objects.describe", "describe", "Show objects in full, with their events."),
        "apply": ("corral.cli.objects.apply", "apply", "Create or change what manifests describe."),
        "delete": ("corral.cli.objects.delete", "delete", "Delete objects of any kind."),
        "examples": ("corral.cli.machine.examples", "examples", "List, print and copy examples."),
    },
    "Queues and clusters": {
        "queue": ("corral.cli.queue", "queue", "Create, list, stop and resume queues."),
        "workload": ("corral.cli.workload", "workload", "List, stop and resume workloads."),
        "clusters": ("corral.cli.clusters", "clusters", "Add, list, drain and remove worker clusters."),
        "fleet": ("corral.cli.fleet", "fleet", "Members and placements."),
        "simulate": ("corral.cli.simulate", "simulate", "Say what would happen to jobs, on virtual time."),
        "dashboard": ("corral.dashboard.command", "dashboard", "Serve a web page over a cluster."),
    },
    "Servers, real clusters, the shell": {
        "serve": ("corral.cli.serve", "serve", "Serve one cluster's API."),
        "controllers": ("corral.cli.controllers", "controllers", "Run the controllers over real Kubernetes clusters."),
        "crds": ("corral.cli.crds", "crds", "Print the CustomResourceDefinitions for a real cluster."),
        "completion": ("corral.cli.completion", "completion", "Print the completion script of a shell."),
        "version": ("corral.cli.machine.version", "version", "Print the versions of Corral, Python and the cluster."),
    },
}
COMMANDS = {name: entry for section in SECTIONS.values() for name, entry in section.items()}


OTHER_WORDS = {
    **dict.fromkeys(("jobs", "ls", "list", "ps"), "get jobs"),
    **dict.fromkeys(("squeue", "queued"), "workload list"),
    **dict.fromkeys(("queues", "sinfo"), "queue list"),
    **dict.fromkeys(("stop", "kill", "scancel"), "cancel job/NAME"),
    **dict.fromkeys(("rm", "remove"), "delete job/NAME"),
    **dict.fromkeys(("shell", "ssh", "attach"), "exec -it job/NAME sh"),
    **dict.fromkeys(("ui", "web", "gui"), "dashboard --open"),
    **dict.fromkeys(("start", "init"), "up"),
    **dict.fromkeys(("create", "replace"), "apply -f FILE"),
    **dict.fromkeys(("nodes", "workers"), "top"),
    "sbatch": "submit",
    "srun": "run",
    "why": "explain job/NAME",
    "tail": "logs -f job/NAME",
    "eta": "simulate --live",
}
"""What people write who come from kubectl, Slurm or a shell."""


class LazyGroup(Commands):
    """A group whose commands are imported on use, so that `corral --help` stays instant."""

    other_words = OTHER_WORDS

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name, (module, _, _) in COMMANDS.items() if _exists(module)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None or not _exists(entry[0]):
            return None
        command = getattr(importlib.import_module(entry[0]), entry[1])
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            from corral.cli.output.interruptions import INTERRUPTED

            click.echo("\nInterrupted.", err=True)
            sys.exit(INTERRUPTED)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """By what they are for; in columns that are the same for all of them."""
        known = set(self.list_commands(ctx))
        widest = max(map(len, known))
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(name.ljust(widest), entry[2]) for name, entry in commands.items() if name in known]
                )


def _exists(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="corral")
def corral() -> None:
    """One queue for AI/ML jobs over many Kubernetes clusters."""


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point: errors a user can act on are sentences, not tracebacks."""
    from corral.cli.output.terminal import guard
    from corral.client.kubeconfig import KubeconfigError
    from corral.core.errors import ApiError
    from corral.inspect.failures import sentence_of

    guard()
    try:
        corral.main(args=list(arguments) if arguments is not None else None, prog_name="corral")
    except (ApiError, KubeconfigError) as error:
        click.echo(f"Error: {sentence_of(error)}", err=True)
        sys.exit(1)
    except BrokenPipeError:
        from corral.cli.output.interruptions import discard_output

        discard_output()
        sys.exit(1)
    except OSError as error:
        click.echo(f"Error: {_sentence(error)}", err=True)
        sys.exit(1)


def _sentence(error: OSError) -> str:
    """What the system says, and of what."""
    if error.filename:
        return f"{error.filename}: {error.strerror}"
    try:
        Path.cwd()
    except FileNotFoundError:
        return "this folder is not there any more; change into another one"
    return str(error)


if __name__ == "__main__":
    main()
