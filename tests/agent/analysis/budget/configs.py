"""Configurations as their models publish them, cut to the keys that count."""

GPT3 = {
    "model_type": "gpt2", "n_embd": 12288, "n_head": 96, "n_layer": 96, "vocab_size": 50257,
}  # fmt: skip
LLAMA2_7B = {
    "model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 32,
    "intermediate_size": 11008, "vocab_size": 32000, "tie_word_embeddings": False,
}  # fmt: skip
LLAMA3_70B = {
    "model_type": "llama", "hidden_size": 8192, "num_attention_heads": 64,
    "num_key_value_heads": 8, "num_hidden_layers": 80, "intermediate_size": 28672,
    "vocab_size": 128256, "tie_word_embeddings": False,
}  # fmt: skip
MIXTRAL = {
    "model_type": "mixtral", "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 8, "num_hidden_layers": 32, "intermediate_size": 14336,
    "vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2,
    "tie_word_embeddings": False,
}  # fmt: skip
DEEPSEEK_V3 = {
    "model_type": "deepseek_v3", "hidden_size": 7168, "num_attention_heads": 128,
    "num_hidden_layers": 61, "intermediate_size": 18432, "moe_intermediate_size": 2048,
    "n_routed_experts": 256, "num_experts_per_tok": 8, "n_shared_experts": 1,
    "first_k_dense_replace": 3,
    "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
    "v_head_dim": 128, "vocab_size": 129280, "tie_word_embeddings": False,
}  # fmt: skip
BERT_LARGE = {
    "model_type": "bert", "hidden_size": 1024, "num_attention_heads": 16, "num_hidden_layers": 24,
    "intermediate_size": 4096, "vocab_size": 30522,
}  # fmt: skip
T5_3B = {
    "model_type": "t5", "d_model": 1024, "d_ff": 16384, "d_kv": 128, "num_heads": 32,
    "num_layers": 24, "vocab_size": 32128, "is_encoder_decoder": True,
    "feed_forward_proj": "relu", "tie_word_embeddings": True,
}  # fmt: skip
QWEN3_MOE = {
    "model_type": "qwen3_moe", "hidden_size": 2048, "num_attention_heads": 32,
    "num_key_value_heads": 4, "head_dim": 128, "num_hidden_layers": 48,
    "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 128,
    "vocab_size": 151936, "tie_word_embeddings": False,
}  # fmt: skip
GEMMA_7B = {
    "model_type": "gemma", "hidden_size": 3072, "num_attention_heads": 16,
    "num_key_value_heads": 16, "head_dim": 256, "num_hidden_layers": 28,
    "intermediate_size": 24576, "vocab_size": 256000,
}  # fmt: skip
QWEN15_MOE = {
    "model_type": "qwen2_moe", "hidden_size": 2048, "num_attention_heads": 16,
    "num_key_value_heads": 16, "num_hidden_layers": 24, "intermediate_size": 5632,
    "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632, "num_experts": 60,
    "num_experts_per_tok": 4, "vocab_size": 151936, "tie_word_embeddings": False,
}  # fmt: skip
MISTRAL_7B = {
    "model_type": "mistral", "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 8, "num_hidden_layers": 32, "intermediate_size": 14336,
    "vocab_size": 32000, "tie_word_embeddings": False,
}  # fmt: skip
