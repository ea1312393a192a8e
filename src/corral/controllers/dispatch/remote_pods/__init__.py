"""Pods of dispatched jobs as the manager shows and reaches them."""
