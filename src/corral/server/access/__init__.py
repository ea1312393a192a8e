"""Who is asking, what they may do, how they prove it, and what is written down about it."""
