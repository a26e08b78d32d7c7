"""Threads, forks, signals and interpreters that end: never a hang, a crash or a wrong value."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import interpreter
import pytest
import torch

pytestmark = pytest.mark.usefixtures("backend")


@torch.library.custom_op("gx_threads::shout", mutates_args=())
def shout(x: torch.Tensor, fail: bool) -> torch.Tensor:
    if fail:
        raise ArithmeticError("the island fails")
    return x + 1


@shout.register_fake
def _(x, fail):
    return torch.empty_like(x)


def chain(x):
    y = torch.softmax(x * 2, -1)
    return (y @ y.transpose(-1, -2)).relu().sum(-1)


def chain_with_island(x):
    return chain(torch.ops.gx_threads.shout(x, False)) * 2


def compiled(function, **keywords):
    return torch.compile(function, backend="graphex", fullgraph=True, **keywords)


@pytest.mark.parametrize("function", [chain, chain_with_island])
def test_many_threads_on_one_function_while_another_compiles(function):
    shared = compiled(function, dynamic=True)
    shared(torch.rand(3, 5))
    stop = threading.Event()

    def compile_others():
        for width in range(2, 100):
            if stop.is_set():
                return
            compiled(lambda x, width=width: chain(x) + width)(torch.rand(2, 4))

    def call(seed):
        generator = torch.Generator().manual_seed(seed)
        for step in range(60):
            x = torch.rand(2 + (seed + step) % 5, 3 + step % 7, generator=generator)
            torch.testing.assert_close(shared(x), function(x))

    other = threading.Thread(target=compile_others)
    other.start()
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(call, range(8)))
    finally:
        stop.set()
        other.join()


def test_an_exception_in_an_island_leaves_the_function_usable():
    run = compiled(lambda x, fail: chain(torch.ops.gx_threads.shout(x, fail)))
    x = torch.rand(4, 6)
    run(x, False)
    for _ in range(3):
        with pytest.raises(ArithmeticError, match="the island fails"):
            run(x, True)
        torch.testing.assert_close(run(x, False), chain(x + 1))


def test_a_compiled_function_inside_an_island_of_another():
    inner = compiled(chain)
    x = torch.rand(4, 6)
    inner(x)

    @torch.library.custom_op("gx_threads::nested", mutates_args=())
    def nested(x: torch.Tensor) -> torch.Tensor:
        return inner(x)

    nested.register_fake(lambda x: x.new_empty(x.shape[:-1]))
    outer = compiled(lambda x: nested(x * 2) + 1)
    torch.testing.assert_close(outer(x), chain(x * 2) + 1)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_torchs_number_of_threads_between_calls(threads):
    run, x, before = compiled(chain), torch.rand(64, 80), torch.get_num_threads()
    expected = run(x)
    try:
        torch.set_num_threads(threads)
        assert torch.equal(run(x), expected), "bits depend on the number of threads"
    finally:
        torch.set_num_threads(before)


PRELUDE = """
import os, signal, sys, threading, time
import torch
def chain(x):
    y = torch.softmax(x * 2, -1)
    return (y @ y.transpose(-1, -2)).relu().sum(-1)
run = torch.compile(chain, backend="graphex")
x = torch.rand(96, 160)
expected = run(x)
"""


def script(*parts: str) -> str:
    """Runs them in an interpreter of its own after PRELUDE; what it printed."""
    return interpreter.script(PRELUDE, *parts)


def test_a_fork_after_use():
    # The child leaves eager's own operators alone: GNU's OpenMP waits there for threads that the fork lost.
    script("""
        narrow = chain(x[:, :100])
        for generation in range(3):
            child = os.fork()
            if child == 0:
                good = torch.equal(run(x), expected) and torch.allclose(run(x[:, :100]), narrow)
                os._exit(0 if good else 1)
            assert os.waitpid(child, 0)[1] == 0
            assert torch.equal(run(x), expected)
    """)


def test_workers_of_a_data_loader():
    script("""
        class Set(torch.utils.data.Dataset):
            def __len__(self): return 6
            def __getitem__(self, i): return run(x + i)
        got = list(torch.utils.data.DataLoader(Set(), batch_size=None, num_workers=2, multiprocessing_context="fork"))
        for i, row in enumerate(got):
            torch.testing.assert_close(row, chain(x + i))
    """)


def test_an_affinity_mask_that_is_narrowed():
    script("""
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        for _ in range(20):
            assert torch.equal(run(x), expected)
    """)


def test_an_interrupt_during_replays():
    """PyTorch takes an exception in a guard for a guard that fails, and may so lose an interrupt: one is sent again."""
    script("""
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore the signal
        caught = sent = 0

        def interrupt(delay, caught_before):
            global sent
            time.sleep(delay)
            while caught == caught_before:
                sent += 1
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(10)

        for delay in (0.0005, 0.002, 0.01, 0.03):
            thread = threading.Thread(target=interrupt, args=(delay, caught), daemon=True)
            try:
                thread.start()
                while True:
                    run(x)
            except KeyboardInterrupt:
                caught += 1
            assert torch.equal(run(x), expected)
        assert caught == 4 and sent <= 5
    """)


def test_threads_that_torchs_openmp_owns():
    script("""
        import ctypes, pathlib
        folder = pathlib.Path(torch.__file__).parent / "lib"
        openmp = ctypes.CDLL(str(next(folder.glob("libgomp*.so*"))))
        def in_parallel(threads, work):
            good, owners = [], set()
            def body(_):
                owners.add(threading.get_ident())
                good.append(work())
            callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(body)
            openmp.GOMP_parallel(callback, None, threads, 0)
            assert good == [True] * threads and len(owners) == threads, (good, owners)
        for threads in (1, 2, 4):
            for _ in range(20):
                in_parallel(threads, lambda: torch.equal(run(x), expected))
            fresh = torch.compile(lambda x: chain(x) * threads, backend="graphex")
            in_parallel(threads, lambda: torch.equal(fresh(x), expected * threads))
        assert torch.equal(run(x), expected)  # and outside again
    """)


# A thread of C++ that asks for the interpreter's lock while that ends. (Loops of operators are no test of this:
# PyTorch's own release of a tensor aborts there, in eager too.)
ENDING = """
import tempfile
from graphex import _core
inside = threading.Event()
class Late:
    def __del__(self):  # among the last things that an ending interpreter does
        time.sleep(seconds)
late = Late()
def last_words(work):
    threading.Thread(target=work, daemon=True).start()
    inside.wait()
    print("over", flush=True)
"""


@pytest.mark.parametrize("what", ["compiles", "replays", "runs an island"])
def test_the_interpreter_ends_while_a_thread(what):
    body = {
        "compiles": """
            compile, seconds = _core.compile, 3
            def announced(*args):
                inside.set()
                return compile(*args)
            _core.compile = announced
            fresh = torch.compile(chain, backend="graphex", options={"cache_dir": tempfile.mkdtemp()})
            last_words(lambda: fresh(x[:5]))
        """,
        "replays": """
            def long(x):
                for _ in range(6):
                    x = x @ x
                return x
            import graphex
            x, g = torch.rand(1500, 1500), graphex.Graph()
            with graphex.graph(g):
                y = long(x)
            g.replay()
            start = time.monotonic()
            g.replay()
            seconds = 2 * (time.monotonic() - start) + 1
            def work():
                inside.set()
                g.replay()  # not through Dynamo, whose guards crash when an interpreter ends in the midst of them
            last_words(work)
        """,
        "runs an island": """
            compile, seconds = _core.compile, 2
            def dozing(island):
                def doze(*args):  # in Python itself: PyTorch's dispatcher too can't be left like that
                    inside.set()
                    time.sleep(1)
                    return island(*args)
                return doze
            def with_dozing(text, signature, islands, options):
                return compile(text, signature, [dozing(island) for island in islands], options)
            _core.compile = with_dozing
            run = torch.compile(lambda x: torch.linalg.qr(x * 2)[1] * 3, backend="graphex")
            last_words(lambda: run(x))
        """,
    }[what]
    assert script(ENDING, body).strip() == "over"
