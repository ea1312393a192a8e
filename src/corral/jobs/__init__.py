"""One adapter per job kind: how it is suspended, counted, started, finished and mirrored."""
