"""Kubernetes' own kinds, one module or folder for each API group. Job and CronJob are with the other jobs."""
