"""Queues: their status, who waits in them, and what must not disappear under them."""
