"""Binding pods to nodes and running them as local processes or simulated."""
