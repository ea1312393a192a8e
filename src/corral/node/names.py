"""Names inside pods: the hosts file that makes Services, headless Services and pod hostnames resolve.

Pure text from objects. A Service with an address that answers resolves to it; a headless one, and one nobody answers for,
to the addresses of its pods, or to those written for it. A pod with hostname and subdomain has a name under its Service. In its own namespace a name
may be written bare, elsewhere with the namespace, everywhere in full.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from corral.core.conditions import is_true
from corral.core.meta import Obj, is_deleting, labels_of, name_of, namespace_of, spec_of, status_of

DOMAIN = "cluster.local"

Record = tuple[str, str, str]
"""Namespace, name within it, address."""


def pod_hostname(pod: Obj) -> str:
    """What `hostname` prints in the pod."""
    return str(spec_of(pod).get("hostname") or name_of(pod))[:63].rstrip("-.")


def selects(service: Obj, pod: Obj) -> bool:
    """Whether `pod` is one of the pods of `service`."""
    selector: dict[str, str] = spec_of(service).get("selector") or {}
    labels = labels_of(pod)
    return (
        bool(selector)
        and namespace_of(service) == namespace_of(pod)
        and all(labels.get(key) == value for key, value in selector.items())
    )


def is_published(service: Obj, pod: Obj) -> bool:
    """Whether the pod's address is given out: it has one, and is ready unless the Service says that does not matter."""
    status = status_of(pod)
    if not status.get("podIP") or status.get("phase") in ("Succeeded", "Failed"):
        return False
    return bool(spec_of(service).get("publishNotReadyAddresses")) or (is_true(pod, "Ready") and not is_deleting(pod))


def is_headless(service: Obj) -> bool:
    return spec_of(service).get("clusterIP") == "None"


def records(
    services: Iterable[Obj],
    pods_of: Callable[[Obj], Sequence[Obj]],
    answered: Callable[[Obj], str],
    written: Callable[[Obj], Sequence[str]] = lambda _: (),
) -> list[Record]:
    """Every name and address in the cluster. `answered(service)` is the address that serves it, or empty; `written(service)`
    are the addresses people gave a Service that selects no pods.

    A headless Service gives out the addresses of pods that are not ready too: rendezvous happens before readiness, and a
    pod cannot ask again when its first lookup has failed.
    """
    found: list[Record] = []
    for service in services:
        namespace, name = namespace_of(service), name_of(service)
        address = "" if is_headless(service) else answered(service)
        if address:
            found.append((namespace, name, address))
            continue
        found.extend((namespace, name, address) for address in written(service))
        pods = pods_of(service)
        ready = [pod for pod in pods if is_published(service, pod)]
        living = [
            pod
            for pod in pods
            if status_of(pod).get("podIP") and status_of(pod).get("phase") not in ("Succeeded", "Failed")
        ]
        for pod in ready or living:
            found.append((namespace, name, status_of(pod)["podIP"]))
        for pod in living:
            if spec_of(pod).get("subdomain") == name:
                found.append((namespace, f"{pod_hostname(pod)}.{name}", status_of(pod)["podIP"]))
    return found


def hosts_text(entries: Iterable[Record], namespace: str) -> str:
    """Lines of a hosts file for a pod of `namespace`."""
    lines: dict[str, list[str]] = {}
    for owner, name, address in entries:
        forms = [f"{name}.{owner}.svc.{DOMAIN}", f"{name}.{owner}.svc", f"{name}.{owner}"]
        if owner == namespace:
            forms.append(name)
        lines.setdefault(f"{address}\t{' '.join(forms)}", []).append(name)
    return "".join(f"{line}\n" for line in lines)


def pod_hosts(pod: Obj, address: str, shared: str, services: Iterable[Obj] = ()) -> str:
    """The whole hosts file of one pod. Headless `services` that select it lead to itself from its first moment on."""
    hostname = pod_hostname(pod)
    names = [hostname]
    if subdomain := spec_of(pod).get("subdomain"):
        names.insert(0, f"{hostname}.{subdomain}.{namespace_of(pod)}.svc.{DOMAIN}")
    own = (
        f"# written by the node, kept current while the pod runs\n127.0.0.1\tlocalhost\n{address}\t{' '.join(names)}\n"
    )
    aliases = "".join(
        f"{entry['ip']}\t{' '.join(entry.get('hostnames') or ())}\n" for entry in spec_of(pod).get("hostAliases") or ()
    )
    itself = [(namespace_of(pod), name_of(service), address) for service in services if is_headless(service)]
    return own + aliases + hosts_text(itself, namespace_of(pod)) + shared


def rewrite(value: str, table: Mapping[str, str]) -> str:
    """`value` with a name of the cluster replaced by its address, where a program would look it up.

    The fallback for machines on which a pod cannot have a hosts file of its own: a value that is a name, a `name:port`,
    a URL, or a comma-separated list of these.
    """
    return ",".join(_rewrite_one(part, table) for part in value.split(","))


_HOST = re.compile(r"^(?P<head>[a-z][a-z0-9+.-]*://)?(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*)(?P<tail>(?::\d+)?(?:/.*)?)$")


def _rewrite_one(part: str, table: Mapping[str, str]) -> str:
    match = _HOST.match(part)
    if match is None or match["host"] not in table:
        return part
    return f"{match['head'] or ''}{table[match['host']]}{match['tail']}"


def lookup_table(entries: Iterable[Record], namespace: str) -> dict[str, str]:
    """Every form of every name with its first address, for `rewrite`."""
    table: dict[str, str] = {}
    for owner, name, address in entries:
        for form in (f"{name}.{owner}.svc.{DOMAIN}", f"{name}.{owner}.svc", f"{name}.{owner}"):
            table.setdefault(form, address)
        if owner == namespace:
            table.setdefault(name, address)
    return table
