"""The web page over a cluster: queues, clusters, jobs, why each waits, logs, and what may be done to them."""
