"""What a member does with the Works of its hub, decided without touching either: comparing, merging, judging, telling."""
