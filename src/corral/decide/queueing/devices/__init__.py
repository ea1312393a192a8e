"""Devices of dynamic resource allocation as quota."""
