"""Our threads keep the order, and leave BLAS as they found it."""

from __future__ import annotations

import threading

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from caveat._internal.parallel import (
    OneBlasThread,
    map_in_threads,
    map_parts_in_threads,
    single_thread,
    stream_in_threads,
)


def blas_threads():
    return max(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")


def test_order_is_kept():
    assert map_in_threads(lambda i: i * i, range(100)) == [i * i for i in range(100)]
    assert map_in_threads(abs, []) == []


def test_blas_has_one_thread_inside_and_its_own_number_after():
    with threadpool_limits(2, user_api="blas"):
        assert map_in_threads(lambda _: blas_threads(), range(4)) == [1] * 4
        assert blas_threads() == 2


def test_an_error_comes_through_and_leaves_no_limit_behind():
    with threadpool_limits(2, user_api="blas"):
        with pytest.raises(ZeroDivisionError):
            map_in_threads(lambda i: 1 // i, [1, 0, 1])
        assert blas_threads() == 2


def test_blas_stays_at_one_thread_until_the_last_call_that_holds_it_ends():
    """The last bits of a product can depend on the number of threads; and a plain restore would put back the 1."""
    inside, outside = threading.Event(), threading.Event()

    def stays(_):
        inside.set()
        return outside.wait(20)

    found = []
    other = threading.Thread(target=lambda: found.append(map_in_threads(stays, range(2))))

    with threadpool_limits(2, user_api="blas"):
        with OneBlasThread():
            other.start()
            assert inside.wait(20)
        assert blas_threads() == 1  # we left first
        outside.set()
        other.join(20)
        assert blas_threads() == 2
        assert found == [[True, True]]


def test_works_from_a_thread_that_may_not_limit_blas():
    found = []
    thread = threading.Thread(target=lambda: found.append(map_in_threads(abs, [-1, -2, -3])))
    thread.start()
    thread.join(20)
    assert found == [[1, 2, 3]]


def test_parts_are_made_when_a_thread_is_about_to_be_free():
    """Of a thousand blocks of a file no more than a few are in memory."""
    held, most = set(), []

    def parts(workers):
        for i in range(50):
            held.add(i)
            most.append((len(held), workers))
            yield i

    with threadpool_limits(2, user_api="blas"):
        assert map_parts_in_threads(lambda i: held.discard(i) or -i, parts) == [-i for i in range(50)]
    assert all(alive <= workers + 1 for alive, workers in most)
    assert {workers for _, workers in most} == {2}


def test_inside_a_thread_of_ours_there_is_one_thread():
    def threads_used(_):
        return set(map_in_threads(lambda _: threading.get_ident(), range(4)))

    with threadpool_limits(2, user_api="blas"):
        inner = map_in_threads(threads_used, range(4))
        assert all(len(used) == 1 for used in inner)
        assert threading.get_ident() not in set().union(*inner)
        assert threads_used(0) != {threading.get_ident()}  # and outside there are several again


def test_results_are_streamed_in_order_and_few_are_made_ahead():
    made = []

    def parts(workers):
        for i in range(50):
            made.append(i)
            yield i

    stream = stream_in_threads(lambda i: -i, parts)
    assert next(stream) == 0
    assert len(made) < 20
    assert list(stream) == [-i for i in range(1, 50)]


def test_inside_single_thread_work_stays_in_this_thread():
    with single_thread():
        here = map_parts_in_threads(lambda _: threading.get_ident(), lambda workers: range(workers + 3))
    assert set(here) == {threading.get_ident()}
