"""What is said when a cluster does not do what was asked: its own words, and what helps where that can be known."""

from __future__ import annotations

from corral.core.errors import ConnectionFailed, Forbidden, Unauthorized


def sentence_of(error: BaseException) -> str:
    """The sentence for a user."""
    return f"{error}{_what_to_do(error)}"


def _what_to_do(error: BaseException) -> str:
    """What helps where a server is not there, or does not take the user for whom he is, or not for enough."""
    if isinstance(error, ConnectionFailed) and str(error).endswith("it does not answer"):
        return "; `corral doctor` says what is wrong with a fleet of this machine, and how to mend it"
    if isinstance(error, ConnectionFailed) and _is_here(str(error)):
        return "; `corral status` shows whether a fleet runs here, `corral up` starts it"
    if isinstance(error, Unauthorized):
        return (
            ": the server does not accept this kubeconfig's credentials, or no longer; renew its token or certificate, or"
            " choose another with --kubeconfig or --context (`corral kubectl-config` names the file of the fleet on this machine)"
        )
    if isinstance(error, Forbidden) and "cannot" in str(error):
        if not _is_of_queueing(str(error)):
            return "; whoever runs the cluster can grant it"
        return (
            "; whoever runs the cluster can grant it, for example with the ClusterRole kueue-batch-user-role in your"
            " namespace (jobs and queues) or kueue-batch-admin-role (all of queueing)"
        )
    return ""


def _is_of_queueing(text: str) -> bool:
    """Whether what is forbidden is among what the roles for queueing grant."""
    if "API group" not in text:
        return True
    from corral.jobs.framework.roles import user_rules

    groups = {
        "kueue.x-k8s.io",
        "visibility.kueue.x-k8s.io",
        *(group for rule in user_rules() for group in rule["apiGroups"]),
    }
    return any(f'in API group "{group}"' in text for group in groups)


def _is_here(text: str) -> bool:
    return "//127." in text or "//localhost" in text
