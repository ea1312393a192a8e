"""ARCHITECTURE.md shows the house as it is: its rooms, the files on the three walks, and who decides what."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "corral"
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, flags=re.MULTILINE | re.DOTALL))
WALKS = {title: text for title, text in SECTIONS.items() if "'s way" in title}
TABLE = SECTIONS["Where is it decided?"]
FILE = re.compile(r"`((?:[\w<>]+/)*\w+\.py)`")
DECIDES = re.compile(FILE.pattern + r" \(`(\w+)`\)")

LINES, WIDTH = 130, 140
"""Two printed pages; a table row and a link may be wider, for Markdown cannot break them."""

SHARED = {"adapter.py": SOURCE / "jobs" / "framework" / "adapter.py"}
"""What every job kind has: the room `jobs/framework` says what it answers."""
EACH_KIND_HAS = ("plan.py",)

QUESTIONS = (
    "evicted Workload requeued",
    "How many clusters may a MultiKueueConfig name",
    "Who sets `spec.managedBy`",
    "How does the dashboard know who is asking",
    "When is a lost worker given up",
    "Where does `kubectl logs` of a dispatched pod go",
    "when is a binding released at once",
    "Who hands out pod addresses",
    "Where are the words of `corral explain` made",
    "How does a hub know that a job has ended",
)


def path_of(name: str) -> Path:
    return SHARED.get(name, SOURCE / name)


def rooms() -> list[str]:
    """Top-level packages, and the parts of those that are houses of their own."""
    found = []
    for folder in sorted(path for path in SOURCE.iterdir() if (path / "__init__.py").exists()):
        found.append(folder.name)
        parts = [part for part in sorted(folder.iterdir()) if (part / "__init__.py").exists()]
        found += [f"{folder.name}/{part.name}" for part in parts if folder.name != "jobs" and len(parts) > 2]
    return found


@pytest.mark.parametrize("room", rooms())
def test_every_room_is_in_the_picture(room: str) -> None:
    name = room.rpartition("/")[2]
    assert re.search(rf"(?<![\w]){name}/|\b{name}\b(?=[ }}])", SECTIONS["The house"]), f"the picture lacks {room}/"


def test_no_room_in_the_picture_is_made_up() -> None:
    picture = SECTIONS["The house"].split("```")[1]
    real = {path.name for path in SOURCE.rglob("*") if path.is_dir()}
    assert set(re.findall(r"(\w+)/", picture)) - real == set()


def test_the_walks_are_numbered_from_one() -> None:
    assert len(WALKS) == 3
    for title, text in WALKS.items():
        numbers = [int(number) for number in re.findall(r"^(\d+)\. ", text, flags=re.MULTILINE)]
        assert numbers == list(range(1, len(numbers) + 1)), title
        assert len(numbers) >= 4, title


@pytest.mark.parametrize("section", [*WALKS, "Where is it decided?", "The house", "Decisions"])
def test_every_file_that_is_named_exists(section: str) -> None:
    named = [name for name in FILE.findall(SECTIONS[section]) if "<" not in name]
    missing = [name for name in named if not path_of(name).is_file() and name not in EACH_KIND_HAS]
    assert missing == []


def rows() -> dict[str, str]:
    found = {}
    for line in TABLE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and len(cells) == 2 and cells[0] != "question":
            found[cells[0]] = cells[1].removesuffix("|").strip()
    return found


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_is_answered(question: str) -> None:
    assert [row for row in rows() if question in row], f"nothing is said about: {question}?"


def definitions(path: Path) -> set[str]:
    """Functions, methods, classes and constants of a module, however deep."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


@pytest.mark.parametrize(("question", "answer"), rows().items(), ids=list(rows()))
def test_the_first_file_of_an_answer_defines_what_decides(question: str, answer: str) -> None:
    first = DECIDES.search(answer)
    assert first is not None, f"say what decides in parentheses after the file: {answer}"
    assert first.start() == FILE.search(answer).start(), "what decides belongs to the file named first"  # type: ignore[union-attr]
    for file, name in DECIDES.findall(answer):
        assert name in definitions(path_of(file)), f"{file} does not define {name}"


def test_the_page_has_at_most_two_printed_pages() -> None:
    lines = PAGE.splitlines()
    assert len(lines) <= LINES
    assert [line for line in lines if len(line) > WIDTH and not line.startswith("|")] == []
