"""Weights in GGUF's blocks: the formats against the gguf package, layers against their definition, loading of files."""

import copy
import re
import struct

import gguf
import graphex.gguf as loading
import numpy as np
import pytest
import torch
from graphex.blocks import BlockLinear, block_linear, dequantized, formats
from torch import nn

import graphex

pytestmark = pytest.mark.usefixtures("backend")

TYPES = {
    "q4_0": gguf.GGMLQuantizationType.Q4_0,
    "q4_1": gguf.GGMLQuantizationType.Q4_1,
    "q8_0": gguf.GGMLQuantizationType.Q8_0,
    "q4_k": gguf.GGMLQuantizationType.Q4_K,
    "q5_k": gguf.GGMLQuantizationType.Q5_K,
    "q6_k": gguf.GGMLQuantizationType.Q6_K,
}


def random_rows(format, rows, k, seed=0):
    """A file's bytes [rows, bytes]: any bits, but scales that are small numbers."""
    elements, size, _ = formats()[format]
    random = np.random.default_rng(seed)
    blocks = random.integers(0, 256, (rows, k // elements, size), dtype=np.uint8)
    halves = random.uniform(0.001, 0.05, (rows, k // elements, 2)).astype(np.float16).view(np.uint8)
    at = 208 if format == "q6_k" else 0
    width = 2 if format in ("q4_0", "q8_0", "q6_k") else 4
    blocks[..., at : at + width] = halves[..., :width]
    return blocks.reshape(rows, -1)


def write(path, tensors, architecture="qwen3", metadata=()):
    """A file with tensors {name: (rows' bytes or floats, format or None)}."""
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in metadata:
        writer.add_uint32(key, value)
    for name, (content, format) in tensors.items():
        writer.add_tensor(name, content, raw_dtype=TYPES.get(format))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def tiles_of(tmp_path, rows, format):
    """A file's rows in the order of kernels."""
    path = write(tmp_path / "rows.gguf", {"w": (rows, format)})
    source = loading.core().GgufFile(str(path))
    return loading._packed(source, "w", format, source.tensors["w"][1], [])


@pytest.mark.parametrize("format", TYPES)
def test_blocks_stand_for_what_the_gguf_package_says(format, tmp_path):
    rows = random_rows(format, 13, 512)
    expected = torch.from_numpy(gguf.quants.dequantize(rows, TYPES[format]))
    torch.testing.assert_close(dequantized(tiles_of(tmp_path, rows, format), format, 13), expected, rtol=1e-6, atol=0)


def compiled(model, **keywords):
    return torch.compile(model, backend="graphex", options={"fallback": "error"}, **keywords)


def rounded(x):
    """x as the layers see it, in float64."""
    groups = x.float().unflatten(-1, (-1, 32))
    most = groups.abs().amax(-1, keepdim=True)
    return ((groups * (127 / most)).round().double() * (most / 127).double()).flatten(-2)


@pytest.mark.parametrize("m", [1, 3, 40])
@pytest.mark.parametrize("format", TYPES)
def test_a_layer_is_its_definition(format, m, tmp_path):
    blocks = tiles_of(tmp_path, random_rows(format, 21, 512), format)
    x, bias = torch.randn(m, 512), torch.randn(21)
    got = compiled(lambda x: block_linear(x, blocks, bias, 21, format), fullgraph=True)(x)
    weight, inputs = dequantized(blocks, format, 21).double(), rounded(x)
    # An offset or a minimum is added apart, so the sums meet values up to 8 (or what the minimum is) beyond the weight.
    sizes = inputs.abs() @ (weight.abs() + 8).t() + bias.abs()
    bound = sizes * (512 / 32 + 8) * 2**-24
    for y in (got, block_linear(x, blocks, bias, 21, format)):
        assert ((y - (inputs @ weight.t() + bias)).abs() <= bound).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_reduced_floats_round_once(dtype, tmp_path):
    layer = BlockLinear(tiles_of(tmp_path, random_rows("q4_k", 16, 256), "q4_k"), None, 256, 16, "q4_k")
    x = torch.randn(2, 5, 256).to(dtype)
    with torch.no_grad():
        got, expected = compiled(layer, fullgraph=True)(x), layer(x.float())
    assert got.dtype == dtype and got.shape == (2, 5, 16)
    torch.testing.assert_close(got, expected.to(dtype))


def test_dynamic_rows(tmp_path):
    layer = BlockLinear(tiles_of(tmp_path, random_rows("q4_1", 8, 64), "q4_1"), None, 64, 8, "q4_1")
    run = compiled(layer, fullgraph=True, dynamic=True)
    for m in (3, 1, 7, 300, 0):
        x = torch.randn(m, 64)
        with torch.no_grad():
            torch.testing.assert_close(run(x), layer(x), rtol=1e-5, atol=1e-5)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        for name in ("q", "k", "v", "o"):
            setattr(self, f"{name}_proj", nn.Linear(64, 32 if name == "k" else 64, bias=name == "q"))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn = Attention()
        self.odd = nn.Linear(64, 8)


class Model(nn.Module):
    """The linear layers of a decoder of one layer, with the names that transformers gives them."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Block()])
        self.lm_head = nn.Linear(64, 40, bias=False)


def file_of(path, model, architecture="qwen3", change=None):
    """A q8_0 file of the model's weights; k is f32, the head is the embedding's tensor."""
    tensors, attention = {}, model.layers[0].self_attn
    for name in ("q", "v", "o"):
        weight = getattr(attention, f"{name}_proj").weight.detach()
        if change and name == "q":
            weight = change(weight)
        to = "blk.0.attn_output.weight" if name == "o" else f"blk.0.attn_{name}.weight"
        tensors[to] = (gguf.quants.quantize(weight.numpy(), TYPES["q8_0"]), "q8_0")
    tensors["blk.0.attn_k.weight"] = (attention.k_proj.weight.detach().numpy(), None)
    tensors["token_embd.weight"] = (gguf.quants.quantize(model.lm_head.weight.detach().numpy(), TYPES["q8_0"]), "q8_0")
    heads = [(f"{architecture}.attention.head_count", 4)]
    return write(path, tensors, architecture, heads)


def interleaved(weight, heads=4):
    """Rows as files of the llama architecture hold them."""
    return weight.view(heads, 2, -1, weight.shape[1]).transpose(1, 2).reshape(weight.shape).contiguous()


@pytest.mark.parametrize(("architecture", "change"), [("qwen3", None), ("llama", interleaved)])
def test_a_files_blocks_take_the_place_of_linears(architecture, change, tmp_path):
    model = Model()
    before = copy.deepcopy(model)
    report = graphex.load_gguf_linears(model, file_of(tmp_path / "m.gguf", model, architecture, change))
    left = {layer.name: layer.left for layer in report.layers if layer.left}
    assert set(left) == {"layers.0.self_attn.k_proj", "layers.0.odd"}
    assert left["layers.0.self_attn.k_proj"] == "blk.0.attn_k.weight is f32" and "names" in left["layers.0.odd"]
    assert "lm_head" in str(report) and max(layer.error for layer in report.layers) < 0.01
    x = torch.randn(3, 64)
    for name in ("layers.0.self_attn.q_proj", "layers.0.self_attn.v_proj", "lm_head"):
        new, old = model.get_submodule(name), before.get_submodule(name)
        assert isinstance(new, BlockLinear) and "format=q8_0" in repr(new)
        assert (new(x) - old(x)).norm() / old(x).norm() < 0.01, name


def test_what_does_not_fit_is_an_error_and_changes_nothing(tmp_path):
    model = Model()
    path = file_of(tmp_path / "m.gguf", model)
    other = Model()
    state = {name: value.clone() for name, value in other.state_dict().items()}
    with pytest.raises(ValueError, match=r"off the model's by .* check=False"):
        graphex.load_gguf_linears(other, path)
    other.lm_head = nn.Linear(64, 41, bias=False)
    with pytest.raises(ValueError, match=r"lm_head is \[41, 64\] in the model, token_embd.weight is \[40, 64\]"):
        graphex.load_gguf_linears(other, path, check=False)
    assert all(torch.equal(other.state_dict()[name], state[name]) for name in state if name != "lm_head.weight")
    with pytest.raises(OSError, match=re.escape("absent.gguf")):
        graphex.load_gguf_linears(model, tmp_path / "absent.gguf")
    (tmp_path / "cut.gguf").write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="download complete"):
        graphex.load_gguf_linears(model, tmp_path / "cut.gguf")
    (tmp_path / "text.gguf").write_text("hello, this is text")
    with pytest.raises(ValueError, match="no GGUF file"):
        graphex.load_gguf_linears(model, tmp_path / "text.gguf")
    assert not any(isinstance(module, BlockLinear) for module in model.modules())


def test_names_and_models_without_weights(tmp_path):
    model = Model()
    path = file_of(tmp_path / "m.gguf", model)
    with torch.device("meta"):
        empty = Model()
    report = graphex.load_gguf_linears(empty, path)
    assert sum(not layer.left for layer in report.layers) == 4
    assert empty.lm_head.blocks.device.type == "cpu"
    report = graphex.load_gguf_linears(model, path, names={"layers.0.self_attn.v_proj": "blk.0.attn_v.weight"})
    assert [layer.name for layer in report.layers if not layer.left] == ["layers.0.self_attn.v_proj"]


def test_heads_that_do_not_divide_the_rows_are_refused(tmp_path):
    model = Model()
    path = file_of(tmp_path / "m.gguf", model, "llama", interleaved)
    damaged = path.read_bytes().replace(struct.pack("<II", 4, 4), struct.pack("<II", 4, 7))
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match="7 heads for the 64 rows"):
        graphex.load_gguf_linears(model, path)
