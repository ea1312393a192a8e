"""Pods, pod groups and sets of pods in a queue."""
