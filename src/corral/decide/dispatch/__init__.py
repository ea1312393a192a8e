"""Dispatch decisions: what to do with a Workload and its copies on the workers, and which workers to ask."""
