"""Composition roots: an embedded cluster, an embedded fleet, controllers over real Kubernetes."""
