"""The job on the worker that won: made there, kept in step, mirrored back, removed."""
