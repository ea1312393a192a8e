"""kubeflow.org/v1: TFJob, PyTorchJob, XGBoostJob, PaddleJob and JAXJob, one engine for all of them."""
