"""The `multiKueue` part of the configuration, and Corral's own dispatch options beside it."""

from __future__ import annotations

from dataclasses import dataclass

from corral.configuration.part import ConfigurationError, Part
from corral.core.meta import Obj
from corral.core.quantity import value
from corral.core.remote_pods import PodListing
from corral.decide.dispatch.model import ALL_AT_ONCE, LATE_BINDING
from corral.decide.dispatch.nominate import DEFAULT_STEP, ROUND_S
from corral.kinds.kueue.gates import FeatureGates

KEEP_LOGS = 64 << 20
KEEP_LOGS_FOR = 7 * 86400.0
KUBECONFIGS = "/etc/multikueue/kubeconfigs"


@dataclass(frozen=True, slots=True)
class DispatchSettings:
    """How a manager dispatches. Times are seconds."""

    namespace: str = "kueue-system"
    origin: str = "multikueue"
    dispatcher: str = ALL_AT_ONCE
    step: int = DEFAULT_STEP
    config_order: bool = True
    """Whether Incremental asks workers in the order of their MultiKueueConfig; by their names otherwise."""
    round_s: float = ROUND_S
    gc_interval: float = 60.0
    worker_lost_timeout: float = 900.0
    watch_timeout: float = 60.0
    probe_interval: float = 10.0
    probe_timeout: float = 15.0
    enabled: bool = True
    """The feature gate MultiKueue."""
    batch_s: float = 0.0
    """How long news from workers is collected before it is acted on; upstream waits a second."""
    progress_s: float = 0.1
    """How long changes of a remote job's status are collected before they are mirrored."""
    give_up_after: float | None = None
    """Hand a Workload back to the queue when no worker took it for so long; never when None."""
    hands_back_impossible: bool = False
    """Hand a Workload back at once that every worker says it could never take, however empty it were."""
    keep_finished: float = 0.0
    """How long a finished job stays on its worker, so that its logs can still be read; upstream removes it at once."""
    keep_logs: int = KEEP_LOGS
    """How many bytes of the logs of finished jobs a manager that shows their pods keeps; none when 0."""
    keep_logs_for: float = KEEP_LOGS_FOR
    """How long it keeps them."""
    say_why: bool = True
    """Show on the manager's Workload why each worker does not take it."""
    propagate: bool = False
    """Copy the ConfigMaps, Secrets and runtimes a job names to the worker that runs it."""
    profiles: bool = False
    """Take workers from ClusterProfiles too."""
    access_providers: tuple[Obj, ...] = ()
    """Programs that give credentials for ClusterProfiles, by the name of the access provider they are for."""
    checks_paths: bool = False
    """Whether files of kubeconfigs are used the way upstream means to keep; without it each use is warned of."""
    kubeconfig_directory: str = KUBECONFIGS
    """The only place files of kubeconfigs are taken from."""
    allows_insecure: bool = False
    """Reach workers without TLS where their kubeconfig says `http://`."""
    automates_quota: bool = False
    """Give queues that dispatch the quota their workers have together, where their config asks for it."""
    orchestrates: bool = False
    """Let one worker at a time preempt for a Workload, the longest waiting first."""
    merges: bool = False
    """Replace Workload statuses as a whole instead of applying parts of them, as upstream's gate of that purpose does."""
    labels_copies: bool = False
    """Name a remote job's Workload in a label, where releases before 0.17 of Kueue look for it, instead of an annotation."""
    follows_specs: bool = True
    follows_sizes: bool = True
    """Bring a remote job in line when the manager's is changed while it runs."""
    remote_pods: PodListing = PodListing.LISTED
    """Whether a manager that shows the pods of dispatched jobs does so in lists."""
    fencing: bool = False
    """Tell workers to suspend copies when they lose this manager for longer than the lost timeout."""

    @property
    def tries_other_workers(self) -> bool:
        """Whether a name that is taken on one worker sends a job to another; upstream's dispatchers wait for the name."""
        return self.dispatcher == LATE_BINDING or self.give_up_after is not None


def dispatch_settings(configuration: Obj | Part) -> DispatchSettings:
    """The settings in a `config.kueue.x-k8s.io` Configuration document."""
    document = Part.of(configuration)
    part, own = document.part("multiKueue"), document.part("corral")
    gates = FeatureGates(document.get("featureGates"))
    return DispatchSettings(
        namespace=document.text("namespace", "kueue-system"),
        origin=part.text("origin", "multikueue"),
        dispatcher=part.text("dispatcherName", ALL_AT_ONCE),
        step=_step(part.part("incrementalDispatcherConfig"), gates),
        config_order=gates["MultiKueueIncrementalDispatcherRespectConfigOrder"],
        labels_copies=not gates["WorkloadIdentifierAnnotations"],
        follows_specs=gates["MultiKueueRemoteSpecSync"],
        follows_sizes=gates["ElasticJobsViaWorkloadSlices"],
        gc_interval=part.seconds("gcInterval", 60.0),
        worker_lost_timeout=part.seconds("workerLostTimeout", 900.0),
        batch_s=own.seconds("remoteEventBatch", 0.0),
        give_up_after=own.optional_seconds("giveUpAfter"),
        hands_back_impossible=own.flag("handBackImpossible"),
        keep_finished=own.seconds("keepFinished", 0.0),
        keep_logs=value(own.get("keepLogs", KEEP_LOGS)),
        keep_logs_for=own.seconds("keepLogsFor", KEEP_LOGS_FOR),
        say_why=own.flag("sayWhy", True),
        propagate=own.flag("propagateDependencies"),
        profiles=gates["MultiKueueClusterProfile"],
        access_providers=_providers(part.part("clusterProfile")),
        checks_paths=gates["MultiKueueKubeConfigPathValidation"],
        kubeconfig_directory=_directory(own.text("kubeconfigDirectory", KUBECONFIGS)),
        allows_insecure=own.flag("insecureKubeconfigs"),
        automates_quota=gates["MultiKueueManagerQuotaAutomation"],
        orchestrates=gates["MultiKueueOrchestratedPreemption"],
        merges=gates["WorkloadRequestUseMergePatch"],
        remote_pods=_listing(own.text("remotePods", PodListing.LISTED)),
        fencing=own.flag("fencing"),
        enabled=gates["MultiKueue"],
    )


def _step(part: Part, gates: FeatureGates) -> int:
    wanted = part.number("stepSize", 0)
    return wanted if wanted and gates["MultiKueueIncrementalDispatcherConfig"] else DEFAULT_STEP


def _directory(name: str) -> str:
    if not name.startswith("/"):
        raise ConfigurationError(f"corral.kubeconfigDirectory: {name!r} is not an absolute path")
    return name


def _listing(name: str) -> PodListing:
    try:
        return PodListing(name)
    except ValueError:
        raise ConfigurationError(f"corral.remotePods: {name!r} is none of {', '.join(PodListing)}") from None


def _providers(part: Part) -> tuple[Obj, ...]:
    """The access providers, under their name or the old one."""
    found, old = part.get("accessProviders"), part.get("credentialsProviders")
    if found and old:
        raise ConfigurationError(
            "multiKueue.clusterProfile: accessProviders and credentialsProviders exclude each other"
        )
    return tuple(found or old or ())
