"""Builders and virtual-time clusters for testing controllers, ours and yours."""
