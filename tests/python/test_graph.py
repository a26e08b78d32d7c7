"""graphex.graph: what a region records, what a capture leaves alone, and what replays do, against eager PyTorch."""

import pytest
import torch
from capturing import captured, check
from torch.nn import functional as F

import graphex


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


def test_static_buffers():
    linear, x = torch.nn.Linear(8, 4), torch.randn(3, 8)
    g, y = captured(lambda: F.gelu(linear(x)))
    address = y.data_ptr()
    for _ in range(3):
        x.normal_()
        g.replay()
        torch.testing.assert_close(y, F.gelu(linear(x)))
    assert y.data_ptr() == address


def test_weights_are_read_where_they_are():
    linear, x = torch.nn.Linear(8, 4), torch.randn(3, 8)
    g, y = captured(linear, x)
    linear.weight.mul_(2)
    g.replay()
    torch.testing.assert_close(y, linear(x))


def test_writes_to_tensors_from_outside():
    def region(x, count):
        x.add_(1)
        count += 1
        x[1:].mul_(2)
        return (x.sum(0),)

    check(region, torch.randn(4, 3), torch.zeros((), dtype=torch.int64))


def test_cache_writes_at_a_position():
    def region(cache, new, position):
        cache.index_copy_(1, position, new)
        cache[0, :2] = 3
        torch.add(new, 1, out=new)
        return cache.sum(1), cache[:, 4:5] + new

    check(region, torch.zeros(2, 6, 4), torch.randn(2, 1, 4), torch.tensor([4]))


@pytest.mark.parametrize("inference", [False, True])
def test_results_that_alias(inference):
    def region(x):
        y = x * 2
        y[0] = 7
        return y, y.t(), y[1:], y.view(-1)[2:5], x.view(-1), torch.tensor([1.0, 2.0]).add_(1)

    with torch.inference_mode(inference):
        check(region, torch.randn(3, 4))
    x = torch.randn(3, 4)
    g, (y, turned, rows, part, same, _) = captured(region, x)
    g.replay()
    y.fill_(5)
    assert turned[0, 0] == 5 and rows[0, 0] == 5 and part[0] == 5
    assert same.data_ptr() == x.data_ptr()


def test_a_view_outlives_its_base():
    x = torch.randn(4, 4)
    g, middle = captured(lambda: (x + 1).t()[1:3])
    g.replay()
    torch.testing.assert_close(middle, (x + 1).t()[1:3])


def test_inputs_that_share_memory():
    whole = torch.randn(6, 4)
    top, bottom, middle, column = whole[:3], whole[3:], whole[1:5], whole[:, 1]

    def region(top, bottom, middle, column):
        top.mul_(2)
        bottom.add_(top)
        column.zero_()
        return middle + 1, top.sum(), whole.clone()

    before = whole.clone()
    g, results = captured(region, top, bottom, middle, column)
    assert torch.equal(whole, before)
    g.replay()
    mine, after = [r.clone() for r in results], whole.clone()
    whole.copy_(before)
    for a, b in zip((*mine, after), (*region(top, bottom, middle, column), whole), strict=True):
        torch.testing.assert_close(a, b)


def test_disjoint_parts_of_one_storage_stay_apart():
    both = torch.randn(2, 3, 4)
    g = check(lambda keys, values: (keys.add_(1).sum(), values.mul_(2).sum()), both[0], both[1])
    assert graphex.explain(g)["graphs"][0]["islands"] == []


def test_memory_seen_as_two_dtypes():
    x = torch.randn(4)
    bits = x.view(torch.int32)
    g, y = captured(lambda: (x.mul_(-1), bits + 0)[1])
    before = x.clone()
    g.replay()
    assert torch.equal(y, (-before).view(torch.int32)) and torch.equal(x, -before)
    assert "several dtypes" in graphex.explain(g)["graphs"][0]["eager"]


def test_empty_memory_made_inside_is_a_static_buffer():
    def region():
        buffer = torch.empty(4)
        buffer[1] = 9
        return buffer, buffer + 1

    g, (buffer, y) = captured(region)
    buffer.copy_(torch.arange(4.0))
    g.replay()
    assert buffer.tolist() == [0, 9, 2, 3] and y.tolist() == [1, 10, 3, 4]


def test_random_numbers_are_drawn_at_replay_as_eager_draws():
    state = torch.get_rng_state()

    def region(x):
        return (
            F.dropout(x, 0.5),
            torch.rand(3),
            x.clone().normal_(),
            torch.randint(9, (4,)),
            torch.bernoulli(x.sigmoid()),
        )

    check(region, torch.randn(50))
    torch.set_rng_state(state)
    captured(region, torch.randn(50, generator=torch.Generator()))
    assert torch.equal(torch.get_rng_state(), state), "the capture drew numbers"


def test_a_generator_of_the_users():
    generator = torch.Generator()
    g, y = captured(lambda: torch.rand(5, generator=generator))
    generator.manual_seed(3)
    g.replay()
    generator.manual_seed(3)
    assert torch.equal(y, torch.rand(5, generator=generator))


def test_shapes_changed_in_place():
    def region(x):
        y = x + 1
        y.t_()
        y.unsqueeze_(0)
        y[0, 1] = 5
        return y, y.squeeze(0) @ x

    check(region, torch.randn(3, 4))


def test_several_results_and_running_statistics():
    norm = torch.nn.BatchNorm1d(4)

    def region(x, mean, var):
        values, indices = x.max(dim=0)
        parts = x.split(2)
        parts[0].add_(1)
        return values, indices, F.batch_norm(x, mean, var, norm.weight, norm.bias, training=True), parts[1]

    check(region, torch.randn(4, 4), torch.zeros(4), torch.ones(4))


def test_foreach_operators():
    def region(a, b):
        torch._foreach_add_([a, b], 1.0)
        return tuple(torch._foreach_mul([a, b], 2.0))

    check(region, torch.randn(3), torch.randn(2, 2))


def test_default_dtype_and_autocast_of_the_replay_do_not_matter():
    a = torch.randn(4, 4)

    def region():
        with torch.autocast("cpu", torch.bfloat16):
            low = a @ a
        return low, a @ a, torch.rand(2)

    g, (low, full, drawn) = captured(region, options={"fallback": "eager"})
    torch.set_default_dtype(torch.float64)
    try:
        with torch.autocast("cpu", torch.bfloat16):
            g.replay()
    finally:
        torch.set_default_dtype(torch.float32)
    assert low.dtype == torch.bfloat16 and drawn.dtype == torch.float32
    torch.testing.assert_close(full, a @ a)


def test_complex_numbers_and_conjugate_views():
    z = torch.randn(3, 3, dtype=torch.complex64)
    check(lambda z: (z.conj() @ z, z.mH + 1, torch.view_as_real(z * 2)), z)


def test_inference_tensors_are_written_outside_of_inference_mode():
    with torch.inference_mode():
        cache, x = torch.zeros(3), torch.ones(3)
        g, y = captured(lambda: cache.add_(x) * 2)
    for times in (1, 2):
        g.replay()
        assert cache.tolist() == [times] * 3 and y.tolist() == [2 * times] * 3


def test_a_replay_counts_as_a_write():
    x = torch.randn(3)
    g, y = captured(lambda: x.add_(1) * 2)
    versions = x._version, y._version
    g.replay()
    assert x._version > versions[0] and y._version > versions[1]
    with torch.enable_grad():
        w = torch.ones(3, requires_grad=True)
        loss = (w * y).sum()
        g.replay()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_reset_and_capture_again():
    x = torch.ones(3)
    g, y = captured(lambda: x + 1)
    with pytest.raises(graphex.CaptureError, match="reset"), graphex.graph(g):
        pass
    g.replay()
    g.reset()
    with pytest.raises(graphex.CaptureError, match="empty"):
        g.replay()
    with graphex.graph(g):
        z = x * 5
    y.zero_()
    g.replay()
    assert z.tolist() == [5, 5, 5] and y.tolist() == [0, 0, 0]


def test_begin_and_end():
    x, g = torch.ones(3), graphex.Graph()
    g.capture_begin()
    y = x + 1
    g.capture_end()
    g.replay()
    assert y.tolist() == [2, 2, 2]
    with pytest.raises(graphex.CaptureError, match="without"):
        g.capture_end()


def test_without_passes_each_operator_is_a_launch():
    x = torch.randn(16)

    def region():
        y = torch.relu(x * 2)
        return [y + 1, (y - y).exp(), (y - y).exp()]

    def launches(g):
        return graphex.explain(g)["graphs"][0]["program"]["launches"]

    plain, plainly = captured(region, options={"disable_passes": ["all"]})
    fused, _ = captured(region)
    plain.replay()
    for got, expected in zip(plainly, region(), strict=True):
        assert torch.equal(got, expected)
    assert launches(plain) == 7 + 3  # the results' copies to where they are held
    assert launches(fused) < 7


def test_an_empty_region():
    g, _ = captured(lambda: None)
    g.replay()


def test_the_fallback_option():
    x = torch.randn(4)
    g = check(lambda x: (torch.special.bessel_j0(x) + 1,), x)
    [graph] = graphex.explain(g)["graphs"]
    assert [i["op"] for i in graph["islands"]] == ["aten.special_bessel_j0.default"]
    assert "test_graph.py" in graph["islands"][0]["source"]
    with pytest.raises(graphex.UnsupportedError, match=r"bessel_j0.*test_graph\.py"):
        captured(lambda: torch.special.bessel_j0(x), options={"fallback": "error"})
    g = check(lambda x: (x + 1,), x, options={"force_eager": True})
    assert graphex.explain(g)["eager_graphs"] == 1


def test_tensors_that_are_let_go_are_not_kept():
    x = torch.randn(1000)
    g, _ = captured(lambda: ((x + 1) * 2, None)[1])
    assert not any(i.made_inside for i in g._inputs)
