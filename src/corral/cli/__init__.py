"""The corral command."""
