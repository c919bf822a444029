"""Clients simulated on this machine: in this process, or on one single-threaded worker process per core.

Several threads inside one small tensor operation are slower than one, so parallelism is over clients. Workers are
separate interpreters that talk over their standard input and output: nothing is forked, a script needs no main
guard, and a worker ends by itself when its parent dies.
"""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import chain
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor

from fedveil.core.cores import usable_cores
from fedveil.core.errors import ArgumentError, FedveilError
from fedveil.core.progress import tell
from fedveil.core.types import Taps
from fedveil.data.dataset import Examples, to_float
from fedveil.engine.batched import EVALUATION_SLICE, Chunking, Engine, Evaluation, alike
from fedveil.engine.client import Broadcast, Upload
from fedveil.engine.job import Job
from fedveil.engine.loop import MakeRuntime
from fedveil.engine.personal_models import Starts
from fedveil.engine.server_state import ServerState
from fedveil.models.features import FixedFeatures
from fedveil.models.registry import fixed_part
from fedveil.runtimes.packing import Packed, unpack_uploads
from fedveil.runtimes.shared_arrays import SharedArrays

FEATURE_SLICE = 250
"""Records whose fixed features are computed at a time: fixed, so that they are the same bits on any number of cores."""

WORKERS_PER_CORE = 8
"""More of them are refused: each is an interpreter with PyTorch, and with a copy of the model's parameters."""


def on_this_machine(workers: int | None = None, chunk: int | None = None) -> MakeRuntime:
    """Runtimes with this many workers (one per core), so many clients at a time (as many as is fastest)."""
    return lambda job: LocalRuntime(precomputed(job), workers, chunk)


def precomputed(job: Job) -> Job:
    """The same training, with the part of the network that is never trained computed once for every record."""
    parts = fixed_part(job.model)
    if parts is None:
        return job
    features, rest = parts
    sites = replace(job.sites, examples=_featured(job.sites.examples, features))
    return replace(job, model=rest, sites=sites, validation=_featured(job.validation, features))


def _featured(examples: Examples, features: FixedFeatures) -> Examples:
    """The records as the trained part of the network sees them, one slice per core at a time."""

    def values(inputs: Tensor) -> Tensor:
        with torch.no_grad():  # a thread's own setting
            return features(to_float(inputs))  # type: ignore[no-any-return]

    if not len(examples):  # a coordinator has no records, a site perhaps none that it holds out; their shape is known
        return Examples(values(examples.inputs.new_zeros(1, *examples.inputs.shape[1:]))[:0], examples.labels)
    first_of_all = values(examples.inputs[:1])
    whole = first_of_all.new_empty(len(examples), *first_of_all.shape[1:])

    def fill(first: int) -> None:
        rows = slice(first, first + FEATURE_SLICE)
        whole[rows] = values(examples.inputs[rows])

    with one_thread(), ThreadPoolExecutor(usable_cores()) as pool:
        starts = range(0, len(examples), FEATURE_SLICE)
        for done, _ in enumerate(pool.map(fill, starts), 1):  # into place: they may be large
            tell("features", done / len(starts))
    return Examples(whole, examples.labels)


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread inside this block: several in one small operation are slower, and workers use the other cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def count_workers(asked: int | None) -> int:
    """The number of workers: as asked, or one per core. So many that they would only fill the memory are refused."""
    cores = usable_cores()
    if asked is None:
        return cores
    if isinstance(asked, bool) or not isinstance(asked, int):
        raise ArgumentError("workers", f"must be a whole number, not {asked!r}")
    if asked < 1:
        raise ArgumentError("workers", f"must be at least 1, not {asked}")
    if asked > WORKERS_PER_CORE * cores:
        raise ArgumentError(
            "workers", f"{asked} are too many here; at most {WORKERS_PER_CORE * cores}, best one per core"
        )
    return asked


class LocalRuntime:
    """Runs clients on `workers` cores; use it as a context manager."""

    def __init__(self, job: Job, workers: int | None = None, chunk: int | None = None) -> None:
        self._job = job
        self._workers = count_workers(workers)
        if chunk is not None and chunk < 1:
            raise ArgumentError("chunk", f"must be at least 1, not {chunk}")
        self._chunk = chunk
        self._pool: _Here | _Workers | None = None

    def __enter__(self) -> Self:
        self._pool = _Here(self._job) if self._workers == 1 else _Workers(self._job, self._workers)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def train(
        self, broadcast: Broadcast, cohort: Sequence[int], taps: Taps, starts: Starts | None = None
    ) -> Iterator[Upload]:
        calls = (
            ("train", broadcast, members, taps, None if starts is None else starts(members))
            for group in alike(self._job.method, self._job.sites, cohort)
            for size in [self._chunk_size(len(group))]
            for first in range(0, len(group), size)
            for members in [group[first : first + size]]
        )
        return chain.from_iterable(self._running.run(calls))

    def _chunk_size(self, clients: int) -> int:
        """Clients a call: about as many as asked for, the same for every worker, a multiple of the engine's tile."""
        plan = self._running.plan
        size = self._chunk or _balanced(clients, plan.clients, self._workers)
        return -(-size // plan.tile) * plan.tile

    def evaluate(self, state: ServerState) -> Evaluation:
        firsts = range(0, len(self._job.validation.labels), EVALUATION_SLICE)
        return Evaluation.total(self._running.run(("evaluate", state.released, first) for first in firsts))

    @property
    def _running(self) -> _Here | _Workers:
        if self._pool is None:
            raise FedveilError("the runtime is not running; use it in a `with` block")
        return self._pool


def _balanced(clients: int, chunk: int, workers: int) -> int:
    """A chunk size no larger than `chunk` that gives every worker the same number of chunks."""
    chunks = -(-clients // chunk)
    chunks = -(-chunks // workers) * workers
    return max(-(-clients // max(chunks, 1)), 1)


class _Here:
    """No worker: the work is done in this process, with one thread."""

    def __init__(self, job: Job) -> None:
        self._threads = torch.get_num_threads()
        torch.set_num_threads(1)
        self._engine = Engine(job)
        self.plan = self._engine.plan

    def run(self, calls: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        for name, *arguments in calls:
            yield getattr(self._engine, name)(*arguments)

    def close(self) -> None:
        torch.set_num_threads(self._threads)


class _Workers:
    """Worker processes, each busy with one call at a time."""

    def __init__(self, job: Job, count: int) -> None:
        lost = sorted({type(part).__name__ for part in job.model.modules() if type(part).__module__ == "__main__"})
        if lost:
            raise FedveilError(
                f"model: worker processes can't import {', '.join(lost)} from a script or notebook;"
                " put it into a file of its own and import it, or use workers=1"
            )
        shared = SharedArrays()
        try:
            setup = shared.dumps(job)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            shared.close()
            raise FedveilError(f"the model can't be sent to worker processes ({error}); use workers=1") from None
        self._processes = [_start(shared.descriptor) for _ in range(count)]
        shared.close()  # workers have it open
        self._idle: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="fedveil-worker")
        try:
            replies = [self._threads.submit(_exchange, process, setup) for process in self._processes]
            self.plan: Chunking = [reply.result() for reply in replies][-1]
        except BaseException:
            self.close()
            raise
        for process in self._processes:
            self._idle.put(process)

    def run(self, calls: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        """Results in the order of the calls; a few calls ahead, so that results do not pile up."""
        waiting: deque[Future[Any]] = deque()
        for call in calls:
            waiting.append(self._threads.submit(self._call, pickle.dumps(call, protocol=pickle.HIGHEST_PROTOCOL)))
            if len(waiting) > 2 * len(self._processes):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def _call(self, message: bytes) -> Any:
        process = self._idle.get()
        try:
            reply = _exchange(process, message)
        finally:
            self._idle.put(process)
        return unpack_uploads(reply) if isinstance(reply, Packed) else reply

    def close(self) -> None:
        for process in self._processes:
            process.kill()
        self._threads.shutdown(cancel_futures=True)
        for process in self._processes:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):  # bytes that a killed process never read
                    if pipe is not None:
                        pipe.close()


KEEP_FREED = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(256 << 20)}
"""Has the C library keep what a step frees for the next one: fresh pages cost more than the arithmetic done on them."""


def _start(records: int) -> subprocess.Popen[bytes]:
    """A worker that finds the large arrays of its job at this file descriptor."""
    environment = {**KEEP_FREED, **os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "fedveil.runtimes.worker", str(records)],
        pass_fds=(records,),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        start_new_session=True,  # Ctrl-C reaches the parent only, which then ends its workers
    )


def _exchange(process: subprocess.Popen[bytes], message: bytes) -> Any:
    """Send one pickled message, return the reply, raise what the worker raised."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(message)
        process.stdin.flush()
        reply = pickle.load(process.stdout)
    except (EOFError, BrokenPipeError, ValueError, pickle.UnpicklingError) as error:
        raise FedveilError(
            f"a worker process ended unexpectedly (exit code {process.poll()}); was there enough memory?"
        ) from error
    if isinstance(reply, FedveilError):
        raise reply
    if isinstance(reply, BaseException):
        raise RuntimeError(f"in a worker: {type(reply).__name__}: {reply}") from reply
    return reply
