"""jobset.x-k8s.io: a JobSet is several Jobs that start, restart and end together."""
