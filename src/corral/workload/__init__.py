"""The Workload, which every room speaks of: its values, its life, its checks, its status. Pure, and below `decide`."""
