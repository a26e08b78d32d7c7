"""What may happen around or in the midst of a graph's replays: the next replay is right."""

import pytest
import torch
from capturing import captured
from interpreter import script

PRELUDE = """
import os, signal, sys, threading, time
import torch, graphex
torch.set_grad_enabled(False)
def chain(x):
    y = torch.softmax(x * 2, -1)
    return (y @ y.transpose(-1, -2)).relu().sum(-1)
x, g = torch.rand(96, 160), graphex.Graph()
with graphex.graph(g, inputs={"x": x}):
    y = chain(x)
g.replay()
expected, other = y.clone(), torch.rand(96, 160)
of_other = chain(other)
def good():
    g.replay()
    right = torch.equal(y, expected)
    return right and torch.allclose(g.replay(x=other, fresh=y), of_other) and torch.equal(y, expected)
"""

switch = {"fail": False}


@torch.library.custom_op("gx_graphs::trip", mutates_args=())
def trip(x: torch.Tensor) -> torch.Tensor:
    if switch["fail"]:
        raise ArithmeticError("the island fails")
    return x + 1


@trip.register_fake
def _(x):
    return torch.empty_like(x)


@torch.no_grad()
def test_an_exception_in_an_island():
    x = torch.rand(4, 6)
    g, y = captured(lambda: torch.ops.gx_graphs.trip(x * 2).sum(-1), inputs={"x": x})
    for _ in range(3):
        switch["fail"] = True
        try:
            for keywords in ({}, {"fresh": y}):
                with pytest.raises(ArithmeticError, match="the island fails"):
                    g.replay(**keywords)
        finally:
            switch["fail"] = False
        g.replay()
        torch.testing.assert_close(y, (x * 2 + 1).sum(-1))
        torch.testing.assert_close(g.replay(x=x + 1, fresh=y), (x * 2 + 3).sum(-1))


@torch.no_grad()
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_torchs_number_of_threads_between_replays(threads):
    x, before = torch.rand(64, 80), torch.get_num_threads()
    g, y = captured(lambda: (x.softmax(-1) @ x.t()).sum(-1))
    g.replay()
    expected = y.clone()
    try:
        torch.set_num_threads(threads)
        g.replay()
        assert torch.equal(y, expected), "bits depend on the number of threads"
    finally:
        torch.set_num_threads(before)


def test_a_fork_after_use():
    script(
        PRELUDE,
        """
        for generation in range(3):
            child = os.fork()
            if child == 0:
                os._exit(0 if good() else 1)
            assert os.waitpid(child, 0)[1] == 0
            assert good()
        """,
    )


def test_an_affinity_mask_that_is_narrowed():
    script(
        PRELUDE,
        """
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        assert all(good() for _ in range(20))
        """,
    )


def test_an_interrupt_during_replays():
    script(
        PRELUDE,
        """
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore the signal
        def interrupt(delay):
            time.sleep(delay)
            os.kill(os.getpid(), signal.SIGINT)
        caught = 0
        for delay in (0.0005, 0.002, 0.01, 0.03):
            thread = threading.Thread(target=interrupt, args=(delay,))
            try:
                thread.start()
                while True:
                    g.replay(fresh=y)
                    g.replay()
            except KeyboardInterrupt:
                caught += 1
            thread.join()
            assert good()
        assert caught == 4
        """,
    )
