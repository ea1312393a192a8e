"""Placement, decided: what is selected, where it goes, when it is rolled out, and what the status says about it."""
