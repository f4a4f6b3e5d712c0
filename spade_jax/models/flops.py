"""Operations of a model, by formula: XLA's own count takes the body of a loop once."""

from spade_jax.models import ModelConfig


def block_flops(config: ModelConfig, tokens: float, attended: float) -> float:
    """Of one block's forward pass over `tokens`, each of which looks at `attended` positions.
    Matrix products only; two operations for a multiplication and its addition."""
    c = config
    projections = c.d_model * c.head_dim * 2 * (c.num_heads + c.num_kv_heads)
    looking = 2 * c.num_heads * c.head_dim * attended
    if c.num_experts:
        feed = c.d_model * c.num_experts + 3 * c.experts_per_token * c.d_model * c.d_expert
    else:
        feed = 3 * c.d_model * c.d_ff
    return 2.0 * tokens * (projections + looking + feed)


def forward_flops(config: ModelConfig, tokens: float, attended: float, predicted: float) -> float:
    """Of all blocks over `tokens`, and of the logits of `predicted` of them."""
    blocks = config.num_layers * block_flops(config, tokens, attended)
    return blocks + 2.0 * predicted * config.d_model * config.vocab_size


def gradient_flops(
    config: ModelConfig, tokens: float, attended: float, reference: bool
) -> float:
    """Of the gradient of one micro-batch: the backward pass is twice the forward one, the logits
    are computed again for it, the blocks too where nothing of them is kept, and a reference adds a
    forward pass."""
    forward = forward_flops(config, tokens, attended, tokens)
    blocks = config.num_layers * block_flops(config, tokens, attended)
    again = forward - blocks + (blocks if config.remat == "full" else 0.0)
    return 3 * forward + again + (forward if reference else 0.0)
