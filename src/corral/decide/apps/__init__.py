"""Pure decisions of the apps operators: ReplicaSet, Deployment, StatefulSet, DaemonSet. Values in, values out."""
