"""StatefulSets: named pods, started in order; queued through their pods."""
