"""Values and rules with no I/O: quantities, metadata, selectors, conditions, patches, server-side apply."""
