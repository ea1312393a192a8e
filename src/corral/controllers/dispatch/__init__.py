"""The dispatch reconcilers, one small file each."""
