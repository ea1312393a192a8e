"""One client protocol; implementations in process and over HTTPS."""
