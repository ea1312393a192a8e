"""The placement reconcilers, one small file each."""
