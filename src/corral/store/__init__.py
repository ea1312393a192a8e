"""The ordered object store of one cluster: revisions, watch, durable journal.

Every write gets the next revision, is journalled, and becomes visible to readers and watchers, in order, only when the
journal has it. Bytes are the primary form of an object; the decoded form is a bounded cache beside them.
"""

from corral.store.errors import Compacted, Homeless, Stale, StoreError, TooLarge
from corral.store.journal import Journal, MemoryJournal
from corral.store.sqlite import SqliteJournal
from corral.store.store import Page, Retention, Store
from corral.store.stored import Event, ObjectKey, Stored
from corral.store.watch import StoreWatch

__all__ = [
    "Compacted", "Event", "Homeless", "Journal", "MemoryJournal", "ObjectKey", "Page", "Retention", "SqliteJournal", "Stale", "Store",
    "StoreError", "StoreWatch", "Stored", "TooLarge",
]  # fmt: skip
