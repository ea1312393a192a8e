"""The machine the nodes of a fleet live on: what it has, and who holds which of its devices."""
