"""trainer.kubeflow.org: a TrainJob and the runtime it names become a JobSet."""
