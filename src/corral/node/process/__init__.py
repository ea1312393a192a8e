"""Pods as local processes: a supervisor that outlives the control plane, and the runtime that talks to it."""
