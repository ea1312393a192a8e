"""`corral examples`: the examples that come with Corral, listed, printed and copied; they are inside the wheel."""

from __future__ import annotations

import json
import shutil
from difflib import get_close_matches
from pathlib import Path

import click
import yaml

from corral.cli.groups import Commands
from corral.cli.output.tables import print_table
from corral.core.text_files import read_text


def examples_folder() -> Path:
    """Where they are: in the package once it is installed, at the top of a checkout before that."""
    import corral

    package = Path(corral.__file__).parent
    for folder in (package / "examples", package.parents[1] / "examples"):
        if folder.is_dir():
            return folder
    raise click.ClickException("the examples are not part of this installation; install the wheel or use a checkout")


def _files() -> dict[str, Path]:
    """Examples by the path below their folder, files of the same purpose in a folder together."""
    folder = examples_folder()
    found = sorted(path for path in folder.rglob("*") if path.suffix in (".yaml", ".py", ".ipynb"))
    return {path.relative_to(folder).as_posix(): path for path in found}


def _chosen(word: str) -> list[tuple[str, Path]]:
    """The example of a name, with or without its suffix, or all of a folder."""
    files = _files()
    found = [(name, path) for name, path in files.items() if word in (name, name.rpartition(".")[0])]
    found = found or [(name, path) for name, path in files.items() if name.startswith(f"{word.rstrip('/')}/")]
    if not found:
        known = sorted({name.rpartition(".")[0] for name in files} | {Path(name).parts[0] for name in files})
        close = get_close_matches(word, known, n=2)
        hint = f"did you mean {' or '.join(close)}?" if close else "`corral examples` lists them"
        raise click.ClickException(f"there is no example {word}; {hint}")
    return found


@click.group(cls=Commands, invoke_without_command=True)
@click.pass_context
def examples(context: click.Context) -> None:
    """List the examples that come with Corral; `show` prints one, `copy` brings them here.

    \b
    corral examples show job | corral apply -f -
    corral examples copy            # all of them, into ./examples
    """
    if context.invoked_subcommand is None:
        list_()


def list_() -> None:
    rows = []
    for name, path in _files().items():
        rows.append((name, _about(read_text(path))))
    print_table(("NAME", "WHAT IT SHOWS"), rows)


def _about(text: str) -> str:
    """What an example says of itself in its first line, without how to apply it; else what it makes."""
    if text.startswith("{"):  # a notebook begins with its title
        text = str(json.loads(text)["cells"][0]["source"][0])
    first = text.partition("\n")[0]
    if first.startswith("#"):
        return first.removeprefix("#").strip().partition(" kubectl ")[0].rstrip(" :")
    made = [one for one in yaml.safe_load_all(text) if one]
    return ", ".join(f"{one['kind']} {one['metadata']['name']}" for one in made)


@examples.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=lambda *_: sorted(_files()))
def show(names: tuple[str, ...]) -> None:
    """Print examples, as they are."""
    for number, (_, path) in enumerate([one for name in names for one in _chosen(name)]):
        if number:
            click.echo("---")
        click.echo(read_text(path), nl=False)


@examples.command()
@click.argument("names", nargs=-1, metavar="[NAME...]", shell_complete=lambda *_: sorted(_files()))
@click.option("--to", type=click.Path(path_type=Path, file_okay=False), default=Path("examples"), show_default=True,
              help="Folder to copy into.")  # fmt: skip
@click.option("--overwrite", is_flag=True, help="Also replace files that are there and differ.")
def copy(names: tuple[str, ...], to: Path, overwrite: bool) -> None:
    """Copy examples into a folder; all of them where none is named. Files that are there and differ stay as they are."""
    chosen = [one for name in names for one in _chosen(name)] if names else list(_files().items())
    kept = []
    for name, path in chosen:
        target = to / name
        if target.exists() and not overwrite and target.read_bytes() != path.read_bytes():
            kept.append(name)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    click.echo(f"{len(chosen) - len(kept)} examples are in {to}")
    if kept:
        raise click.ClickException(f"{', '.join(kept)} there differ and were kept; --overwrite replaces them")
