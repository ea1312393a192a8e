"""What an installation of Kueue leaves in a cluster, for tools and people that look for it."""
