"""The workers of a manager: credentials, connections, health, and what they have free."""
