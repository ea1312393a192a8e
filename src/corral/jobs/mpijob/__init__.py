"""MPIJob of kubeflow.org: a launcher and workers that trust each other."""
