"""sweeps.example.com: a Sweep tries one program with many parameters. A job kind that Corral does not ship."""

from corral.jobs.framework.job_kind import JobKind

JOB_KIND = JobKind(
    name="sweep",
    kinds="sweeps.kind:KINDS",
    adapters={"sweeps.example.com/sweep": "sweeps.adapter:Sweep"},
    operators="sweeps.operator:operators",
)
