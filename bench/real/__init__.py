"""Measurements over real API servers."""
