"""Pods and pod templates: defaults, rules, first status and printed columns."""
