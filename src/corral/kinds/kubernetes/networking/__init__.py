"""networking.k8s.io and discovery.k8s.io: kinds that are made of addresses, and their rules."""
