"""apiextensions.k8s.io/v1: CustomResourceDefinition."""

from __future__ import annotations

from corral.kinds.kubernetes.apiextensions import rules
from corral.kinds.machinery.builtin import kind

CUSTOM_RESOURCE_DEFINITION = kind(
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
    "customresourcedefinitions",
    group="apiextensions.k8s.io",
    namespaced=False,
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    status=True,
    has_generation=True,
    allow_unconditional_update=False,
    default=rules.default_crd,
    prepare_create=rules.prepare_crd,
    prepare_update=rules.prepare_crd_update,
    validate=rules.check_crd,
    validate_update=rules.check_crd_update,
    validate_status=rules.check_crd_status,
)

KINDS = (CUSTOM_RESOURCE_DEFINITION,)

CUSTOM_RESOURCE_DEFINITIONS = CUSTOM_RESOURCE_DEFINITION.resource()
