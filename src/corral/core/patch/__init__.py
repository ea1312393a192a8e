"""Changing part of an object: JSON patch and merge patch, strategic merge, server-side apply and who owns which field."""
