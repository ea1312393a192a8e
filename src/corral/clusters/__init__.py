"""Composition roots: an embedded cluster, controllers over real Kubernetes, hub and member."""
