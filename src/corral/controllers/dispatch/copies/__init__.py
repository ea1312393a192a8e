"""Copies of a Workload on workers: which workers are asked, and what becomes of the copies."""
