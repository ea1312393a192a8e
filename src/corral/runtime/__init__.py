"""What controllers are made of: clock, informers, work queues, reconcilers, events, leader election, metrics."""
