"""Topology at run time: pods on the nodes they were assigned to, and nodes that fail."""
