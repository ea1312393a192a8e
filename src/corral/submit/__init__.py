"""From a program on somebody's disk to a job in a queue: packing its folder, choosing its Python, making and following it."""
