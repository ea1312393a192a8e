"""The scheduling cycle: from the heads of the queues to a plan."""
