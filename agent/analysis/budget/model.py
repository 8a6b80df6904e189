"""The shape of a transformer, of its Hugging Face config.json or of a parameter count alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from gpudiag.probes.errors import UsageError


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of one model; zeros where only the number of parameters is known.

    `kv_rank` and `rope` are of multi-head latent attention (DeepSeek), whose cache holds them in
    place of keys and values; `windowed_layers` keep the cache of the last `window` tokens only;
    `experts` are routed ones a layer, in all but `dense_layers`, and
    `shared_feed_forward` is the width of those that every token passes.
    """

    name: str = "model"
    layers: int = 0
    decoder_layers: int = 0
    hidden: int = 0
    heads: int = 0
    kv_heads: int = 0
    head: int = 0
    feed_forward: int = 0
    gated: bool = True
    vocabulary: int = 0
    tied: bool = False
    experts: int = 0
    experts_a_token: int = 0
    shared_feed_forward: int = 0
    expert_feed_forward: int = 0
    dense_layers: int = 0
    q_rank: int = 0
    kv_rank: int = 0
    rope: int = 0
    value_head: int = 0
    window: int = 0
    windowed_layers: int = 0
    generates: bool = True
    given: float = 0.0

    @property
    def known(self) -> bool:
        """Whether more than the number of parameters is known."""
        return self.hidden > 0

    @property
    def embedding(self) -> float:
        """Parameters of the input and, where it is not tied, the output embedding."""
        return self.vocabulary * self.hidden * (1.0 if self.tied else 2.0)

    @property
    def attention(self) -> float:
        """Parameters of one layer's attention; latent attention after DeepSeek-V2, section 2.1."""
        if not self.kv_rank:
            own, shared = self.heads * self.head, self.kv_heads * self.head
            return self.hidden * (2.0 * own + 2.0 * shared)
        plain = self.head
        query = self.heads * (plain + self.rope)
        down = self.hidden * self.q_rank + self.q_rank * query if self.q_rank else 0.0
        queries = down or self.hidden * query
        keys = self.hidden * (self.kv_rank + self.rope)
        keys += self.kv_rank * self.heads * (plain + self.value_head)
        return queries + keys + self.heads * self.value_head * self.hidden

    @property
    def dense(self) -> float:
        """Parameters of one layer's feed-forward part without experts."""
        return (3.0 if self.gated else 2.0) * self.hidden * self.feed_forward

    @property
    def routed(self) -> float:
        """Parameters of all routed experts of the model: what expert parallelism parts."""
        return self.experts * 3.0 * self.hidden * self.expert_feed_forward * self.expert_layers

    @property
    def parameters(self) -> float:
        """All of them, norms and biases (under one in a thousand) left out."""
        if not self.known:
            return self.given
        layers = self.layers + self.decoder_layers
        # A decoder beside an encoder looks at it by an attention of its own.
        attention = self.attention * (layers + self.decoder_layers)
        plain = self.dense * (layers - self.expert_layers)
        each = 3.0 * self.hidden * self.shared_feed_forward
        each += self.hidden * self.experts
        return self.embedding + attention + plain + self.routed + each * self.expert_layers

    @property
    def expert_layers(self) -> int:
        """Layers whose feed-forward part is experts."""
        return self.layers - self.dense_layers if self.experts else 0

    def cache(self, size: float, length: int = 1) -> float:
        """Bytes of cache of `length` tokens, `size` bytes a value, all layers; 0 for an encoder.

        A layer with a sliding window holds no more than its window (Mistral 7B, arXiv 2310.06825,
        section 2), where the engine frees what has left it, as vLLM's and SGLang's hybrid caches.
        """
        if not self.generates:
            return 0.0
        layers = self.decoder_layers or self.layers
        held = (layers - self.windowed_layers) * length
        held += self.windowed_layers * min(length, self.window)
        if self.kv_rank:
            return held * (self.kv_rank + self.rope) * size
        return 2.0 * held * self.kv_heads * self.head * size


_ENCODERS = ("bert", "roberta", "deberta", "electra", "modernbert", "xlm-roberta")
_PLAIN = ("gpt2", "gpt_neox", "gpt_bigcode", "opt", "bloom", "falcon", "phi", "starcoder2", "t5")
_TIED = ("gpt2", "gpt_bigcode", "opt", "bloom", "falcon", "t5", "gemma", "gemma2", "gemma3_text")
"""Families whose configuration class ties the embeddings where config.json is silent."""


def read(config: Mapping[str, Any]) -> Shape:
    """From a config.json; raises `UsageError` where it names no sizes that are known here."""
    config = {**config, **(config.get("text_config") or {})}
    kind = str(config.get("model_type", "model"))
    try:
        hidden = _first(config, "hidden_size", "n_embd", "d_model")
        heads = _first(config, "num_attention_heads", "n_head", "num_heads")
        layers = _first(config, "num_hidden_layers", "n_layer", "num_layers")
        return Shape(
            name=kind,
            layers=layers,
            decoder_layers=_decoder_layers(config, layers),
            hidden=hidden,
            heads=heads,
            kv_heads=_kv_heads(config, heads),
            head=_head(config, hidden, heads),
            feed_forward=_feed_forward(config, hidden),
            gated=_gated(config, kind),
            vocabulary=_first(config, "vocab_size"),
            tied=bool(config.get("tie_word_embeddings", kind in (*_TIED, *_ENCODERS))),
            experts=_first_or_0(config, "n_routed_experts", "num_local_experts", "num_experts"),
            experts_a_token=_first_or_0(config, "num_experts_per_tok"),
            shared_feed_forward=_shared(config),
            expert_feed_forward=_first_or_0(config, "moe_intermediate_size", "intermediate_size"),
            dense_layers=_first_or_0(config, "first_k_dense_replace"),
            q_rank=_first_or_0(config, "q_lora_rank"),
            kv_rank=_first_or_0(config, "kv_lora_rank"),
            rope=_first_or_0(config, "qk_rope_head_dim"),
            value_head=_first_or_0(config, "v_head_dim"),
            window=_first_or_0(config, "sliding_window"),
            windowed_layers=_windowed(config, kind, layers),
            generates=kind not in _ENCODERS,
        )
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"a size in the configuration is no number: {error}") from error


def _first(config: Mapping[str, Any], *names: str) -> int:
    if found := _first_or_0(config, *names):
        return found
    raise UsageError(f"the configuration names no {names[0]}: give --parameters instead")


def _first_or_0(config: Mapping[str, Any], *names: str) -> int:
    for name in names:
        if config.get(name):
            if (size := int(config[name])) > 0:
                return size
            raise UsageError(f"{name} of the configuration is {config[name]}: it must be above 0")
    return 0


def _kv_heads(config: Mapping[str, Any], heads: int) -> int:
    # Falcon's first architecture names its heads beside a `multi_query` that overrides them.
    if config.get("multi_query") and not config.get("new_decoder_architecture"):
        return 1
    return _first_or_0(config, "num_key_value_heads", "num_kv_heads") or heads


def _shared(config: Mapping[str, Any]) -> int:
    """DeepSeek counts its shared experts, Qwen-MoE tells the width of its one."""
    told = _first_or_0(config, "shared_expert_intermediate_size")
    each = _first_or_0(config, "moe_intermediate_size")
    return told or _first_or_0(config, "n_shared_experts") * each


def _decoder_layers(config: Mapping[str, Any], layers: int) -> int:
    if not config.get("is_encoder_decoder"):
        return 0
    return int(config.get("num_decoder_layers") or config.get("decoder_layers") or layers)


def _windowed(config: Mapping[str, Any], kind: str, layers: int) -> int:
    """Layers that attend within the sliding window, by each way a configuration tells it."""
    if not config.get("sliding_window") or config.get("use_sliding_window") is False:
        return 0
    if types := config.get("layer_types"):
        return list(types).count("sliding_attention")
    if every := _first_or_0(config, "sliding_window_pattern"):
        return layers - layers // every
    if kind == "gemma2":
        return (layers + 1) // 2
    # Qwen: the first layers are whole. Elsewhere the window is that of all.
    whole = config.get("max_window_layers") if config.get("use_sliding_window") else 0
    return max(0, layers - int(whole or 0))


def _head(config: Mapping[str, Any], hidden: int, heads: int) -> int:
    told = _first_or_0(config, "qk_nope_head_dim", "head_dim", "d_kv")
    return told or hidden // heads


def _feed_forward(config: Mapping[str, Any], hidden: int) -> int:
    told = _first_or_0(config, "intermediate_size", "n_inner", "d_ff", "ffn_dim")
    return told or 4 * hidden


def _gated(config: Mapping[str, Any], kind: str) -> bool:
    act = str(config.get("feed_forward_proj") or config.get("hidden_act") or "")
    return act.startswith("gated") or kind not in (*_PLAIN, *_ENCODERS)
