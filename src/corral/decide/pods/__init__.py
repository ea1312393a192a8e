"""Pods, decided purely: where one runs, what its containers do next, what its status says."""
