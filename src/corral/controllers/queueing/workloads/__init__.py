"""The life of Workloads between two plans of the scheduler, and who hears of it."""
