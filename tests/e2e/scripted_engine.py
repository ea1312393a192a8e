"""A container engine for tests: takes the words of podman, docker and nerdctl, and runs containers as plain processes.

Installed under an engine's name in a folder of its own, in which it keeps its containers and images (a file of each name).
"""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

VALUED = {
    "--name", "--pull", "--network", "--hostname", "--security-opt", "--label", "--env", "--volume", "--workdir", "--entrypoint",
    "--memory", "--memory-swap", "--cpus", "--user", "--group-add", "--cap-drop", "--cap-add", "--device", "--gpus", "--pid", "--ipc",
}  # fmt: skip
FLAGS = {"--interactive", "--tty", "--read-only", "--privileged"}


def install(folder: Path, program: str, *images: str) -> None:
    """The engine as `program` in a folder, with images."""
    (folder / "containers").mkdir(parents=True)
    (folder / "images").mkdir()
    for image in images:
        (folder / "images" / image.replace("/", "@")).touch()
    script = folder / program
    script.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__)} {folder} "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)


class Scripted:
    def __init__(self, folder: Path) -> None:
        self.containers, self.images = folder / "containers", folder / "images"

    def run(self, words: list[str]) -> int:
        options, (image, *command) = _options(words)
        name = options["--name"][0]
        if not self._has(image):
            sys.stderr.write(f"Error: {image}: image not known\n")
            return 125
        environment = {"PATH": os.environ["PATH"]}
        for entry in options.get("--env", []):
            key, equals, text = entry.partition("=")
            environment[key] = text if equals else os.environ[key]
        command = [*options.get("--entrypoint", []), *command]
        for volume in options.get("--volume", []):  # there is no view of its own: paths are written out
            source, target = volume.split(":")[:2]
            command = [part.replace(target, source) for part in command]
        try:
            process = subprocess.Popen(command, env=environment, start_new_session=True)
        except FileNotFoundError as error:
            sys.stderr.write(f"Error: {error}\n")
            return 127
        state = {"pid": process.pid, "labels": options.get("--label", []), "words": words}
        (self.containers / name).write_text(json.dumps(state))
        signal.signal(signal.SIGTERM, lambda number, _: process.send_signal(number))
        code = process.wait()
        return 128 - code if code < 0 else code

    def exec(self, words: list[str]) -> int:
        _, (name, *command) = _options(words)
        if not (self.containers / name).exists():
            sys.stderr.write(f"Error: no container {name}\n")
            return 125
        return subprocess.call(command)

    def kill(self, words: list[str]) -> int:
        self._signal(words[-1])
        return 0

    def rm(self, words: list[str]) -> int:
        for name in (word for word in words if not word.startswith("--")):
            self._signal(name)
            (self.containers / name).unlink(missing_ok=True)
        return 0

    def ps(self, words: list[str]) -> int:
        label = words[-1].removeprefix("label=")
        for container in self.containers.iterdir():
            if label in json.loads(container.read_text())["labels"]:
                sys.stdout.write(f"{container.name}\n")
        return 0

    def inspect(self, words: list[str]) -> int:
        is_running = "{{.State.Running}}" in words and (self.containers / words[-1]).exists()
        sys.stdout.write("true\n" if is_running else "false\n")
        return 0

    def image(self, words: list[str]) -> int:
        return 0 if self._has(words[-1]) else 1

    def pull(self, words: list[str]) -> int:
        if words[-1].startswith("registry.test/"):
            (self.images / words[-1].replace("/", "@")).touch()
            return 0
        sys.stderr.write(f"Trying to pull {words[-1]}...\nError: manifest unknown\n")
        return 125

    def version(self, words: list[str]) -> int:
        return 0

    def _has(self, image: str) -> bool:
        return (self.images / image.replace("/", "@")).exists()

    def _signal(self, name: str) -> None:
        try:
            os.killpg(json.loads((self.containers / name).read_text())["pid"], signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            pass


def _options(words: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    found: dict[str, list[str]] = {}
    while words and words[0].startswith("--"):
        word, *words = words
        if word in VALUED:
            text, *words = words
            found.setdefault(word, []).append(text)
        elif word not in FLAGS:
            raise SystemExit(f"unknown option {word}")
    return found, words


if __name__ == "__main__":
    folder, verb, *rest = sys.argv[1:]
    sys.exit(getattr(Scripted(Path(folder)), verb)(rest))
