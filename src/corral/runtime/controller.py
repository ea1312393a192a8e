"""Controllers: a reconciler gets a key, reads everything, converges, returns. A manager gives it informers and workers.

A controller is complete when it is constructed, and everything it has is made in `__init__`: it takes its manager (or a
context that carries one), asks it for the informers it reads, and as its last act adds itself with what wakes it.

    class Stamp:
        name = "stamp"

        def __init__(self, manager: Manager) -> None:
            self._client, self._jobs = manager.client, manager.informer(JOBS)
            manager.add(self, watches=[Watch(JOBS)])

        async def reconcile(self, key: Key) -> Result | None: ...

So `Stamp(manager)` is all it takes to run one, and nothing can be used before it is there. Handlers and workers may be
called as soon as the controller is added, which is why that comes last.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from corral.client.protocol import Client
from corral.core.admission import UserInfo
from corral.core.budget import SET_ASIDE, STRIKES, Budget, Cpu
from corral.core.conditions import condition, is_true, set_condition
from corral.core.errors import ApiError, Conflict, Forbidden, NotFound
from corral.core.identity import Identity
from corral.core.meta import Key, Obj, controller_of, key_of, namespace_of, with_status
from corral.core.resource import Resource
from corral.runtime.budget import Meter, cpu_of
from corral.runtime.clock import Clock
from corral.runtime.events import Recorder
from corral.runtime.informer import Informer
from corral.runtime.metrics import Metrics
from corral.runtime.queue import WorkQueue
from corral.runtime.random import Random
from corral.runtime.secrets import KeySource, private_key

log = logging.getLogger(__name__)

RECONCILE_DEADLINE_S = 300.0
RIGHTS_RETRY_S = 5.0


class Result(NamedTuple):
    """What a reconcile asks for next."""

    requeue_after: float | None = None


class PermanentError(Exception):
    """Retrying cannot help; the object has to change first."""


class Overdue(Exception):
    """A reconcile has not come to an end within RECONCILE_DEADLINE_S, and was cancelled."""


class Reconciler(Protocol):
    """One responsibility over one kind of key."""

    @property
    def name(self) -> str: ...

    async def reconcile(self, key: Key) -> Result | None:
        """Bring the world in line with what `key` stands for now; the object may be gone, or the same as last time.

        Called for one key at a time, and again after every change that a watch maps to the key, so it reads everything
        anew and may be interrupted between any two writes. What it does next is up to how it ends:

        * returning says that there is nothing left to do until a watch, or somebody else, makes the key due;
        * returning `Result(requeue_after=s)` makes it due in `s` seconds at the latest, for what only time changes;
        * raising `Conflict` or `NotFound` says that somebody else was faster: again, with back-off, and no complaint;
        * raising `PermanentError` says that trying again cannot help before the object changes: logged, not repeated;
        * raising anything else is a failure: logged and tried again, with back-off, for as long as it fails;
        * not ending within RECONCILE_DEADLINE_S is a failure too: it is cancelled, wherever it waits, and the key is set aside for
          as long again, so that others have the worker meanwhile. It must let the CancelledError pass, and must leave long
          work to a background task (`Manager.run_task`) or to a later call;
        * computing for longer than `core.budget.STEP_S` without waiting, several times in a row, sets the key aside too.

        A key that is set aside is not worked on before its time, whatever changes. The log says so, and an Event of the object.
        """
        ...


KeyMap = Callable[[Obj], Iterable[Key]]


def own_key(obj: Obj) -> Iterable[Key]:
    """The key of the object itself."""
    return (key_of(obj),)


@dataclass(frozen=True, slots=True)
class OwnerKey:
    """The key of the controlling owner, when it is of `kind` (and API group, if given).

    Informers know a watch for such owners by its kind, and leave it alone when somebody else's children change.
    """

    kind: str
    group: str | None = None

    def __call__(self, obj: Obj) -> Iterable[Key]:
        reference = controller_of(obj)
        if reference is None or reference.get("kind") != self.kind:
            return ()
        if self.group is not None and str(reference.get("apiVersion", "")).rpartition("/")[0] != self.group:
            return ()
        return (Key(namespace_of(obj), str(reference["name"])),)


owner_key = OwnerKey


@dataclass(frozen=True, slots=True)
class Watch:
    """Changes of `resource` make the keys `map` gives due, when `when(old, new)` says so."""

    resource: Resource
    map: KeyMap = own_key
    when: Callable[[Obj | None, Obj | None], bool] | None = None
    delay: float = 0.0


class Controller:
    """Workers that take keys off one queue and reconcile them."""

    def __init__(self, reconciler: Reconciler, manager: Manager, workers: int, *, one_for_all: bool = False) -> None:
        self.reconciler = reconciler
        self.queue: WorkQueue[Key] = WorkQueue()
        self.workers = workers
        self._reconciles = manager.metrics.reconciles
        self._recorder = manager.recorder
        self._cpu = manager.cpu if not one_for_all else None
        self._budget: Budget[Key] = Budget()
        self._client = manager.client
        self._clock = manager.clock
        self._is_about = False
        self._find: Callable[[Key], Obj | None] = lambda key: None
        self._resource: Resource | None = None
        self._complaints: dict[Key, str] = {}
        self.name = reconciler.name

    @property
    def knows_objects(self) -> bool:
        """Whether there are objects behind the keys that can be told what happens to them."""
        return self._is_about

    def about(self, find: Callable[[Key], Obj | None], resource: Resource | None = None) -> Controller:
        """The keys are those of the objects that `find` gives: they are told what happens to them, in conditions, too, where
        their kind is given."""
        if not self._is_about:
            self._is_about, self._find, self._resource = True, find, resource
        return self

    def trigger(self, watch: Watch) -> Callable[[Obj | None, Obj | None], None]:
        """The informer handler that makes keys due for `watch`."""

        when, keys_of, delay, add = watch.when, watch.map, watch.delay, self.queue.add_after

        def own(old: Obj | None, new: Obj | None) -> None:
            if when is None or when(old, new):
                obj = new or old
                assert obj is not None
                add(key_of(obj), delay)

        def handler(old: Obj | None, new: Obj | None) -> None:
            if when is not None and not when(old, new):
                return
            if old is not None:
                for key in keys_of(old):
                    add(key, delay)
            if new is not None:
                for key in keys_of(new):
                    add(key, delay)

        return own if keys_of is own_key else handler

    async def work(self) -> None:
        """Reconcile keys until the queue is closed."""
        while (key := await self.queue.get()) is not None:
            try:
                await self._reconcile(key)
                await self._tell(key)
            finally:
                self.queue.done(key)

    async def _reconcile(self, key: Key) -> None:
        try:
            result = await self._in_time(key)
        except (Conflict, NotFound):
            # Somebody else was faster; the next look sees their change.
            self._reconciles(self.name, "requeue")
            self.queue.add_rate_limited(key)
        except PermanentError as error:
            self._reconciles(self.name, "error")
            log.error(
                "reconcile failed for good", extra={"controller": self.name, "key": str(key), "error": str(error)}
            )
            self.queue.forget(key)
        except Overdue:
            self._reconciles(self.name, "timeout")
            log.error(
                "reconcile did not end and was cancelled",
                extra={"controller": self.name, "key": str(key), "seconds": RECONCILE_DEADLINE_S},
            )
            why = f"did not come to an end within {RECONCILE_DEADLINE_S:.0f} seconds"
            self._set_aside(key, RECONCILE_DEADLINE_S, why)
        except ApiError as error:
            self._reconciles(self.name, "error")
            log.info("reconcile failed", extra={"controller": self.name, "key": str(key), "error": str(error)})
            self.queue.add_rate_limited(key)
        except Exception:  # a worker must survive any bug in one key
            self._reconciles(self.name, "error")
            log.exception("reconcile failed unexpectedly", extra={"controller": self.name, "key": str(key)})
            self.queue.add_rate_limited(key)
        else:
            self._reconciles(self.name, "success")
            self.queue.forget(key)
            if result is not None and result.requeue_after is not None:
                self.queue.add_after(key, result.requeue_after)

    async def _in_time(self, key: Key) -> Result | None:
        """Reconcile; Overdue when that takes too long. Time is the loop's, as for everything in the queue."""
        try:
            async with asyncio.timeout(RECONCILE_DEADLINE_S) as deadline:
                if self._cpu is None:
                    return await self.reconciler.reconcile(key)
                return await self._metered(key, self._cpu)
        except TimeoutError as error:
            if deadline.expired():
                raise Overdue(str(key)) from error
            raise  # one of the reconciler's own

    async def _metered(self, key: Key, cpu: Cpu) -> Result | None:
        """Reconcile, and note what it costs the loop."""
        meter = Meter(self.reconciler.reconcile(key), cpu)
        try:
            return await meter
        finally:
            pause = self._budget.spend(key, meter.longest_s)
            if pause is not None:
                seconds = round(meter.longest_s, 1)
                log.error(
                    "reconcile computes for too long",
                    extra={"controller": self.name, "key": str(key), "seconds": seconds},
                )
                self._set_aside(
                    key, pause, f"took {seconds} seconds of computing at a time, {STRIKES} times or more in a row"
                )

    def _set_aside(self, key: Key, pause: float, why: str) -> None:
        """Work on other keys only, until `pause` seconds have passed, and tell whom it concerns."""
        self.queue.hold(key, pause)
        obj = self._find(key)
        if obj is not None:
            text = f"{self.name} {why}, and is tried again after {pause:.0f} seconds; others are not held up"
            self._complaints[key] = text
            self._recorder.event(obj, "Warning", SET_ASIDE, text)

    async def _tell(self, key: Key) -> None:
        """Keep the condition of an object right that is set aside, or was; where the controller may not, the Event has to do."""
        complaint, resource = self._complaints.pop(key, ""), self._resource
        obj = self._find(key) if resource is not None else None
        if obj is None or resource is None or not isinstance(obj.get("status"), dict):
            return
        if not complaint and not is_true(obj, SET_ASIDE):
            return
        new = condition(SET_ASIDE, bool(complaint), "TookTooLong" if complaint else "InTime", complaint)
        status = obj["status"]
        known = set_condition(status.get("conditions") or [], new, self._clock.timestamp())
        with suppress(ApiError):
            await self._client.update(resource, with_status(obj, {**status, "conditions": known}), subresource="status")


async def run_all(work: Iterable[Awaitable[object]]) -> None:
    """Do several things at once; all of them come to an end before the first failure is raised."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


MayRead = Callable[[Resource, str], bool]
"""Whether somebody may list and watch a kind, in a namespace or everywhere."""


class Identities(Protocol):
    """A cluster that holds its controllers to identities of their own."""

    def manager_of(self, identity: Identity) -> Manager:
        """The manager for controllers that act as `identity`; to be asked for before the cluster is started."""
        ...

    async def acting_for(self, identity: Identity, manager: Manager) -> Manager:
        """`manager`, which is not started yet, for controllers that act as `identity`; at any time."""
        ...

    def act_as(self, user: UserInfo) -> Client:
        """The API as a user."""
        ...


class Manager:
    """Everything that runs on one client: shared informers, controllers, background tasks."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        random: Random,
        *,
        component: str = "corral",
        metrics: Metrics | None = None,
        private_key: KeySource = private_key,
    ) -> None:
        self.client = client
        self.clock = clock
        self.cpu = cpu_of(clock)
        self.random = random
        self.private_key = private_key
        self.metrics = metrics or Metrics()
        self.recorder = Recorder(client, clock, random, component)
        self._informers: dict[tuple[Resource, str, str, str], Informer] = {}
        self._is_optional: Callable[[Resource], bool] = lambda resource: False
        self.controllers: list[Controller] = []
        self._background: list[tuple[str, Callable[[], Awaitable[None]]]] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._acting: list[_Acting] = []
        self.identities: Identities | None = None
        """Set before any controller is made where controllers are held to their rules; elsewhere all act with the client's rights."""
        self._started = False

    def acting_as(self, client: Client, may_read: MayRead) -> Manager:
        """This manager for controllers that write as somebody else. They share its caches, as far as they may read them, and run
        while it runs. To be asked for before it is started."""
        acting = _Acting(self, client, may_read)
        self._acting.append(acting)
        return acting

    def of(self, identity: Identity) -> Manager:
        """The manager for controllers of an identity; this one itself where identities are not enforced."""
        return self.identities.manager_of(identity) if self.identities is not None else self

    def beside(self) -> Manager:
        """Another manager of the same cluster, with caches of its own, that is started and stopped by itself."""
        made = Manager(self.client, self.clock, self.random, metrics=self.metrics, private_key=self.private_key)
        made.identities = self.identities
        return made

    async def acting_for(self, identity: Identity) -> Manager:
        """This manager for controllers of an identity that was not known when the cluster was started."""
        return await self.identities.acting_for(identity, self) if self.identities is not None else self

    def informer(self, resource: Resource, *, namespace: str = "", labels: str = "", fields: str = "") -> Informer:
        """The shared informer of a kind; started now if the manager is running."""
        identity = (resource, namespace, labels, fields)
        informer = self._informers.get(identity)
        if informer is None:
            informer = Informer(
                self.client, resource, self.clock, self.random, namespace=namespace, labels=labels, fields=fields
            )
            informer.optional = self._is_optional(resource)
            self._informers[identity] = informer
            if self._started:
                self._spawn(informer.run(), f"informer {resource.plural}")
        return informer

    def do_without(self, is_optional: Callable[[Resource], bool]) -> None:
        """Start although the API does not serve some kinds; they are followed as soon as it does."""
        self._is_optional = is_optional
        for informer in self._informers.values():
            informer.optional = is_optional(informer.resource)

    def add(
        self, reconciler: Reconciler, *, watches: Sequence[Watch], workers: int = 1, one_for_all: bool = False
    ) -> Controller:
        """Run `reconciler` for the keys its watches yield. One whose only key stands for everything (`one_for_all`) is never set
        aside for what it computes: it keeps to a budget itself, object by object."""
        controller = Controller(reconciler, self, workers, one_for_all=one_for_all)
        self.controllers.append(controller)
        for watch in watches:
            if watch.map is own_key:
                controller.about(self.informer(watch.resource).get, watch.resource)
            owner = watch.map.kind if isinstance(watch.map, OwnerKey) else ""
            self.informer(watch.resource).on_change(controller.trigger(watch), owner=owner)
        if self._started:
            self._start_workers(controller)
        return controller

    def run_task(self, function: Callable[[], Awaitable[None]], name: str) -> None:
        """Run `function` beside the controllers, restarted after a failure, until the manager stops."""
        self._background.append((name, function))
        if self._started:
            self._spawn(self._keep(name, function), name)

    async def start(self) -> None:
        """Start informers, wait until they are in sync, then start workers and tasks."""
        self._started = True
        for informer in list(self._informers.values()):
            self._spawn(informer.run(), f"informer {informer.resource.plural}")
        self._spawn(self.recorder.run(), "events")
        for informer in list(self._informers.values()):
            await informer.synced()
        self._begin()
        for acting in self._acting:
            await acting.start()

    async def stop(self) -> None:
        """Stop everything and wait until it has stopped."""
        for acting in self._acting:
            await acting.stop()
        self._started = False
        for controller in self.controllers:
            controller.queue.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    @property
    def idle(self) -> bool:
        """No controller has a key that is due or being worked on."""
        return all(controller.queue.idle for controller in self.controllers) and all(one.idle for one in self._acting)

    def _begin(self) -> None:
        for controller in self.controllers:
            self._start_workers(controller)
        for name, function in self._background:
            self._spawn(self._keep(name, function), name)

    def _start_workers(self, controller: Controller) -> None:
        for number in range(controller.workers):
            self._spawn(controller.work(), f"{controller.name}-{number}")

    async def _keep(self, name: str, function: Callable[[], Awaitable[None]]) -> None:
        delay = 1.0
        while True:
            try:
                await function()
                return
            except Exception:  # a background task must survive any single failure
                log.exception("task failed, starting it again", extra={"task": name})
                await self.clock.sleep(delay)
                delay = min(delay * 2, 60.0)

    def _spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(coroutine, name=name))


class _Acting(Manager):
    """A manager under another identity: its own client, Events and controllers, another manager's caches.

    Its controllers do not start before it may read all of what they use, as with caches of their own that do not fill."""

    def __init__(self, outer: Manager, client: Client, may_read: MayRead) -> None:
        super().__init__(client, outer.clock, outer.random, metrics=outer.metrics, private_key=outer.private_key)
        self._outer = outer
        self._may_read = may_read
        self.identities = outer.identities
        self._caches: dict[tuple[Resource, str], None] = {}

    def informer(self, resource: Resource, *, namespace: str = "", labels: str = "", fields: str = "") -> Informer:
        if self._started and not self._may_read(resource, namespace):
            raise Forbidden(f"a controller of this identity may not list and watch {resource.plural}.{resource.group}")
        self._caches[resource, namespace] = None
        return self._outer.informer(resource, namespace=namespace, labels=labels, fields=fields)

    def do_without(self, is_optional: Callable[[Resource], bool]) -> None:
        self._outer.do_without(is_optional)

    def beside(self) -> Manager:
        return self._outer.beside()

    async def start(self) -> None:
        self._spawn(self.recorder.run(), "events")
        if self._refused():
            self._spawn(self._begin_when_allowed(), "waiting for rights")
        else:
            self._started = True
            self._begin()

    def _refused(self) -> list[str]:
        """The kinds whose caches it uses and may not read."""
        return [resource.plural for resource, namespace in self._caches if not self._may_read(resource, namespace)]

    async def _begin_when_allowed(self) -> None:
        while refused := self._refused():
            names = ", ".join(controller.name for controller in self.controllers)
            log.error(
                "controllers may not read what they need and wait", extra={"controllers": names, "kinds": refused}
            )
            await self.clock.sleep(RIGHTS_RETRY_S)
        self._started = True
        self._begin()
