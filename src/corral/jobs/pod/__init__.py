"""Plain pods and groups of pods as jobs."""
