"""`@corral.job`: a function that can be run as a job."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cache, update_wrapper
from typing import Generic, ParamSpec, TypeVar, Unpack, cast, overload

from corral.sdk.blocking import Call, Client
from corral.sdk.calls import ResultForm
from corral.sdk.options import JobOptions, check_options

P = ParamSpec("P")
T = TypeVar("T")


class RemoteFunction(Generic[P, T]):
    """A function that can be run as a job. Called as usual it runs here; `remote` runs it there."""

    __wrapped__: Callable[P, T]

    def __init__(
        self, function: Callable[P, T], options: JobOptions, *, result: ResultForm, client: Client | None
    ) -> None:
        update_wrapper(self, function)
        self._options = options
        self._result: ResultForm = result
        self._client = client

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.__wrapped__(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<corral.job {self.__wrapped__.__qualname__}>"

    def remote(self, *args: P.args, **kwargs: P.kwargs) -> Call[T]:
        """Submit it as a job with these arguments; `.result()` of what comes back waits for what it returns."""
        return self._cluster.call(self.__wrapped__, args, kwargs, self._result, self._options)

    def map(self, items: Iterable[object], *, timeout: float | None = None, return_exceptions: bool = False) -> list[T]:
        """Call it with each item, every call a job of its own, and return what they returned, in order."""
        return self._cluster.map(
            self.__wrapped__,
            items,
            timeout=timeout,
            return_exceptions=return_exceptions,
            result=self._result,
            **self._options,
        )

    def options(self, **options: Unpack[JobOptions]) -> RemoteFunction[P, T]:
        """The same function with other options for its jobs."""
        check_options(options)
        merged = cast(JobOptions, {**self._options, **options})
        return RemoteFunction(self.__wrapped__, merged, result=self._result, client=self._client)

    @property
    def _cluster(self) -> Client:
        return self._client or _default(os.environ.get("KUBECONFIG", ""), os.environ.get("HOME", ""))


@cache
def _default(kubeconfig: str, home: str) -> Client:
    """The client of those who name none: one for what the command line would use now."""
    return Client()


@overload
def job(function: Callable[P, T], /) -> RemoteFunction[P, T]: ...
@overload
def job(
    *, result: ResultForm = "json", client: Client | None = None, **options: Unpack[JobOptions]
) -> Callable[[Callable[P, T]], RemoteFunction[P, T]]: ...
def job(
    function: Callable[P, T] | None = None,
    /,
    *,
    result: ResultForm = "json",
    client: Client | None = None,
    **options: Unpack[JobOptions],
) -> RemoteFunction[P, T] | Callable[[Callable[P, T]], RemoteFunction[P, T]]:
    """Make a function one that can be run as a job: `train.remote(x).result()` runs it there, `train(x)` here.

    The options are those of `Client.submit`. What it returns comes back as JSON; `result="pickle"` brings back anything, and is for
    jobs you trust, because reading a pickle runs code."""
    if function is not None:
        return RemoteFunction(function, {}, result=result, client=client)
    check_options(options)
    return lambda decorated: RemoteFunction(decorated, options, result=result, client=client)
