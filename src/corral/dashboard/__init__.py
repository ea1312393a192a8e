"""The web page and the small API behind it."""
