"""`corral controllers`: Corral's controllers over real Kubernetes clusters."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import click

from corral.cli.groups import Commands
from corral.cli.options import cluster_options, kubeconfig_file

if TYPE_CHECKING:
    from corral.client.kubeconfig import Access
    from corral.clusters.process.configuration_in_force import ConfigurationInForce
    from corral.clusters.process.controllers_process import ProcessSettings
    from corral.core.meta import Key

_ROLES = ("queueing", "dispatch", "hub", "member", "webhooks")
LINGER_S = 5.0
"""How long webhooks of a pod that ends go on answering: proxies take a moment to hear of it."""


@click.group(cls=Commands)
def controllers() -> None:
    """Run the controllers over a real Kubernetes cluster."""


@controllers.command()
@click.option(
    "--group", "groups", multiple=True, help="Kinds of these API groups; those of queueing when none is named."
)
@click.option("--upgrade", is_flag=True, help="Let definitions that Corral made follow this version of it.")
@cluster_options
def install(groups: tuple[str, ...], upgrade: bool, namespace: str, context: str, kubeconfig_path: Path | None) -> None:
    """Create Corral's CRDs and namespace where they are missing; what others made is used as it is."""
    from corral.client.http import HttpClient
    from corral.clusters.definitions import Installed, established
    from corral.clusters.definitions import install as install_kinds
    from corral.clusters.webhooks.unregistering import may_register_again
    from corral.runtime.clock import WallClock

    async def run() -> Installed:
        client = HttpClient.from_kubeconfig(kubeconfig_file(kubeconfig_path, context), context)
        try:
            done = await install_kinds(client, groups=groups, upgrade=upgrade)
            await may_register_again(client)
            unserved = await established(client, WallClock(), [*done.created, *done.changed])
            done.refused += [f"{name} is there, but the API server does not serve it yet" for name in unserved]
            return done
        except ValueError as error:
            raise click.ClickException(str(error)) from error
        finally:
            await client.close()

    done = asyncio.run(run())
    lines = [*(f"{name} created" for name in done.created), *(f"{name} changed" for name in done.changed)]
    click.echo("\n".join(lines) or "all CRDs are there already")
    if done.refused:
        raise click.ClickException("\n".join(done.refused))


@controllers.command()
@click.option("--webhook-service", default="corral-webhooks", show_default=True, help="The Service in front of them.")
@cluster_options
def unregister(webhook_service: str, namespace: str, context: str, kubeconfig_path: Path | None) -> None:
    """Let a cluster call Corral's webhooks no more; CRDs, queues and Workloads stay.

    Replicas that run register nothing for two minutes: time to uninstall them.
    """
    from corral.client.http import HttpClient
    from corral.clusters.webhooks.service import converted_kinds
    from corral.clusters.webhooks.unregistering import QUIET_S, unregister_for_a_while
    from corral.runtime.clock import WallClock

    async def run() -> tuple[list[str], list[Key]]:
        client = HttpClient.from_kubeconfig(kubeconfig_file(kubeconfig_path, context), context)
        try:
            return await unregister_for_a_while(client, WallClock(), converted_kinds(), webhook_service)
        finally:
            await client.close()

    removed, leases = asyncio.run(run())
    click.echo("\n".join(f"{name} removed" for name in removed) or "nothing of ours is registered")
    for key in leases:
        click.echo(
            f"replicas that still run register nothing for {QUIET_S:.0f} seconds (Lease {key}): uninstall them now",
            err=True,
        )


@controllers.command()
@click.option(
    "--roles",
    default="",
    help=f"What to do in the cluster, separated by commas: {', '.join(_ROLES)}. [default: queueing]",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path, exists=True),
    help="A config.kueue.x-k8s.io document; without it the ConfigMap kueue-manager-config. Read again when it changes.",
)
@click.option(
    "--dispatch", is_flag=True, help="The role dispatch besides: send jobs to worker clusters (on a manager)."
)
@click.option("--webhooks", is_flag=True, help="The role webhooks besides: serve admission and conversion.")
@click.option("--member-name", default="", help="What the hub of a member calls this cluster (role member).")
@click.option(
    "--status-port",
    type=int,
    help="Serve /healthz, /readyz, /metrics and /debug over HTTPS there (0 takes any port); otherwise nothing is.",
)
@click.option(
    "--lease-seconds",
    default=5.0,
    show_default=True,
    type=click.FloatRange(2.0, 300.0),
    help="How long a replica that was killed keeps its roles.",
)
@click.option(
    "--take-over",
    is_flag=True,
    help="Take the Leases of Kueue or KubeFleet's agents that lead in the cluster, instead of standing back from them.",
)
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--webhook-port", default=9443, show_default=True, help="Where webhooks listen.")
@click.option("--webhook-service", default="corral-webhooks", show_default=True, help="The Service in front of them.")
@click.option(
    "--webhook-host",
    default="",
    help="The name or address of this machine, as the API server reaches it, when it is not in the cluster.",
)
@click.option(
    "--webhook-certificates",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A folder with tls.crt and tls.key that somebody else renews; otherwise Corral makes and renews its own.",
)
@click.option("--inject-ca-from", default="", help="The cert-manager Certificate (NAMESPACE/NAME) of that folder.")
@click.option("-v", "--verbose", count=True)
@cluster_options
def run(
    roles: str,
    config: Path | None,
    dispatch: bool,
    webhooks: bool,
    member_name: str,
    status_port: int | None,
    lease_seconds: float,
    take_over: bool,
    log_format: str,
    webhook_port: int,
    webhook_service: str,
    webhook_host: str,
    webhook_certificates: Path | None,
    inject_ca_from: str,
    verbose: int,
    namespace: str,
    context: str,
    kubeconfig_path: Path | None,
) -> None:
    """Carry out roles in a cluster until stopped; of several processes one carries out each, the others stand by.

    In a pod the cluster is that of its service account, unless there is a kubeconfig.
    """
    from corral.clusters.process.controllers_process import ProcessSettings
    from corral.clusters.process.roles import MEMBER, read_roles
    from corral.clusters.webhooks.service import WebhookSettings
    from corral.runtime import logs
    from corral.runtime.leader import LeaseTerms

    logs.set_up(verbosity=1 + verbose, as_json=log_format == "json")
    if bool(webhook_certificates) != bool(inject_ca_from):
        raise click.UsageError(
            "--webhook-certificates and --inject-ca-from go together: who renews the certificates has to tell the cluster too"
        )
    try:
        chosen = read_roles(",".join((roles or "queueing", *_also(dispatch, webhooks))))
    except ValueError as error:
        raise click.UsageError(f"--roles: {error}") from error
    if MEMBER in chosen and not member_name:
        raise click.UsageError("--roles: a member needs --member-name, the name its hub knows it by")
    from_file = _from_file(config)
    access, is_pod = _access(kubeconfig_path, context)
    settings = ProcessSettings(
        roles=chosen,
        identity=f"{socket.gethostname()}_{os.getpid()}",
        member_name=member_name,
        webhooks=WebhookSettings(
            port=webhook_port,
            service=webhook_service,
            external_name=webhook_host,
            certificate_folder=webhook_certificates,
            injected_from=inject_ca_from,
            linger_s=LINGER_S if is_pod else 0.0,
        ),
        status_port=status_port,
        terms=LeaseTerms(lease_seconds),
        takes_over=take_over,
    )
    asyncio.run(_run(access, is_pod, from_file, settings))


def _also(dispatch: bool, webhooks: bool) -> list[str]:
    return [name for name, is_wanted in (("dispatch", dispatch), ("webhooks", webhooks)) if is_wanted]


def _access(path: Path | None, context: str) -> tuple[Access, bool]:
    """How to reach the cluster, and whether that is the one this process is a pod of."""
    from corral.client import in_cluster, kubeconfig

    has_kubeconfig = path is not None or context or os.environ.get("KUBECONFIG") or kubeconfig.default_path().exists()
    if not has_kubeconfig and in_cluster.is_in_cluster():
        return in_cluster.access(), True
    file = kubeconfig_file(path, context)
    return kubeconfig.access(kubeconfig.load(file), context, folder=file.parent, origin=str(file)), False


def _from_file(path: Path | None) -> ConfigurationInForce | None:
    """The configuration in a file, read before anything else: errors a user can act on are sentences."""
    from corral.client import in_cluster
    from corral.clusters.process.configuration_in_force import ConfigurationInForce, FileOrigin
    from corral.configuration.part import ConfigurationError
    from corral.runtime.clock import WallClock

    if path is None:
        return None
    namespace = in_cluster.access().namespace if in_cluster.is_in_cluster() else ""
    configuration = ConfigurationInForce(FileOrigin(path, WallClock()), namespace)
    try:
        asyncio.run(configuration.open())
    except ConfigurationError as error:
        raise click.ClickException(str(error)) from error
    return configuration


async def _run(access: Access, is_pod: bool, from_file: ConfigurationInForce | None, settings: ProcessSettings) -> None:
    """Run until a signal comes."""
    from corral.client.http import HttpClient
    from corral.clusters.embedded import connect
    from corral.clusters.hub_and_member import connect_hub
    from corral.clusters.process.configuration_in_force import ConfigMapOrigin, ConfigurationInForce
    from corral.clusters.process.controllers_process import ControllersProcess
    from corral.configuration.part import ConfigurationError
    from corral.configuration.queueing import DEFAULT_NAMESPACE
    from corral.runtime.clock import WallClock

    clock = WallClock()
    client = HttpClient(access, allow_exec=True)
    own = access.namespace if is_pod else DEFAULT_NAMESPACE
    configuration = from_file or ConfigurationInForce(ConfigMapOrigin(client, clock, own), own)
    process = ControllersProcess(
        client,
        configuration,
        settings,
        connect=connect,
        connect_hub=connect_hub,
        leases=HttpClient(access, allow_exec=True),
        clock=clock,
    )
    work = asyncio.ensure_future(process.run())
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, work.cancel)
    click.echo(f"controllers for {client.access.server} are starting: {', '.join(settings.roles)}")
    try:
        await work
    except asyncio.CancelledError:
        click.echo("stopped")
    except ConfigurationError as error:
        raise click.ClickException(str(error)) from error
    finally:
        await client.close()
