"""The core group: services, nodes, configuration, quotas, volumes and events. Pods have a folder of their own."""
