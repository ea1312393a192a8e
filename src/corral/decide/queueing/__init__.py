"""Everything a queueing cluster decides: who is admitted where, who must make room, and why the others wait.

Start at `state.QueueingState`: feed it API objects as they change, ask it for the next `CyclePlan`, act on the plan.

- what is kept: `world`, made of `clusterqueue`, `quota`, `pending`, `tally`, `admission_fairness` and `topology/`
- what an object says: `decode`; for Workloads `surroundings`, `workload` and `podsets`
- what changes on an event: `intake` for Workloads, which moves them between `waiting` and `reservations`; `requeue_triggers` says
  who gets another chance and `activity` which queues can admit
- what is decided: `cycle`, where `nomination` (`flavors`, `preemption`, `fair_preemption`) finds room and victims for
  the heads of queues and `turns` admits them, preempts for them or lets them wait; a `plan` comes out
- what is asked: `questions`, answered by `views` and `explain`
"""
