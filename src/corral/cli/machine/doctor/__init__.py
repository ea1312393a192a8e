"""`corral doctor`: what is wrong with this machine, fleet, kubeconfig and cluster, and how to mend it."""
