"""batch/v1: Job, and CronJob, which starts Jobs."""
