"""The member reconcilers, one small file each."""
