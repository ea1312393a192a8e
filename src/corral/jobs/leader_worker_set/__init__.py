"""leaderworkerset.x-k8s.io: groups of one leader and its workers."""
