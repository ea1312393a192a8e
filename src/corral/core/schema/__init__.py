"""Structural schemas: what an object may say, what is filled in, what is dropped, and the rules in CEL."""
