"""The least work that a step of a Llama-like model can do: bytes that must be read and operations that must be done.

Bytes: every weight once (the embedding and the head are one tied matrix, read as the head; of the embedding alone a
row or two) and the keys and values that the tokens attend to. Operations: a multiply and an add per weight and token,
the head only for the rows whose logits are asked for, and attention over the keys that causality allows.
"""

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Work:
    bytes_read: int
    operations: int
    bytes_copied: int = 0  # read and written, of loops that do both

    def json(self):
        return asdict(self)


def counted(model):
    """(weights outside the embedding and the head, weights of the head)."""
    head = model.lm_head.weight.numel()
    tied = model.lm_head.weight is model.get_input_embeddings().weight
    total = sum(weight.numel() for weight in model.parameters())
    return total - head * (1 if tied else 2), head


def step_work(model, batch, tokens, past, logit_rows=1, weight_bytes=None):
    """A step that takes `tokens` new tokens a sequence after `past` of them, and gives `logit_rows` logits each.

    `weight_bytes`: what a quantised copy of the model holds in its linear layers."""
    config, (body, head) = model.config, counted(model)
    size = model.lm_head.weight.element_size()
    keys = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim  # values of K and V a position
    weights = (body + head) * size if weight_bytes is None else weight_bytes
    pairs = batch * sum(past + 1 + position for position in range(tokens))
    attention = 4 * config.num_hidden_layers * config.num_attention_heads * config.head_dim * pairs
    products = 2 * batch * (tokens * body + logit_rows * head)
    return Work(weights + batch * past * keys * size, products + attention)
