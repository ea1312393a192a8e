"""Everything a queueing cluster decides: who is admitted where, who must make room, and why the others wait.

Start at `state.QueueingState`: feed it API objects as they change, ask it for the next `CyclePlan`, act on the plan.

- what is kept: `world`, made of `quota/`, `queue/pending` and `topology/`
- what an object says: `model/decode`; for Workloads `model/request_inputs`, `model/workload` and `model/podsets`
- what changes on an event: `queue/workload_updates` moves Workloads between `queue/waiting` and `quota/reservations`;
  `queue/requeue_triggers` finds whose parked workloads are tried again, `queue/activity` which queues can admit
- what is decided: `cycle/`, where `nomination` (`flavors`, `preemption/`) finds room and victims for the heads of queues
  and `entry_processing` admits them, preempts for them or lets them wait; a `plan` comes out
- what is asked: `questions`, answered by `views` and `explain`
"""
