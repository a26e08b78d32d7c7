"""Inputs that the first call moves into huge pages."""

import pytest
import torch

import graphex

EXTENT = 2 << 20


def run(weight, **options):
    """Bytes moved by the first call of a product with weight."""
    layer = torch.compile(lambda x, w: x @ w, backend="graphex", options=options)
    x = torch.ones(2, len(weight))
    for _ in range(2):
        assert torch.equal(layer(x, weight), x @ weight)
    [graph] = graphex.explain(layer)["graphs"]
    return graph["program"]["huge_page_bytes"]


def test_weights_keep_their_values_and_the_option_turns_it_off():
    weight = torch.randint(-9, 9, (1024, 4096)).float()  # sums are exact
    before, address = weight.clone(), weight.data_ptr()
    assert run(weight, huge_pages=False) == 0
    moved = run(weight)
    if not moved:
        pytest.skip("this system has no huge pages to give")
    assert moved >= weight.nbytes - 2 * EXTENT and moved % EXTENT == 0
    assert weight.data_ptr() == address
    assert torch.equal(weight, before)


def test_small_inputs_stay():
    assert run(torch.ones(64, 64)) == 0
