"""Kubernetes' own controllers of apps/v1 and of Services, for embedded clusters."""
