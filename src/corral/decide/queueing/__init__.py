"""Everything a queueing cluster decides: who is admitted where, who must make room, and why the others wait.

Start at `state.QueueingState`: feed it API objects as they change, ask it for the next `CyclePlan`, act on the plan.
"""
