"""Preemption: whom a workload may evict, and the smallest set of evictions that lets it in."""
