"""Virtual-time fleets: generators, trace replay, faults, invariants, reports."""
