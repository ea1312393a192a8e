"""Builders and virtual-time clusters for testing controllers, ours and yours."""

from corral.runtime.virtual import run_virtual, settle
from corral.testing.cluster import VirtualCluster

__all__ = ["VirtualCluster", "run_virtual", "settle"]
