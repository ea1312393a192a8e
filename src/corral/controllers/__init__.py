"""Reconcilers that act on what decide returns."""
