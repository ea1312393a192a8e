"""workload.codeflare.dev: an AppWrapper holds any objects and runs them as one job."""

from corral.jobs.framework.job_kind import JobKind

JOB_KIND = JobKind(
    name="appwrapper",
    kinds="corral.jobs.appwrapper.kind:KINDS",
    adapters={"workload.codeflare.dev/appwrapper": "corral.jobs.appwrapper.adapter:AppWrapper"},
    operators="corral.jobs.appwrapper.operator:operators",
    carried="corral.jobs.appwrapper.kind:carried",
    admission="corral.jobs.appwrapper.admission:plugins",
)
