"""The RayJob operator: brings up a cluster, has the entry point submitted to it and follows it to its end."""

from __future__ import annotations

from corral.core.meta import (
    Key,
    Obj,
    annotations_of,
    finalizers_of,
    is_deleting,
    is_owned_by,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
    with_finalizer,
    with_status,
    without_finalizer,
)
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.framework.child_objects import typed
from corral.jobs.framework.ownership import controlled_by, index_by_controller
from corral.jobs.ray.child_objects import MANAGER, create_unless_held, delete_if_held
from corral.jobs.ray.cluster_plan import KEEP_HEAD, NODE_TYPE, RaySettings, is_managed_here
from corral.jobs.ray.dashboard import Dashboard, DashboardError, HttpDashboard, dashboard_of
from corral.jobs.ray.job_plan import FINALIZER, plan_ray_job
from corral.jobs.ray.job_plan_values import Answer, RayJobLook, RayJobPlan
from corral.jobs.ray.job_watch import polls_dashboard
from corral.jobs.ray.kind import GROUP, RAY_CLUSTERS, RAY_JOBS
from corral.kinds.kubernetes.core.kinds import PODS
from corral.runtime.controller import Manager, Result, Watch, owner_key


class RayJobController:
    """Runs ray.io RayJobs."""

    name = "rayjob"

    def __init__(self, manager: Manager, settings: RaySettings, dashboard: Dashboard | None = None) -> None:
        self._client = manager.client
        self._clock = manager.clock
        self._settings = settings
        self._dashboard = dashboard or HttpDashboard()
        self._pods = manager.informer(PODS)
        index_by_controller(self._pods)
        self._ray_jobs = manager.informer(RAY_JOBS)
        self._clusters = manager.informer(RAY_CLUSTERS)
        self._submitters = manager.informer(JOBS)
        self._random = manager.random.fork("rayjob-names")
        self._recorder = manager.recorder.named("rayjob-controller")
        owners = owner_key("RayJob", GROUP)
        watches = [
            Watch(RAY_JOBS),
            Watch(RAY_CLUSTERS, map=owners),
            Watch(JOBS, map=owners),
            Watch(PODS, map=self._job_of_head),
        ]
        manager.add(self, watches=watches, workers=3)

    def _job_of_head(self, pod: Obj) -> list[Key]:
        """The RayJob whose submitter runs beside this head."""
        if labels_of(pod).get(NODE_TYPE) != "head":
            return []
        for key in owner_key("RayCluster", GROUP)(pod):
            cluster = self._clusters.get(key)
            if cluster is not None and annotations_of(cluster).get(KEEP_HEAD):
                return list(owner_key("RayJob", GROUP)(cluster))
        return []

    async def reconcile(self, key: Key) -> Result | None:
        found = self._ray_jobs.get(key)
        if found is None or not is_managed_here(found):
            return None
        if is_deleting(found):
            await self._stop(found)
            return None
        job = typed(found, RAY_JOBS.api_version, "RayJob")
        if self._settings.real and FINALIZER not in finalizers_of(job):
            job = await self._client.update(RAY_JOBS, with_finalizer(job, FINALIZER), manager=MANAGER)
            job = typed(job, RAY_JOBS.api_version, "RayJob")
        cluster = self._clusters.get(Key(key.namespace, str(status_of(job).get("rayClusterName") or "")))
        submitter = self._submitters.get(key)
        if submitter is not None and not is_owned_by(submitter, uid_of(job)):
            submitter = None
        head = self._head(cluster)
        answer = await self._ask(job, head) if polls_dashboard(job, self._settings) else None
        look = RayJobLook(job, cluster, submitter, head, answer, self._clock.now(), self._settings)
        plan = plan_ray_job(look, self._random.suffix)
        for kind, reason, message in plan.events:
            self._recorder.event(job, kind, reason, message)
        await self._act(job, plan, cluster)
        if plan.delete_job:
            await delete_if_held(self._client, RAY_JOBS, name_of(job), namespace_of(job))
        elif plan.status != status_of(job):
            changed = with_status(job, plan.status)
            await self._client.update(RAY_JOBS, changed, subresource="status", manager=MANAGER)
        return Result(plan.wait_s)

    def _head(self, cluster: Obj | None) -> Obj | None:
        """The pod of a cluster's head, the living one first."""
        if cluster is None:
            return None
        pods = controlled_by(self._pods, cluster)
        heads = [pod for pod in pods if labels_of(pod).get(NODE_TYPE) == "head"]
        return min(heads, key=is_deleting, default=None)

    async def _ask(self, job: Obj, head: Obj | None) -> Answer:
        address = dashboard_of(head)
        if not address:
            return Answer(silent=True)
        try:
            return Answer(await self._dashboard.job(address, str(status_of(job)["jobId"])))
        except DashboardError:
            return Answer(silent=True)

    async def _stop(self, job: Obj) -> None:
        """A job that is deleted while it runs is stopped first; its cluster may outlive it."""
        if FINALIZER not in finalizers_of(job):
            return
        name = str(status_of(job).get("rayClusterName") or "")
        address = dashboard_of(self._head(self._clusters.get(Key(namespace_of(job), name))))
        if address and polls_dashboard(job, self._settings):
            try:
                await self._dashboard.stop(address, str(status_of(job)["jobId"]))
            except DashboardError as error:
                self._recorder.event(job, "Warning", "FailedToStopRayJob", str(error))
        await self._client.update(RAY_JOBS, without_finalizer(job, FINALIZER), manager=MANAGER)

    async def _submit(self, job: Obj, plan: RayJobPlan, cluster: Obj | None) -> None:
        address = dashboard_of(self._head(cluster))
        if plan.submit is None or not address:
            return
        try:
            await self._dashboard.submit(address, plan.submit)
        except DashboardError as error:
            self._recorder.event(job, "Warning", "FailedToSubmitRayJob", str(error))

    async def _act(self, job: Obj, plan: RayJobPlan, cluster: Obj | None) -> None:
        namespace = namespace_of(job)
        await self._submit(job, plan, cluster)
        if cluster is not None and not is_owned_by(cluster, uid_of(job)):
            cluster = None  # jobs are sent to clusters of others; nothing else is done to those
        if plan.delete_cluster and cluster is not None and not is_deleting(cluster):
            await delete_if_held(self._client, RAY_CLUSTERS, name_of(cluster), namespace)
        if plan.suspend_workers and cluster is not None:
            groups = [{**group, "suspend": True} for group in spec_of(cluster).get("workerGroupSpecs") or ()]
            changed = {**cluster, "spec": {**spec_of(cluster), "workerGroupSpecs": groups}}
            await self._client.update(RAY_CLUSTERS, changed, manager=MANAGER)
        if plan.delete_submitter:
            await delete_if_held(self._client, JOBS, name_of(job), namespace)
        if plan.create_cluster is not None:
            await create_unless_held(self._client, RAY_CLUSTERS, plan.create_cluster)
            text = f"Created RayCluster {namespace}/{name_of(plan.create_cluster)}"
            self._recorder.event(job, "Normal", "CreatedRayCluster", text)
        if plan.create_submitter is not None:
            await create_unless_held(self._client, JOBS, plan.create_submitter)
            text = f"Created Kubernetes Job {namespace}/{name_of(plan.create_submitter)}"
            self._recorder.event(job, "Normal", "CreatedRayJobSubmitter", text)
