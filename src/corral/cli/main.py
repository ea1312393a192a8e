"""The `corral` command: groups and commands, each loaded only when it is used."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence

import click

from corral import __version__
from corral.cli.groups import Commands

# command -> (module, attribute, one line of help)
COMMANDS: dict[str, tuple[str, str, str]] = {
    "up": ("corral.cli.up", "up", "Start a fleet of clusters on this machine."),
    "down": ("corral.cli.down", "down", "Stop the fleet; its state is kept."),
    "status": ("corral.cli.up", "status", "Show the clusters of the fleet."),
    "backup": ("corral.cli.backup", "backup", "Write the fleet to a file, also while it runs."),
    "restore": ("corral.cli.backup", "restore", "Bring the fleet of a backup back."),
    "secrets": ("corral.cli.secrets", "secrets", "Rotate the keys that encrypt Secrets on disk."),
    "kubectl-config": ("corral.cli.up", "kubectl_config", "Print how to point kubectl at the fleet."),
    "logs": ("corral.cli.logs", "logs", "Show the logs of a job, wherever it runs."),
    "demo": ("corral.cli.demo", "demo", "Show jobs of three kinds queued, dispatched and run."),
    "simulate": ("corral.cli.simulate", "simulate", "Say what would happen to jobs, on virtual time."),
    "serve": ("corral.cli.serve", "serve", "Serve one cluster's API."),
    "crds": ("corral.cli.crds", "crds", "Print the CustomResourceDefinitions for a real cluster."),
    "queue": ("corral.cli.queue", "queue", "Create, list, stop and resume queues."),
    "workload": ("corral.cli.workload", "workload", "List, stop and resume workloads."),
    "explain": ("corral.cli.explain", "explain", "Say why a job waits or where it went."),
    "clusters": ("corral.cli.clusters", "clusters", "Add, list, drain and remove worker clusters."),
    "fleet": ("corral.cli.fleet", "fleet", "Members and placements."),
    "dashboard": ("corral.dashboard.command", "dashboard", "Serve a web page over a cluster."),
    "completion": ("corral.cli.completion", "completion", "Print the completion script of a shell."),
    "controllers": ("corral.cli.controllers", "controllers", "Run the controllers over real Kubernetes clusters."),
}


class LazyGroup(Commands):
    """A group whose commands are imported on use, so that `corral --help` stays instant."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name, (module, _, _) in COMMANDS.items() if _exists(module)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None or not _exists(entry[0]):
            return None
        command = getattr(importlib.import_module(entry[0]), entry[1])
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][2]) for name in self.list_commands(ctx)])


def _exists(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="corral")
def corral() -> None:
    """One queue for AI/ML jobs over many Kubernetes clusters."""


def _is_here(text: str) -> bool:
    return "//127." in text or "//localhost" in text


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point: errors a user can act on are sentences, not tracebacks."""
    from corral.client.kubeconfig import KubeconfigError
    from corral.core.errors import ApiError, ConnectionFailed

    try:
        corral.main(args=list(arguments) if arguments is not None else None, prog_name="corral")
    except ConnectionFailed as error:
        here = (
            "; `corral status` shows whether a fleet runs here, `corral up` starts it" if _is_here(str(error)) else ""
        )
        click.echo(f"Error: {error}{here}", err=True)
        sys.exit(1)
    except (ApiError, KubeconfigError) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(1)
    except BrokenPipeError:
        sys.exit(1)
    except OSError as error:
        click.echo(f"Error: {f'{error.filename}: {error.strerror}' if error.filename else error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
