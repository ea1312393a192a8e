"""Admission: the chain of plug-ins, those every cluster has, webhooks and policies."""
