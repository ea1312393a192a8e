"""workload.codeflare.dev: an AppWrapper holds any objects and runs them as one job."""
