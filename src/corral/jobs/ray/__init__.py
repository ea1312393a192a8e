"""ray.io: RayCluster, RayJob and RayService."""
