"""The web page over a cluster: queues, clusters, jobs, why each waits, and logs. It only reads."""
