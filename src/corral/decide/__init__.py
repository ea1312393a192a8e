"""The pure heart: values in, values out; no await, no clock, no log, no I/O."""
