"""How kinds are declared, found, decoded, described and printed; nothing here knows a particular kind."""
