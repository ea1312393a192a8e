"""What `corral simulate` is made of: reading manifests, running them on virtual time, and keeping the record."""
