"""What the kinds of kueue.x-k8s.io and their fields are for, in the words of `kubectl explain`."""

from __future__ import annotations

from corral.kinds.machinery.describing import Table

_CONDITIONS = "What is known about it at present, one entry per type."
_WEIGHT = (
    "How large a share of idle quota it gets when several want to borrow; the weight is compared with its siblings'."
)
_GROUPS = "Amounts of resources it offers, in groups that are always taken from the same list of flavors."

DESCRIPTIONS: Table = {
    "*": ("", {"spec": "What is wanted.", "status": "What was observed.", "status.conditions": _CONDITIONS}),
    "AdmissionCheck": (
        "A further hurdle before admission: Workloads of queues that name it start only after its controller agrees.",
        {
            "spec.controllerName": "Who decides this check, for example kueue.x-k8s.io/multikueue. Cannot be changed.",
            "spec.parameters": "Points to an object with settings for the controller, such as a MultiKueueConfig.",
            "spec.retryDelayMinutes": "No longer used: how long to wait after the check asked for another attempt.",
        },
    ),
    "ClusterQueue": (
        "A pool of quota for the whole cluster. Jobs reach it through LocalQueues and are admitted while quota is left.",
        {
            "spec.admissionChecks": "Checks every Workload of this queue has to pass, whatever its flavors.",
            "spec.admissionChecksStrategy": "Checks Workloads have to pass, each for all flavors or for some.",
            "spec.admissionScope": "Orders Workloads by what their LocalQueues have used, instead of by age alone.",
            "spec.cohort": "The group of queues this one lends unused quota to and borrows from.",
            "spec.cohortName": "The group of queues this one lends unused quota to and borrows from.",
            "spec.concurrentAdmissionPolicy": "Tries several flavors for one Workload at the same time.",
            "spec.fairSharing": _WEIGHT,
            "spec.flavorFungibility": "Whether to borrow or preempt in a flavor, or to look at the next flavor first.",
            "spec.flavorFungibility.whenCanBorrow": "What to do in a flavor in which the Workload fits by borrowing.",
            "spec.flavorFungibility.whenCanPreempt": "What to do in a flavor in which the Workload fits by preempting.",
            "spec.namespaceSelector": "Namespaces that may use this queue, by label. Nothing selects none, {} all.",
            "spec.preemption": "Which admitted Workloads may be stopped to make room for a pending one.",
            "spec.preemption.borrowWithinCohort": "Lets a Workload that has to borrow preempt less important ones.",
            "spec.preemption.reclaimWithinCohort": "Which Workloads of other queues may be stopped to get lent quota back.",
            "spec.preemption.withinClusterQueue": "Which Workloads of this queue may be stopped for a pending one.",
            "spec.queueingStrategy": "Whether a Workload that does not fit holds up those behind it (StrictFIFO).",
            "spec.resourceGroups": _GROUPS,
            "spec.resourceGroups.coveredResources": "Names of the resources of this group, such as cpu and memory.",
            "spec.resourceGroups.flavors": "Flavors in the order they are tried, with the amounts of each resource.",
            "spec.resourceGroups.flavors.name": "The ResourceFlavor these amounts are of.",
            "spec.resourceGroups.flavors.resources": "One entry for each covered resource, in the same order.",
            "spec.resourceGroups.flavors.resources.nominalQuota": "What this queue owns of the resource.",
            "spec.resourceGroups.flavors.resources.borrowingLimit": "The most it may use beyond what it owns.",
            "spec.resourceGroups.flavors.resources.lendingLimit": "The most others may use of what it owns.",
            "spec.stopPolicy": "Pauses the queue: Hold admits nothing more, HoldAndDrain also stops what runs.",
            "status.admittedWorkloads": "How many Workloads are admitted and not finished.",
            "status.fairSharing": "The queue's present share of borrowed quota, where fair sharing is on.",
            "status.flavorsReservation": "Amounts reserved by Workloads, by flavor and resource, whether admitted or not.",
            "status.flavorsUsage": "Amounts used by admitted Workloads, by flavor and resource.",
            "status.pendingWorkloads": "How many Workloads wait for quota.",
            "status.pendingWorkloadsStatus": "No longer used: the head of the queue. Ask the visibility API instead.",
            "status.reservingWorkloads": "How many Workloads hold quota, admitted or not.",
        },
    ),
    "Cohort": (
        "A group of ClusterQueues and further Cohorts that lend quota to each other. Cohorts form a tree.",
        {
            "spec.fairSharing": _WEIGHT,
            "spec.parentName": "The Cohort this one belongs to; none makes it the root of a tree.",
            "spec.resourceGroups": "Quota of the Cohort itself, which all its members may borrow.",
            "status.fairSharing": "The Cohort's present share of what its parent lends, where fair sharing is on.",
        },
    ),
    "LocalQueue": (
        "The queue of a namespace: jobs name it in a label, and it passes them on to a ClusterQueue.",
        {
            "spec.clusterQueue": "The ClusterQueue whose quota is used. Cannot be changed.",
            "spec.fairSharing": "Its weight where a ClusterQueue orders Workloads by what LocalQueues have used.",
            "spec.stopPolicy": "Pauses this queue only: Hold admits nothing more, HoldAndDrain also stops what runs.",
            "status.admittedWorkloads": "How many Workloads of this queue are admitted and not finished.",
            "status.fairSharing": "What the queue has used lately, where usage decides the order.",
            "status.flavorUsage": "Amounts used by admitted Workloads of this queue, by flavor and resource.",
            "status.flavors": "Flavors that Workloads of this queue can get.",
            "status.flavorsReservation": "Amounts reserved by Workloads of this queue, by flavor and resource.",
            "status.flavorsUsage": "Amounts used by admitted Workloads of this queue, by flavor and resource.",
            "status.pendingWorkloads": "How many Workloads of this queue wait.",
            "status.reservingWorkloads": "How many Workloads of this queue hold quota, admitted or not.",
        },
    ),
    "MultiKueueCluster": (
        "A worker cluster that jobs can be dispatched to. Its condition Active says whether it can be reached.",
        {
            "spec.clusterProfileRef": "The ClusterProfile that tells how to reach the worker.",
            "spec.clusterSource": "How the worker is reached: by a kubeconfig or by a ClusterProfile.",
            "spec.clusterSource.clusterProfileRef": "The ClusterProfile that tells how to reach the worker.",
            "spec.clusterSource.kubeConfig": "Where the worker's kubeconfig is: a Secret or a file.",
            "spec.kubeConfig": "Where the worker's kubeconfig is: a Secret or a file.",
        },
    ),
    "MultiKueueConfig": (
        "The worker clusters one AdmissionCheck dispatches to.",
        {
            "spec.clusters": "Names of MultiKueueClusters, in order of preference.",
            "spec.quotaManagement": "Whether the manager's quota is written by people or follows the workers'.",
        },
    ),
    "ProvisioningRequestConfig": (
        "How nodes are asked for before a Workload starts, by the provisioning AdmissionCheck that refers to this.",
        {
            "spec.managedResources": "Only Workloads that ask for one of these resources wait for nodes; none means all do.",
            "spec.parameters": "Passed on to the class of provisioning as they are.",
            "spec.podSetMergePolicy": "Whether pod sets that look alike are asked for as one.",
            "spec.podSetUpdates": "Node selectors the pods get once their nodes are there.",
            "spec.provisioningClassName": "The class of provisioning, which the autoscaler of the cluster defines.",
            "spec.retryStrategy": "How often, and after which pauses, a failed request is made again.",
        },
    ),
    "ResourceFlavor": (
        "A kind of nodes that quota is counted for, such as one generation of GPUs.",
        {
            "spec.nodeLabels": "Labels of the nodes; admitted pods get them as node selector.",
            "spec.nodeTaints": "Taints of the nodes; Workloads that do not tolerate them do not get this flavor.",
            "spec.tolerations": "Tolerations admitted pods get in addition to their own.",
            "spec.topologyName": "The Topology of these nodes, for placing pods close to each other.",
        },
    ),
    "Topology": (
        "How nodes are nested, from large to small: blocks, racks, hosts.",
        {
            "spec.levels": "The levels from the widest to the narrowest.",
            "spec.levels.nodeLabel": "The node label whose value tells where a node is on this level.",
        },
    ),
    "Workload": (
        "A job as the queue sees it: the pods it needs, its queue, its priority, and what was decided about it.",
        {
            "spec.active": "False takes the Workload out of the queue, and stops it if it runs.",
            "spec.maximumExecutionTimeSeconds": "The longest it may be admitted in all before it is switched off.",
            "spec.podSets": "Groups of equal pods, all of which must fit before any starts.",
            "spec.podSets.count": "How many pods the group has.",
            "spec.podSets.minCount": "The fewest pods the job can do with, where it may start smaller.",
            "spec.podSets.name": "The name of the group within its job, such as worker.",
            "spec.podSets.template": "The pods; their requests are what is counted.",
            "spec.podSets.topologyRequest": "How close to each other the pods have to be.",
            "spec.preemptionGates": "Names of gates that keep the Workload from preempting others while they are closed.",
            "spec.priority": "Decides the order, and who may preempt whom; taken from the priority class.",
            "spec.priorityClassName": "The priority class the priority was taken from.",
            "spec.priorityClassRef": "The priority class the priority was taken from.",
            "spec.priorityClassSource": "Which kind of priority class that is: a Workload's or a pod's.",
            "spec.queueName": "The LocalQueue it waits in.",
            "status.accumulatedPastExecutionTimeSeconds": "For how long it was admitted in earlier rounds.",
            "status.accumulatedPastExexcutionTimeSeconds": "For how long it was admitted in earlier rounds.",
            "status.admission": "The ClusterQueue and flavors it got, and for how many pods of each group.",
            "status.admissionChecks": "How each check stands: pending, ready, retry or rejected.",
            "status.clusterName": "The worker cluster the job runs on.",
            "status.nominatedClusterNames": "Worker clusters that are asked to admit the job.",
            "status.preemptionGates": "How each preemption gate stands.",
            "status.reclaimablePods": "Pods that are done or not needed any more, whose quota is free again.",
            "status.requeueState": "How often it was put back into the queue, and when it may be tried again.",
            "status.resourceRequests": "What the pods asked for, in sum, when it was last considered.",
            "status.schedulingStats": "How often it was evicted, by reason.",
            "status.unhealthyNodes": "Nodes it was placed on that have failed since.",
        },
    ),
    "WorkloadPriorityClass": (
        "A priority for Workloads that does not touch the priority of their pods.",
        {
            "description": "When to use this class.",
            "value": "The priority; larger goes first.",
        },
    ),
}
