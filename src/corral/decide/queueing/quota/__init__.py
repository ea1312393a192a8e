"""Quota: the tree of cohorts and queues, who holds how much of it, and what would be fair."""
