"""admissionregistration.k8s.io/v1: webhooks and admission policies."""
