"""What the kinds of jobs, and of what jobs need around them, are for, in the words of `kubectl explain`."""

from __future__ import annotations

from corral.kinds.machinery.describing import Table

DESCRIPTIONS: Table = {
    "*": (
        "",
        {
            "spec": "What is wanted.",
            "spec.activeDeadlineSeconds": "The longest it may run, from its start, before it is stopped as failed.",
            "spec.managedBy": "Who runs the job; other controllers leave it alone. kueue.x-k8s.io/multikueue dispatches it.",
            "spec.runPolicy": "When the job ends, how often it is tried, what stays behind; suspended jobs have no pods.",
            "spec.suspend": "A suspended job has no pods. The queue sets and clears this.",
            "spec.ttlSecondsAfterFinished": "How long it stays after its end before it is deleted.",
            "status": "What was observed.",
            "status.completionTime": "When it ended.",
            "status.conditions": "What is known about it at present, one entry per type.",
            "status.observedGeneration": "The generation this status speaks of.",
            "status.replicaStatuses": "Pods that run, succeeded and failed, by role.",
            "status.startTime": "When it was first started.",
        },
    ),
    "AppWrapper": (
        "Any set of objects as one job: created together when there is quota, watched, tried again, cleaned up.",
        {
            "spec.components": "The objects, and where in them pods are described.",
            "status.componentStatus": "What became of each object.",
            "status.phase": "Where the whole stands.",
            "status.retries": "How often it was tried again.",
        },
    ),
    "ClusterTrainingRuntime": (
        "A blueprint for TrainJobs of all namespaces.",
        {
            "spec.mlPolicy": "The framework: how many nodes, and how their processes find each other.",
            "spec.podGroupPolicy": "Whether a gang scheduler places the pods together.",
            "spec.template": "The JobSet a TrainJob becomes.",
        },
    ),
    "JAXJob": ("Distributed training with JAX.", {"spec.jaxReplicaSpecs": "The pods by role."}),
    "JobSet": (
        "Several Jobs that start, fail and end together, with names for each pod.",
        {
            "spec.coordinator": "The pod the others look up.",
            "spec.failurePolicy": "What a failed Job means for the whole, and how often it may start anew.",
            "spec.network": "Host names of the pods, and the service they are found by.",
            "spec.replicatedJobs": "The Jobs: a template, a name, and how many of it.",
            "spec.startupPolicy": "Whether the Jobs start at once or one after the other.",
            "spec.successPolicy": "Which Jobs have to succeed for the whole to succeed.",
            "spec.volumeClaimPolicies": "Volumes made for the JobSet, and what becomes of them.",
            "status.replicatedJobsStatus": "Jobs that run, wait, succeeded and failed, by name.",
            "status.restarts": "How often the whole was started anew.",
            "status.terminalState": "How it ended.",
        },
    ),
    "LeaderWorkerSet": (
        "Replicas of a group of pods, one leader with its workers, that serve together.",
        {
            "spec.leaderWorkerTemplate": "The group: leader, workers, and their number.",
            "spec.networkConfig": "How the pods of a group find each other.",
            "spec.replicas": "How many groups.",
            "spec.rolloutStrategy": "How a change reaches the groups.",
            "spec.startupPolicy": "Whether workers wait for their leader.",
            "status.readyReplicas": "Groups that are ready.",
            "status.replicas": "Groups that are there.",
            "status.updatedReplicas": "Groups that have the newest template.",
        },
    ),
    "MPIJob": (
        "A program started by mpirun: a launcher and the workers it reaches.",
        {
            "spec.mpiImplementation": "OpenMPI, Intel or MPICH.",
            "spec.mpiReplicaSpecs": "The pods by role.",
            "spec.slotsPerWorker": "Processes on each worker.",
        },
    ),
    "PaddleJob": ("Distributed training with PaddlePaddle.", {"spec.paddleReplicaSpecs": "The pods by role."}),
    "PodGroup": (
        "Pods that a gang scheduler places together or not at all.",
        {
            "spec.minMember": "How many pods must fit at once.",
            "spec.minResources": "What they need together.",
            "status.phase": "Where the group stands.",
        },
    ),
    "ProvisioningRequest": (
        "Asks the cluster's autoscaler for nodes for given pods, before these are created.",
        {
            "spec.parameters": "Passed on to the class as they are.",
            "spec.podSets": "The pods: a template and how many of it.",
            "spec.provisioningClassName": "The class of provisioning, which the autoscaler defines.",
            "status.provisioningClassDetails": "What the class reports about the request.",
        },
    ),
    "PyTorchJob": (
        "Distributed training with PyTorch.",
        {
            "spec.elasticPolicy": "Lets the number of workers change while it runs.",
            "spec.nprocPerNode": "Processes on each pod.",
            "spec.pytorchReplicaSpecs": "The pods by role.",
        },
    ),
    "RayCluster": (
        "A Ray cluster: one head and groups of workers.",
        {
            "spec.enableInTreeAutoscaling": "Lets Ray change the number of workers.",
            "spec.headGroupSpec": "The head.",
            "spec.rayVersion": "The version of Ray the images have.",
            "spec.workerGroupSpecs": "Groups of equal workers.",
            "status.state": "Where the cluster stands.",
        },
    ),
    "RayJob": (
        "A program that runs on a Ray cluster made for it, or on one that is there.",
        {
            "spec.clusterSelector": "The labels of a RayCluster that is there already.",
            "spec.entrypoint": "The command to run.",
            "spec.rayClusterSpec": "The cluster to make for it.",
            "spec.runtimeEnvYAML": "Ray's runtime environment.",
            "spec.shutdownAfterJobFinishes": "Whether its cluster goes with it.",
            "spec.submissionMode": "Who hands the command to Ray.",
            "status.jobDeploymentStatus": "Where the whole stands.",
            "status.jobStatus": "Where the program stands, in Ray's words.",
        },
    ),
    "RayService": (
        "Ray Serve applications on a Ray cluster that is replaced without a gap when it changes.",
        {
            "spec.rayClusterConfig": "The cluster.",
            "spec.serveConfigV2": "The applications, as Ray Serve reads them.",
            "spec.upgradeStrategy": "How a new cluster takes over.",
        },
    ),
    "TFJob": ("Distributed training with TensorFlow.", {"spec.tfReplicaSpecs": "The pods by role."}),
    "TrainJob": (
        "A training run: which runtime, with which data, on how many nodes.",
        {
            "spec.initializer": "What is fetched before training: a dataset, a model.",
            "spec.runtimePatches": "Changes to what the runtime makes, by manager.",
            "spec.runtimeRef": "The TrainingRuntime or ClusterTrainingRuntime it is made from.",
            "spec.trainer": "Image, command, nodes and resources of the training itself.",
            "status.jobsStatus": "Jobs that run, wait, succeeded and failed, by name.",
            "status.trainerStatus": "What the training reports about its progress.",
        },
    ),
    "TrainingRuntime": (
        "A blueprint for the TrainJobs of its namespace.",
        {
            "spec.mlPolicy": "The framework: how many nodes, and how their processes find each other.",
            "spec.podGroupPolicy": "Whether a gang scheduler places the pods together.",
            "spec.template": "The JobSet a TrainJob becomes.",
        },
    ),
    "XGBoostJob": ("Distributed training with XGBoost.", {"spec.xgbReplicaSpecs": "The pods by role."}),
}
