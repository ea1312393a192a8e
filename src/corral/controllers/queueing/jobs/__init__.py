"""Jobs in a queue: each has a Workload, runs while that is admitted and stops when it is not."""
