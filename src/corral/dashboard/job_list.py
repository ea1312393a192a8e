"""Which jobs the page shows: those of a state and with all words asked for, in order, a page of them at a time.

What waits comes first, in the order of its queue; then what has quota, what runs and what ended, the newest first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from corral.core.errors import BadRequest
from corral.core.meta import Obj

PAGE = 100
MAX_TEXT = 200
ORDER = {"pending": 0, "quotaReserved": 1, "admitted": 2, "finished": 3}
SORTS = ("name", "queue", "priority", "cluster", "created", "started", "ended")
"""What rows can be sorted by; with a minus before it, the other way round."""
SEARCHED = ("kind", "namespace", "name", "queue", "clusterQueue", "cluster", "why")


@dataclass(frozen=True, slots=True)
class Choice:
    """What a viewer asked to see; the first page has number 0."""

    words: tuple[str, ...] = ()
    state: str = ""
    page: int = 0
    sort: str = ""


def choice_from(query: Mapping[str, str]) -> Choice:
    """A choice as it stands in an address."""
    text, state, page = query.get("text", ""), query.get("state", ""), query.get("page", "0")
    sort = query.get("sort", "")
    if state and state not in ORDER:
        raise BadRequest(f"there is no state {state!r}; there are {', '.join(ORDER)}")
    if not (page.isascii() and page.isdecimal() and len(page) < 9):
        raise BadRequest(f"the page {page[:40]!r} is not a number")
    if sort and sort.removeprefix("-") not in SORTS:
        raise BadRequest(f"jobs cannot be sorted by {sort[:40]!r}; there are {', '.join(SORTS)}")
    if len(text) > MAX_TEXT:
        raise BadRequest(f"what is searched for has at most {MAX_TEXT} letters")
    return Choice(tuple(text.lower().split()), state, int(page), sort)


def choose(jobs: Iterable[Obj], choice: Choice, finish: Callable[[Obj], Obj]) -> Obj:
    """One page of the jobs that match, with how many there are of each state.

    `finish` adds what takes long to find out; it is called for jobs that are shown, and for all only where words are searched."""
    found = list(jobs)
    counts = Counter(job["state"] for job in found)
    found = [job for job in found if choice.state in ("", job["state"])]
    if choice.words:
        found = [job for job in map(finish, found) if _has(job, choice.words)]
    found = _sorted(found, choice.sort)
    last = max(0, (len(found) - 1) // PAGE)
    page = min(choice.page, last)
    shown = found[page * PAGE : (page + 1) * PAGE]
    return {
        "jobs": shown if choice.words else [finish(job) for job in shown],
        "counts": {state: counts[state] for state in ORDER},
        "matching": len(found),
        "first": page * PAGE,
        "page": page,
        "pages": last + 1,
    }


def _sorted(jobs: list[Obj], sort: str) -> list[Obj]:
    """By what is asked for, what lacks it last; by themselves in the order of the page."""
    if field := sort.removeprefix("-"):
        there = sorted((job for job in jobs if job[field] != ""), key=lambda job: job[field], reverse=sort[0] == "-")
        return [*there, *(job for job in jobs if job[field] == "")]
    jobs.sort(key=lambda job: job["created"], reverse=True)
    # Of a waiting job whose place is not known yet it is only known that it came late.
    return sorted(jobs, key=lambda job: (ORDER[job["state"]], job["ahead"] is None, job["ahead"] or 0))


def _has(job: Obj, words: Sequence[str]) -> bool:
    text = " ".join(str(job[field]) for field in SEARCHED).lower()
    return all(word in f"{text} {job['namespace']}/{job['name']}".lower() for word in words)
