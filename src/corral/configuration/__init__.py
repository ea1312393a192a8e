"""Every document a user writes about a cluster, read and checked in one place."""
