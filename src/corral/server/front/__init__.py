"""API servers in processes of their own, in front of the process that owns the store: what they answer, and what they hand on."""
