"""What the kinds are for, in the words of `kubectl explain`."""

from __future__ import annotations

from corral.jobs.framework.descriptions import SHARED
from corral.kinds.machinery.describing import Table

DESCRIPTIONS: Table = {
    "*": SHARED,
    "JAXJob": ("Distributed training with JAX.", {"spec.jaxReplicaSpecs": "The pods by role."}),
    "PaddleJob": ("Distributed training with PaddlePaddle.", {"spec.paddleReplicaSpecs": "The pods by role."}),
    "PyTorchJob": (
        "Distributed training with PyTorch.",
        {
            "spec.elasticPolicy": "Lets the number of workers change while it runs.",
            "spec.nprocPerNode": "Processes on each pod.",
            "spec.pytorchReplicaSpecs": "The pods by role.",
        },
    ),
    "TFJob": ("Distributed training with TensorFlow.", {"spec.tfReplicaSpecs": "The pods by role."}),
    "XGBoostJob": ("Distributed training with XGBoost.", {"spec.xgbReplicaSpecs": "The pods by role."}),
}
