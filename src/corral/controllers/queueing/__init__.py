"""The queueing reconcilers, one small file each."""
