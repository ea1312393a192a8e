"""The ordered object store of one cluster: revisions, watch, durable journal."""
