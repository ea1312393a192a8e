"""ClusterProfile of the multi-cluster SIG: the members of a fleet as other tools read them."""

from __future__ import annotations

from corral.kinds.machinery import schemas as s
from corral.kinds.machinery.definition import Column, KindDef, Schema, VersionDef, age_column

INVENTORY_GROUP = "multicluster.x-k8s.io"


def _cluster_profile() -> Schema:
    manager = s.obj({"name": s.string()}, required=("name",))
    spec = s.obj({"displayName": s.string(), "clusterManager": manager}, required=("clusterManager",))
    cluster = s.obj(
        {
            "server": s.string(),
            "tls-server-name": s.string(),
            "insecure-skip-tls-verify": s.boolean(),
            "certificate-authority": s.string(),
            "certificate-authority-data": s.string(),
            "proxy-url": s.string(),
            "disable-compression": s.boolean(),
        },
        required=("server",),
    )
    provider = s.obj({"name": s.string(), "cluster": cluster}, required=("name",))
    pair = s.obj({"name": s.string(), "value": s.string()}, required=("name", "value"))
    status = s.obj(
        {
            "conditions": s.conditions(),
            "version": s.obj({"kubernetes": s.string()}),
            "properties": s.array(pair),
            "accessProviders": s.array(provider, list_type="map", keys=("name",)),
        }
    )
    return s.root(spec=spec, status=status)


CLUSTER_PROFILE = KindDef(
    group=INVENTORY_GROUP,
    descriptions="corral.kinds.fleet.descriptions:DESCRIPTIONS",
    kind="ClusterProfile",
    plural="clusterprofiles",
    namespaced=True,
    versions=(
        VersionDef(
            "v1alpha1",
            _cluster_profile,
            storage=True,
            status=True,
            columns=(
                Column("Cluster-Manager", ".spec.clusterManager.name"),
                Column("Kubernetes", ".status.version.kubernetes"),
                Column("Healthy", '.status.conditions[?(@.type=="ControlPlaneHealthy")].status'),
                age_column(),
            ),
        ),
    ),
)
