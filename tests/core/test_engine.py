"""Threads, BLAS and seeds: order, errors, nesting, and places."""

import threading
import time
import weakref
from concurrent.futures import BrokenExecutor, CancelledError, Future, ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from squeak.core import engine, places
from squeak.core.dask_cluster import _Sent
from squeak.core.nystrom import TriangularFeatures
from squeak.core.places import place
from squeak.core.seeds import DRAWN, SAMPLE, coin, coins, draw_seed, generator_at
from squeak.kernels import RBF
from squeak.learners.cached import KernelValues
from squeak.learners.regions import Region
from squeak.places import Cluster, ClusterError, Executors, Place, Threads, use


def blas_threads():
    return {entry["num_threads"] for entry in threadpool_info() if entry["user_api"] == "blas"}


def test_results_come_in_the_order_of_the_items(monkeypatch):
    monkeypatch.setenv("SQUEAK_NUM_THREADS", "4")
    waits = [threading.Event() for _ in range(2)]

    def work(i):
        if i == 0:
            waits[0].wait(5)  # the first item ends last
        if i == 3:
            waits[0].set()
        return i * i

    assert engine.map_ordered(work, range(4)) == [0, 1, 4, 9]


def test_blas_is_held_to_one_thread_while_work_lasts_and_let_go_after(monkeypatch, two_blas_threads):
    monkeypatch.setenv("SQUEAK_NUM_THREADS", "2")
    before = blas_threads()
    assert before == {2}
    with engine.single_blas():
        assert blas_threads() == {1}
        with engine.single_blas():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == before
    assert set().union(*engine.map_ordered(lambda _: blas_threads(), range(3))) == {1}
    assert blas_threads() == before


def test_blas_is_held_and_let_go_by_any_thread(monkeypatch, two_blas_threads):
    """Workers of a cluster and servers call from threads of their own, after others and while others do."""
    monkeypatch.setenv("SQUEAK_NUM_THREADS", "2")
    before = blas_threads()
    engine.map_ordered(abs, range(3))  # the first to have control is this thread
    holds, begun = engine.single_blas(), engine.single_blas()
    with ThreadPoolExecutor(1) as other:
        assert set().union(*other.submit(engine.map_ordered, lambda _: blas_threads(), range(3)).result()) == {1}
        assert blas_threads() == before
        other.submit(holds.__enter__).result()
        with begun:
            other.submit(holds.__exit__, None, None, None).result()
            assert blas_threads() == {1}
        assert blas_threads() == before


def test_an_error_in_one_item_is_raised_and_the_engine_goes_on(monkeypatch):
    monkeypatch.setenv("SQUEAK_NUM_THREADS", "2")
    before = blas_threads()
    with pytest.raises(ZeroDivisionError):
        engine.map_ordered(lambda i: 1 // (i - 5), range(10))
    assert blas_threads() == before
    assert engine.map_ordered(lambda i: i, range(10)) == list(range(10))


def test_nested_calls_do_not_lock_up(monkeypatch):
    monkeypatch.setenv("SQUEAK_NUM_THREADS", "2")
    nested = engine.map_ordered(lambda i: sum(engine.map_ordered(lambda j: i * j, range(4))), range(8))
    assert nested == [6 * i for i in range(8)]


@pytest.mark.parametrize("threads", ["1", "2"])
def test_what_runs_beside_the_body_gives_its_result(monkeypatch, threads):
    monkeypatch.setenv("SQUEAK_NUM_THREADS", threads)
    with engine.beside(lambda _: engine.map_ordered(abs, [-1, -2])) as asked:
        squares = engine.map_ordered(lambda i: i * i, list(range(20)))
        assert asked() == asked() == [1, 2]
    assert squares == [i * i for i in range(20)]


def test_what_runs_beside_the_body_begins_before_it_is_asked_for(monkeypatch):
    monkeypatch.setenv("SQUEAK_NUM_THREADS", "2")
    begun, go_on = threading.Event(), threading.Event()

    def slow(_) -> str:
        begun.set()
        assert go_on.wait(60)
        return "done"

    with engine.beside(slow) as asked:
        assert begun.wait(60)
        assert engine.map_ordered(abs, [-1, -2]) == [1, 2]  # on the thread that is left
        go_on.set()
        assert asked() == "done"


def test_what_runs_beside_runs_there_and_then_inside_of_the_pool(monkeypatch):
    monkeypatch.setenv("SQUEAK_NUM_THREADS", "2")

    def nested(i: int) -> int:
        with engine.beside(lambda _: i + 1) as asked:
            return asked()

    assert engine.map_ordered(nested, [1, 2, 3, 4]) == [2, 3, 4, 5]


@pytest.mark.parametrize("threads", ["1", "2"])
def test_errors_beside_the_body_and_in_it_are_raised(monkeypatch, threads, two_blas_threads):
    monkeypatch.setenv("SQUEAK_NUM_THREADS", threads)
    with pytest.raises(ZeroDivisionError), engine.beside(lambda _: 1 / 0) as asked:
        asked()
    with pytest.raises(KeyError), engine.beside(lambda _: 1):
        raise KeyError
    with engine.beside(lambda _: 1) as asked:
        assert asked() == 1


def test_what_runs_beside_is_told_that_the_body_has_ended(monkeypatch):
    monkeypatch.setenv("SQUEAK_NUM_THREADS", "2")
    begun, told = threading.Event(), threading.Event()

    def patient(ended) -> None:
        begun.set()
        while not ended():
            told.wait(0.001)
        told.set()

    def body() -> None:
        with engine.beside(patient):
            assert begun.wait(60)
            raise KeyError

    with pytest.raises(KeyError):
        body()
    assert told.wait(60)


def test_a_nonsense_number_of_threads_is_refused(monkeypatch):
    for value in ("0", "-1", "two"):
        monkeypatch.setenv("SQUEAK_NUM_THREADS", value)
        with pytest.raises(ValueError, match="SQUEAK_NUM_THREADS"):
            engine.thread_count()


def test_places_have_their_own_bits_and_rows_their_own_coin():
    seed = draw_seed(3)
    assert 0 <= seed < 2**128
    assert generator_at(seed, 1, 2).random() == generator_at(seed, 1, 2).random()
    assert len({generator_at(seed, *place).random() for place in ((1, 2), (2, 1), (1,), (1, 2, 0))}) == 4
    whole = coins(seed, 0, 1000)
    assert np.array_equal(whole[377:], coins(seed, 377, 623))
    rows = [0, 1, 500, DRAWN - 1, DRAWN, 3 * DRAWN + 7]
    assert [coin(seed, row) for row in rows] == [float(coins(seed, row, 1)[0]) for row in rows]
    assert coin(seed, 5, SAMPLE) == coins(seed, 5, 1, SAMPLE)[0] != coin(seed, 5) != coin(seed + 1, 5)
    assert draw_seed(None) != draw_seed(None)
    shared = np.random.default_rng(0)
    assert draw_seed(shared) != draw_seed(shared)  # a generator gives its next seed
    assert draw_seed(np.int64(3)) == seed


def test_freed_memory_is_kept_only_while_a_task_runs(monkeypatch):
    from squeak.core import allocator

    calls = []

    class Libc:
        def mallopt(self, name, value):
            calls.append((name, value))

        def malloc_trim(self, pad):
            calls.append("trim")

    monkeypatch.setattr(allocator, "_libc", lambda: Libc())
    monkeypatch.setenv(allocator.ASKED_FOR, "65536")
    with allocator.freed_memory_kept():
        with allocator.freed_memory_kept():
            assert calls == [(-3, allocator.MAPPED), (-1, allocator.KEPT)]
        assert len(calls) == 2
    assert calls[2:] == [(-3, allocator.DEFAULT_MAPPED), (-1, 65536), "trim"]


def test_memory_is_left_alone_where_nobody_asked_for_trimming(monkeypatch):
    from squeak.core import allocator

    monkeypatch.delenv(allocator.ASKED_FOR, raising=False)
    assert allocator._libc() is None
    with allocator.freed_memory_kept():
        pass


def test_a_task_waits_for_its_arguments_and_holds_no_thread(monkeypatch):
    """One thread is enough for a chain of tasks, in whatever order they become ready."""
    monkeypatch.setenv("SQUEAK_NUM_THREADS", "1")
    with place() as here:
        first = here.submit(lambda: time.sleep(0.05) or 2)
        second = here.submit(lambda pair: sum(pair), [first, 3])
        third = here.submit(lambda a, b: a * b, first, second)
        assert here.gathered([third, first]) == [10, 2]
        assert set(here.completed([first, second, third])) == {first, second, third}
        assert here.map_ordered(lambda i: -i, range(3)) == [0, -1, -2]


def test_the_error_of_a_task_is_that_of_all_that_need_it():
    with place() as here:
        failed = here.submit(lambda: 1 // 0)
        after = here.submit(lambda x: x, failed)
        with pytest.raises(ZeroDivisionError):
            here.gathered([after])


def test_what_is_finished_can_be_rescued_and_the_rest_is_dropped(monkeypatch):
    monkeypatch.setenv("SQUEAK_NUM_THREADS", "1")
    begun = threading.Event()
    with place() as here:
        tasks = {
            "running": here.submit(lambda: begun.set() or time.sleep(0.1) or 1),
            "failed": here.submit(lambda: 1 // 0),
            "later": here.submit(lambda: 2),
        }
        tasks["last"] = here.submit(lambda x: x, tasks["later"])
        begun.wait()
        assert dict(here.rescued(tasks)) == {"running": 1}
        assert tasks["later"].cancelled()
        assert tasks["last"].cancelled()


def test_results_that_nobody_holds_are_let_go():
    class Large:
        pass

    with place() as here:
        made = here.submit(Large)
        kept = here.submit(lambda found: weakref.ref(found), made)
        found = here.gathered([kept])[0]
        assert found() is not None
        del made
        deadline = time.monotonic() + 5.0
        while found() is not None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert found() is None


class Fragile(ThreadPoolExecutor):
    """Threads that are all lost when a task says so, as the processes of a pool are."""

    def submit(self, call):
        done = super().submit(call)
        lost = Future()

        def copy(done):
            if isinstance(done.exception(), LostError):
                lost.set_exception(BrokenExecutor("a worker died"))
            elif done.exception() is not None:
                lost.set_exception(done.exception())
            else:
                lost.set_result(done.result())

        done.add_done_callback(copy)
        return lost


class LostError(Exception):
    pass


def dies(times):
    left = [times]

    def task(x):
        left[0] -= 1
        if left[0] >= 0:
            raise LostError
        return -x

    return task


def test_tasks_of_lost_workers_are_begun_anew_until_it_is_enough():
    made = []

    def make():
        made.append(Fragile(2))
        return made[-1]

    class Unpacked(Executors):
        def _packed(self, function, values):
            return partial(function, *values)

    with use(Unpacked(make, attempts=3)) as here:
        assert here.gathered([here.submit(dies(2), here.submit(abs, -4))]) == [-4]
        assert len(made) == 3
        after = here.submit(abs, here.submit(dies(3), 1))
        with pytest.raises(ClusterError, match="workers were lost 3 times"):
            here.gathered([after])
        with pytest.raises(ZeroDivisionError):
            here.map_ordered(lambda x: 1 // x, [1, 0, 2])
        assert here.map_ordered(abs, [-1, -2]) == [1, 2]
    with pytest.raises(ValueError, match="attempts must be a whole number from 1 on"):
        Executors(make, attempts=0)


@pytest.mark.parametrize("where", ["make", "submit"])
def test_a_pool_that_cannot_be_started_again_ends_tasks_with_its_error(where):
    """What happens in the callback of a future is heard by nobody: the task would never end."""
    made = []

    class Broken(ThreadPoolExecutor):
        def submit(self, call):
            raise RuntimeError("can't start new thread")

    def make():
        made.append(Fragile(1) if not made else Broken(1) if where == "submit" else None)
        if made[-1] is None:
            raise OSError("no process can be started")
        return made[-1]

    class Unpacked(Executors):
        def _packed(self, function, values):
            return partial(function, *values)

    with use(Unpacked(make)) as here:
        task = here.submit(dies(1), 1)
        error = task.exception(timeout=20)
        assert str(error) == {"make": "no process can be started", "submit": "can't start new thread"}[where]


def test_of_arguments_that_are_there_at_once_only_the_last_begins_the_task():
    """Both looked whether any was left when both had been counted: the task began twice."""
    begun, barrier = [], threading.Barrier(2)

    class Slow(Executors):
        def _packed(self, function, values):
            return partial(function, *values)

        def _begin(self, task, call, attempts):
            begun.append(call)
            time.sleep(0.001)
            super()._begin(task, call, attempts)

    def arrive():
        barrier.wait(20)
        return 1

    with use(Slow(lambda: ThreadPoolExecutor(4))) as here:
        for _ in range(100):
            begun.clear()
            both = [here.submit(arrive), here.submit(arrive)]
            assert here.gathered([here.submit(lambda one, two: one + two, *both)]) == [2]
            assert len(begun) == 3


def test_a_place_that_is_used_is_the_one_until_it_is_left():
    assert places.elsewhere() is None
    with use(Executors(lambda: ThreadPoolExecutor(1))) as there:
        assert places.elsewhere() is there
        with use(Threads()) as here:
            assert places.elsewhere() is None
            with place() as where:
                assert where is here
        with place() as where:
            assert where is there
    with place() as where:
        assert isinstance(where, Threads)


class FakeTask:
    """A future of Dask that has failed."""

    def __init__(self, error):
        self.status, self.error = "error", error

    def result(self, timeout=None):
        raise self.error


def test_errors_of_a_cluster_are_told_in_our_words_and_those_of_tasks_as_they_are(monkeypatch):
    scheduler = pytest.importorskip("distributed.scheduler")
    there = Cluster(SimpleNamespace(status="closed"))
    with pytest.raises(ClusterError, match="connection to the scheduler"):
        there.submit(abs, -1)
    there.cancel([1])  # there is nobody to be told
    monkeypatch.setattr(Cluster, "completed", lambda self, tasks: iter(tasks))
    killed = scheduler.KilledWorker("leaf", SimpleNamespace(address="tcp://127.0.0.1:1"), 3)
    for error, words in (
        (CancelledError(), "connection to the scheduler"),
        (killed, "died of it, the last at tcp"),
    ):
        with pytest.raises(ClusterError, match=words):
            there.gathered([FakeTask(error)])
    with pytest.raises(ZeroDivisionError):
        there.gathered([FakeTask(ZeroDivisionError())])


class LostTask(FakeTask):
    """A future of Dask whose result was lost with its worker, and that ran again."""

    def __init__(self, *answers):
        super().__init__(None)
        self.status, self.answers = "finished", list(answers)

    def result(self, timeout=None):
        found = self.answers.pop(0)
        if isinstance(found, BaseException):
            self.status = "lost" if isinstance(found, TimeoutError) else "error"
            self.answers.insert(0, found) if self.status == "error" else None
            raise found
        return SimpleNamespace(value=found)


def test_results_that_are_lost_are_waited_for_and_told_of_in_our_words(monkeypatch):
    scheduler = pytest.importorskip("distributed.scheduler")
    there = Cluster(SimpleNamespace(status="running"))
    monkeypatch.setattr(Cluster, "completed", lambda self, tasks: iter(tasks))
    assert there.gathered([LostTask(TimeoutError(), TimeoutError(), 7)]) == [7]
    killed = scheduler.KilledWorker("leaf", SimpleNamespace(address="tcp://127.0.0.1:1"), 3)
    for error, words in ((killed, "died of it"), (MemoryError("8 GiB"), r"more memory than its worker has \(8")):
        with pytest.raises(ClusterError, match=words):
            there.gathered([LostTask(TimeoutError(), error)])
    with pytest.raises(ZeroDivisionError):
        there.gathered([LostTask(ZeroDivisionError())])


def test_the_bytes_of_a_result_are_those_of_its_arrays():
    """Dask's own count sees no array within an object of ours: it moved and spilled as if there were none."""
    pytest.importorskip("distributed")
    X = np.random.default_rng(0).random((3_000, 4))
    values = KernelValues(X, TriangularFeatures(RBF(1.0), X[:100]), budget=1e9)
    region = Region(None, [[X, X]], [None], X[:, 0], X)
    assert _Sent([(values, (X[:, 0], None))]).__sizeof__() > values.nbytes == 3_000 * 100 * 8
    assert X.nbytes + 3_000 * 8 <= _Sent(region).__sizeof__() < 1.1 * (X.nbytes + 3_000 * 8)  # an array counts once


def test_four_methods_make_a_place():
    class Inline(Place):
        remote = False

        def submit(self, function, *args, name=""):
            return function(*args)

        def completed(self, tasks):
            return iter(tasks)

        def gathered(self, tasks):
            return list(tasks)

        def cancel(self, tasks):
            pass

    with use(Inline()) as here:
        assert here.map_ordered(abs, [-1]) == [1]
        assert dict(here.rescued({"one": 1})) == {}
    with pytest.raises(TypeError, match="abstract"):
        Place()


def test_a_seed_has_the_four_words_of_its_source():
    words = np.random.SeedSequence(7).generate_state(4)
    assert draw_seed(7).to_bytes(16, "little") == words.astype("<u4").tobytes()
    drawn = np.random.RandomState(7).randint(0, 2**32, size=4, dtype=np.uint32)
    assert draw_seed(np.random.RandomState(7)).to_bytes(16, "little") == drawn.astype("<u4").tobytes()
