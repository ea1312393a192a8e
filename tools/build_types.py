"""Developer tool: read the Go types of the Kubernetes API and write their facts as JSON.

For every struct: its fields in order, each with its Go name, JSON name, Go type, protobuf number and omission rule; for
every named type what it stands for. The versioned types (k8s.io/api, ...) drive typed decoding and protobuf; the internal
ones (k8s.io/kubernetes/pkg/apis) appear in a few error messages of a real server. Names, numbers and types only, no text.

    python tools/build_types.py        # downloads the Go modules with `go mod download`; needs Go
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from pathlib import Path

RELEASE = "34.2"
TARGET = Path(__file__).resolve().parent.parent / "src" / "corral" / "kinds" / "data" / "types"

API = "k8s.io/api"
VERSIONED = (
    "admissionregistration/v1", "apps/v1", "authentication/v1", "authorization/v1", "autoscaling/v1", "autoscaling/v2",
    "batch/v1", "certificates/v1", "coordination/v1", "core/v1", "discovery/v1", "events/v1", "flowcontrol/v1",
    "networking/v1", "node/v1", "policy/v1", "rbac/v1", "resource/v1", "scheduling/v1", "storage/v1",
)  # fmt: skip
INTERNAL = (
    "admissionregistration", "apps", "authentication", "authorization", "autoscaling", "batch", "certificates",
    "coordination", "core", "discovery", "networking", "node", "policy", "rbac", "scheduling", "storage",
)  # fmt: skip

PACKAGES: dict[str, tuple[str, str]] = {
    **{name: (API, name) for name in VERSIONED},
    "meta/v1": ("k8s.io/apimachinery", "pkg/apis/meta/v1"),
    "runtime": ("k8s.io/apimachinery", "pkg/runtime"),
    "types": ("k8s.io/apimachinery", "pkg/types"),
    "intstr": ("k8s.io/apimachinery", "pkg/util/intstr"),
    "resource": ("k8s.io/apimachinery", "pkg/api/resource"),
    "apiextensions/v1": ("k8s.io/apiextensions-apiserver", "pkg/apis/apiextensions/v1"),
    "apiregistration/v1": ("k8s.io/kube-aggregator", "pkg/apis/apiregistration/v1"),
    "apiextensions": ("k8s.io/apiextensions-apiserver", "pkg/apis/apiextensions"),
    **{name: ("k8s.io/kubernetes", f"pkg/apis/{name}") for name in INTERNAL},
}
"""Our name of a package -> Go module and folder in it."""

STRUCT = re.compile(r"^type (\w+) struct ?\{")
NAMED = re.compile(r"^type (\w+) (=? ?)([\w.\[\]*]+)$")
FIELD = re.compile(r"^(\w+)\s+([^`]+?)\s*(`.*`)?$")
EMBEDDED = re.compile(r"^(\*?[\w.]+)\s*(`.*`)?$")
IMPORT = re.compile(r'^\s*(\w+)?\s*"([^"]+)"')


def module_folders() -> dict[str, Path]:
    """Where `go mod download` put each module."""
    versions = {"k8s.io/kubernetes": f"v1.{RELEASE}"}
    found = {}
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "go.mod").write_text("module scratch\n")
        for module in sorted({module for module, _ in PACKAGES.values()}):
            command = ["go", "mod", "download", "-json", f"{module}@{versions.get(module, f'v0.{RELEASE}')}"]
            answer = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=True)
            found[module] = Path(json.loads(answer.stdout)["Dir"])
    return found


def package_by_path() -> dict[str, str]:
    return {f"{module}/{folder}": name for name, (module, folder) in PACKAGES.items()}


def strip_comments(text: str) -> list[str]:
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    lines = (re.sub(r"(^|\s)//.*$", "", line).strip() for line in text.splitlines())
    return [line for line in lines if line]


def imports_of(lines: list[str]) -> dict[str, str]:
    """Import alias -> our package name, for packages we know."""
    known = package_by_path()
    aliases = {}
    for line in lines:
        match = IMPORT.match(line.removeprefix("import "))
        if match and match[2] in known:
            aliases[match[1] or match[2].rpartition("/")[2]] = known[match[2]]
    return aliases


def qualify(go_type: str, aliases: dict[str, str]) -> str:
    """`[]metav1.Condition` -> `[]meta/v1.Condition`; names of the same package stay bare."""
    return re.sub(r"(\w+)\.(\w+)", lambda m: f"{aliases.get(m[1], m[1])}.{m[2]}", go_type)


def read_tag(tag: str, name: str) -> tuple[str, int, str]:
    """JSON name, protobuf number and flags (e: omitempty, z: omitzero, i: inline) of a field tag."""
    parts = dict(re.findall(r'(\w+):"([^"]*)"', tag or ""))
    json_name, *options = parts.get("json", "").split(",")
    proto = parts.get("protobuf", "").split(",")
    number = int(proto[1]) if len(proto) > 1 else 0
    flags = ("e" if "omitempty" in options else "") + ("z" if "omitzero" in options else "")
    if "inline" in options:
        flags += "i"
    return json_name or ("" if "i" in flags else name), number, flags


def read_struct(lines: list[str], start: int, aliases: dict[str, str]) -> tuple[list[list[object]], int]:
    fields: list[list[object]] = []
    position = start
    while lines[position] != "}":
        line = lines[position]
        position += 1
        embedded = EMBEDDED.match(line)
        if embedded:
            base = embedded[1].rpartition(".")[2].lstrip("*")
            json_name, number, flags = read_tag(embedded[2], base)
            if "json:" not in (embedded[2] or "") or json_name == base:
                json_name, flags = "", flags + "i"
            fields.append([base, json_name, qualify(embedded[1], aliases), number, flags])
            continue
        match = FIELD.match(line)
        if match and match[1][0].isupper():
            json_name, number, flags = read_tag(match[3], match[1])
            if json_name != "-":
                fields.append([match[1], json_name, qualify(match[2], aliases), number, flags])
    return fields, position


def read_package(folder: Path) -> dict[str, object]:
    named: dict[str, str] = {}
    structs: dict[str, object] = {}
    for path in sorted(folder.glob("*.go")):
        if path.name.endswith("_test.go") or path.name.startswith(("zz_", "generated")):
            continue
        lines = strip_comments(path.read_text())
        aliases = imports_of(lines)
        position = 0
        while position < len(lines):
            line = lines[position]
            position += 1
            struct = STRUCT.match(line)
            if struct and not line.endswith("}"):
                structs[struct[1]], position = read_struct(lines, position, aliases)
            elif struct:
                structs[struct[1]] = []
            elif match := NAMED.match(line):
                named[match[1]] = ("=" if "=" in match[2] else "") + qualify(match[3], aliases)
    public = {name: fields for name, fields in sorted(structs.items()) if name[0].isupper()}
    return {"named": {k: v for k, v in sorted(named.items()) if k[0].isupper()}, "structs": public}


def dump(content: dict[str, object]) -> str:
    """JSON with one type a line, so that a new release makes a readable diff."""
    parts = []
    for section in ("named", "structs"):
        entries = content[section]
        assert isinstance(entries, dict)
        rows = (f"{json.dumps(k)}:{json.dumps(v, separators=(',', ':'))}" for k, v in entries.items())
        parts.append(f'"{section}":{{\n' + ",\n".join(rows) + "\n}")
    return "{" + ",\n".join(parts) + "}\n"


def main() -> None:
    folders = module_folders()
    TARGET.mkdir(parents=True, exist_ok=True)
    for name, (module, folder) in PACKAGES.items():
        path = TARGET / f"{name.replace('/', '.')}.json"
        path.write_text(dump(read_package(folders[module] / folder)))
        print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
