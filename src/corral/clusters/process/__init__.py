"""The process of the controllers over a real cluster: its roles, its configuration, its endpoints."""
