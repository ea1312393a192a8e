"""workload.codeflare.dev: an AppWrapper holds any objects and runs them as one job."""

from corral.jobs.framework.job_kind import InstalledOperator, JobKind

JOB_KIND = JobKind(
    name="appwrapper",
    kinds="corral.jobs.appwrapper.kind:KINDS",
    adapters={"workload.codeflare.dev/appwrapper": "corral.jobs.appwrapper.adapter:AppWrapper"},
    operators="corral.jobs.appwrapper.operator:operators",
    identity="corral.jobs.appwrapper.identity:IDENTITY",
    installation=InstalledOperator(
        namespace="appwrapper-system",
        deployment="appwrapper-controller-manager",
        labels={"control-plane": "controller-manager"},
        webhook_service="appwrapper-webhook-service",
    ),
    carried="corral.jobs.appwrapper.kind:carried",
    admission="corral.jobs.appwrapper.admission:plugins",
)
