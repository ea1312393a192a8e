"""Corral queues AI/ML jobs and runs each in the best of many Kubernetes clusters."""

__version__ = "0.1.0"
