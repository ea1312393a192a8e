"""What one can do with a pod besides reading it: bind, evict, stream, proxy, also where it runs elsewhere."""
