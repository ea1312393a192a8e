"""What a real Kubernetes calls Corral for: admission, conversion and the visibility API, and how it learns where to call."""
