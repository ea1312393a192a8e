"""Containers of an engine that is installed (podman, docker, containerd by nerdctl): real images, isolated, instead of processes."""
