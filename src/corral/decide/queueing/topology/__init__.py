"""Topology-aware scheduling: a tree of capacity from nodes, and where in it the pods of a workload go."""
