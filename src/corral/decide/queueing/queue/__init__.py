"""Who waits, in which order, and who gets another chance when something changes."""
