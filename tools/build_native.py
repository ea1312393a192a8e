"""Compile the hot modules to C with mypyc: the same source, less interpreter.

    python tools/build_native.py [TARGET]        (default build/native; then PYTHONPATH=build/native corral ...)

The package is copied to TARGET and compiled there, so the source tree never holds a binary that an edit makes stale, and
every module works uncompiled as well. `CORRAL_NATIVE=1 make build` puts the same binaries into the wheel. Needs a C
compiler; ccache is used where there is one.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
TARGET = ROOT / "build" / "native"

MODULES = (
    "core/{admission,apply,conditions,fieldset,meta,names,patch,selectors,timestamps}.py",
    "core/schema/{defaults,gate,prune,resource,rules,structural,validate}.py",
    "store/{bucket,journal,store,watch}.py",
    "runtime/{controller,events,informer,metrics,queue}.py",
    "kinds/{decoding,definition}.py",
    "jobs/{lifecycle,statuses,workload}.py",
    "decide/queueing/{cycle,flavors,intake,pending,quota,state,tally}.py",
    "controllers/queueing/{context,feed,queue_status,scheduler,workload_controller}.py",
    "controllers/queueing/admission/{plugins,surroundings,workload}.py",
    "server/{admission,api,app,applying,authz,intake,managed,methods,options,read,request_bodies,requests}.py",
    "server/{resources,selection,serving,shape,watching,write}.py",
    "server/http/connection.py",
)
"""What a write, a watch and an admission pass through. Whatever mypyc cannot take (structs of msgspec, subclasses of
built-in types, exceptions with fields of their class, async generators) stays interpreted, and so does all else."""


def modules(root: Path) -> list[str]:
    """The paths below `root` of what is compiled."""
    package = root / "corral"
    found = sorted({path for pattern in MODULES for each in _spelt_out(pattern) for path in package.glob(each)})
    return [str(path.relative_to(root)) for path in found]


def _spelt_out(pattern: str) -> list[str]:
    """`a/{b,c}.py` is `a/b.py` and `a/c.py`."""
    before, brace, rest = pattern.partition("{")
    names, _, after = rest.partition("}")
    return [before + name + after for name in names.split(",")] if brace else [pattern]


def build(target: Path = TARGET) -> list[Path]:
    """Copy the package to `target`, compile, and return the binaries."""
    from mypyc.build import mypycify
    from setuptools import Distribution

    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(SOURCE / "corral", target / "corral", ignore=shutil.ignore_patterns("__pycache__"))
    if shutil.which("ccache"):
        os.environ.setdefault("CC", "ccache cc")
    os.chdir(target)
    (target / "mypy.ini").write_text("[mypy]\npython_version = 3.11\nignore_missing_imports = True\n")
    extensions = mypycify(
        ["--config-file", "mypy.ini", *modules(target)], opt_level="2", multi_file=True, group_name="corral"
    )
    distribution = Distribution({"name": "corral-native", "ext_modules": extensions})
    command = distribution.get_command_obj("build_ext")
    command.build_lib = str(target)  # type: ignore[attr-defined]
    command.parallel = os.cpu_count()  # type: ignore[attr-defined]
    command.ensure_finalized()
    command.run()
    return sorted(target.rglob("*.so"))


if __name__ == "__main__":
    where = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else TARGET
    print(f"compiled {len(build(where))} modules into {where}")
