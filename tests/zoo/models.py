"""The models of the zoo: what builds each, what it eats, and what it is trained on. zoo.py says what is done with them."""
import dataclasses, math
from typing import Callable

import numpy as np
import torch
import transformers as hf
from torch import nn
from torch.nn import functional as F

ROWS = 20  # five steps of four
SMALL = dict(vocab_size=128, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, max_position_embeddings=64,
             bos_token_id=0, eos_token_id=0, pad_token_id=0)
GATED = dict(SMALL, num_key_value_heads=2)
MIXED = dict(GATED, num_local_experts=6, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24)
STACKS = dict(vocab_size=128, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48,
              decoder_ffn_dim=48, max_position_embeddings=64, bos_token_id=0, eos_token_id=0, pad_token_id=0, decoder_start_token_id=0,
              forced_eos_token_id=None)
PATCHES = dict(image_size=16, patch_size=4, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, num_labels=5)


@dataclasses.dataclass
class Case:
    """build: the module; data: inputs and labels of so many rows; loss: as mtc names it. forms: further exports, of `optimized`, `static`,
    `single`, `old` and `new`. train: exported in training mode, dropping by the seed `drops`; noise: no two runs have the same losses; perturb: vectors are
    moved away from zero and one; axes: dimensions of inputs that stay dynamic, where not the batch, and the length of integer inputs; batch: the
    dimension of inputs, and of the output as "logits", that is the batch in the model, where not 0; in data it is 0."""
    build: Callable
    data: Callable
    loss: str = "causal-lm"
    forms: str = ""
    lr: float = 0.05
    train: bool = False
    drops: int = 0
    noise: bool = False
    perturb: bool = True
    axes: dict = dataclasses.field(default_factory=dict)
    batch: dict = dataclasses.field(default_factory=dict)
    mtc: str = ""


CASES = {}


def add(name, build, data, loss="causal-lm", forms="", **more):
    CASES[name] = Case(build, data, loss, forms, **more)


class Base(nn.Module):
    """A model as users export it: its inputs in order, one output, no cache."""

    def __init__(self, model, pick, fixed):
        super().__init__()
        self.model, self.pick, self.fixed = model, pick, fixed


def wrap(model, inputs, output="logits", **fixed):
    """A module whose forward takes the named inputs (the exporter wants a signature) and returns one output, by name or by a function."""
    scope = {}
    exec(f"def forward(self, {', '.join(inputs)}):\n return self.pick(self.model({', '.join(f'{n}={n}' for n in inputs)}, **self.fixed))", scope)
    pick = output if callable(output) else lambda result: result[output]
    return type("Exported", (Base,), dict(forward=scope["forward"]))(model, pick, fixed)


# Data: rows of inputs and labels, the same every time.

def chain(rng, rows, seq, vocab=128, lowest=4):
    """A first-order chain that a small model learns quickly."""
    follows = np.random.default_rng(0).integers(lowest, vocab, (vocab, 4))
    out = np.zeros((rows, seq), np.int64)
    out[:, 0] = rng.integers(lowest, vocab, rows)
    for i in range(1, seq):
        out[:, i] = follows[out[:, i - 1], np.minimum(3, rng.geometric(0.7, rows) - 1)]
    return out


def ignored(rng, labels, share=0.1):
    return np.where(rng.random(labels.shape) < share, -100, labels)


def tokens(seq=16, vocab=128):
    def data(rng, rows):
        t = chain(rng, rows, seq + 1, vocab)
        return dict(input_ids=t[:, :-1], labels=ignored(rng, t[:, 1:]))
    return data


def padded(seq=16, classes=0, name="labels"):
    """Tokens and a mask of rows that end early; labels of tokens, or one of classes."""
    def data(rng, rows):
        t = chain(rng, rows, seq)
        mask = (np.arange(seq)[None] < rng.integers(seq // 2, seq + 1, rows)[:, None]).astype(np.int64)
        labels = rng.integers(0, classes, rows) if classes else np.where((rng.random(t.shape) < 0.5) & (mask > 0), t, -100)
        return {"input_ids": np.where(mask > 0, t, 0), "attention_mask": mask, name: labels}
    return data


def unmasked(rng, rows):
    return {k: v for k, v in padded()(rng, rows).items() if k != "attention_mask"}


def classified(seq=16, classes=5):
    return lambda rng, rows: dict(input_ids=chain(rng, rows, seq), labels=rng.integers(0, classes, rows))


def pairs(source=12, target=16):
    """An encoder's and a decoder's tokens, of two lengths."""
    def data(rng, rows):
        t = chain(rng, rows, target + 1)
        return dict(input_ids=chain(rng, rows, source), decoder_input_ids=t[:, :-1], labels=ignored(rng, t[:, 1:]))
    return data


def pictures(size=16, classes=5, channels=3, name="pixel_values"):
    def data(rng, rows):
        labels = rng.integers(0, classes, rows)
        centres = np.random.default_rng(0).normal(size=(classes, channels, size, size))
        return {name: (0.5 * centres[labels] + rng.normal(size=(rows, channels, size, size))).astype(np.float32), "labels": labels}
    return data


def signs(rng, rows):
    """Steps whose numbers add up to more than nothing, and to less, in turns."""
    x = rng.normal(size=(rows, 8)) + np.where(np.arange(rows) // 4 % 2, -0.5, 0.5)[:, None]
    return dict(x=x.astype(np.float32), labels=rng.integers(0, 5, rows))


def segmented(size=32, out=32, classes=5, name="pixel_values"):
    def data(rng, rows):
        labels = rng.integers(0, classes, (rows, out, out))
        labels[rng.random(labels.shape) < 0.1] = -100
        return {name: rng.normal(size=(rows, 3, size, size)).astype(np.float32), "labels": labels}
    return data


def floats(shape, target, name="x"):
    """Regression: of a fixed smooth function of the input."""
    def data(rng, rows):
        x = rng.normal(size=(rows, *shape)).astype(np.float32)
        w = np.random.default_rng(0).normal(size=(int(np.prod(shape)), int(np.prod(target)))) / math.sqrt(np.prod(shape))
        return {name: x, "labels": np.tanh(x.reshape(rows, -1) @ w).reshape(rows, *target).astype(np.float32)}
    return data


def features(shape, classes=5, name="x"):
    return lambda rng, rows: {name: rng.normal(size=(rows, *shape)).astype(np.float32), "labels": rng.integers(0, classes, rows)}


def frames(samples, count, classes=8, name="input_values"):
    """Sound, and a label for each frame of it."""
    return lambda rng, rows: {name: rng.normal(size=(rows, *samples)).astype(np.float32), "labels": ignored(rng, rng.integers(0, classes, (rows, count)))}


# transformers: language models.

def decoder(config, inputs=("input_ids",), **fixed):
    def build():
        model = hf.AutoModelForCausalLM.from_config(config)
        model.config._experts_implementation = "batched_mm"
        return wrap(model, inputs, **{"use_cache": False, **fixed})
    return build


ALL = "optimized static old"
ROPE = dict(rope_parameters=dict(rope_type="default", rope_theta=1e4))
add("mixtral", decoder(hf.MixtralConfig(**MIXED)), tokens(), forms="optimized static")
add("qwen3-moe", decoder(hf.Qwen3MoeConfig(**MIXED, head_dim=8, norm_topk_prob=True)), tokens(), forms="optimized")
add("olmoe", decoder(hf.OlmoeConfig(**MIXED)), tokens(), forms="static")
add("gpt-oss", decoder(hf.GptOssConfig(**MIXED, head_dim=8, sliding_window=8, **ROPE)), tokens(), forms="optimized static")
add("deepseek-v3", decoder(hf.DeepseekV3Config(**dict(MIXED, num_key_value_heads=4, num_hidden_layers=3), n_routed_experts=8, n_group=2, topk_group=1,
    n_shared_experts=1,
    first_k_dense_replace=1, q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8)), tokens(), forms="optimized static")
add("granite-moe", decoder(hf.GraniteMoeConfig(**MIXED)), tokens())
add("qwen2-moe", decoder(hf.Qwen2MoeConfig(**MIXED, shared_expert_intermediate_size=24)), tokens())
add("phimoe", decoder(hf.PhimoeConfig(**MIXED)), tokens())
add("glm4-moe", decoder(hf.Glm4MoeConfig(**MIXED, head_dim=8, n_routed_experts=6, n_shared_experts=1, first_k_dense_replace=1)), tokens())
add("llama", decoder(hf.LlamaConfig(**GATED)), tokens(), forms="optimized static")
add("llama-mask", decoder(hf.LlamaConfig(**GATED), ("input_ids", "attention_mask")), padded(), forms="optimized old")
add("llama4", decoder(hf.Llama4TextConfig(**GATED, head_dim=8, intermediate_size_mlp=48, num_local_experts=4, num_experts_per_tok=1, attention_chunk_size=8)),
    tokens())
add("mistral", decoder(hf.MistralConfig(**GATED, sliding_window=8)), tokens(), forms="optimized")
add("gpt2", decoder(hf.GPT2Config(**SMALL)), tokens(), forms="optimized static")
add("gpt-neox", decoder(hf.GPTNeoXConfig(**SMALL)), tokens(), forms="optimized static")
add("gpt-neo", decoder(hf.GPTNeoConfig(vocab_size=128, hidden_size=32, num_layers=2, attention_types=[[["global", "local"], 1]], num_heads=4, window_size=8,
    intermediate_size=48,
    max_position_embeddings=64, bos_token_id=0, eos_token_id=0)), tokens())
add("gptj", decoder(hf.GPTJConfig(vocab_size=128, n_positions=64, n_embd=32, n_layer=2, n_head=4, rotary_dim=4, bos_token_id=0, eos_token_id=0)), tokens(),
    forms="static")
add("gpt-bigcode", decoder(hf.GPTBigCodeConfig(vocab_size=128, n_positions=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0)), tokens())
add("opt", decoder(hf.OPTConfig(**dict(SMALL, pad_token_id=1), ffn_dim=48, word_embed_proj_dim=16)), tokens(), forms="optimized static")
add("bloom", decoder(hf.BloomConfig(vocab_size=128, hidden_size=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0)), tokens(), forms="optimized static")
add("mpt", decoder(hf.MptConfig(vocab_size=128, d_model=32, n_layers=2, n_heads=4, max_seq_len=64)), tokens(), forms="optimized")
add("codegen", decoder(hf.CodeGenConfig(vocab_size=128, n_positions=64, n_ctx=64, n_embd=32, n_layer=2, n_head=4, rotary_dim=4, bos_token_id=0,
    eos_token_id=0)), tokens(), forms="optimized")
add("xglm", decoder(hf.XGLMConfig(vocab_size=128, d_model=32, ffn_dim=48, num_layers=2, attention_heads=4, max_position_embeddings=64, bos_token_id=0,
    eos_token_id=0, pad_token_id=1)), tokens(),
    forms="optimized")
add("gemma", decoder(hf.GemmaConfig(**GATED, head_dim=8)), tokens())
add("gemma2", decoder(hf.Gemma2Config(**GATED, head_dim=8, sliding_window=8, query_pre_attn_scalar=8)), tokens(), forms="optimized static")
add("gemma3", decoder(hf.Gemma3TextConfig(**dict(GATED, num_hidden_layers=3), head_dim=8, sliding_window=8,
    layer_types=["sliding_attention", "full_attention", "sliding_attention"])), tokens(), forms="optimized static")
add("phi", decoder(hf.PhiConfig(**SMALL, partial_rotary_factor=0.5)), tokens(), forms="optimized static")
add("phi3", decoder(hf.Phi3Config(**GATED)), tokens())
add("qwen2", decoder(hf.Qwen2Config(**GATED)), tokens(), forms="optimized static")
add("qwen3", decoder(hf.Qwen3Config(**GATED, head_dim=8)), tokens())
add("qwen3-next", decoder(hf.Qwen3NextConfig(**MIXED, head_dim=8, shared_expert_intermediate_size=24, linear_num_key_heads=2, linear_num_value_heads=4,
    linear_key_head_dim=8, linear_value_head_dim=8,
    layer_types=["linear_attention", "full_attention"])), tokens())
add("falcon", decoder(hf.FalconConfig(vocab_size=128, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, bos_token_id=0, eos_token_id=0)), tokens(),
    forms="optimized")
add("falcon-alibi", decoder(hf.FalconConfig(vocab_size=128, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, bos_token_id=0, eos_token_id=0,
    alibi=True, new_decoder_architecture=True,
    num_kv_heads=2)), tokens())
add("granite", decoder(hf.GraniteConfig(**GATED, embedding_multiplier=6.0, residual_multiplier=0.4, attention_multiplier=0.2, logits_scaling=2.0)), tokens(),
    forms="optimized")
add("cohere", decoder(hf.CohereConfig(**GATED, logit_scale=0.5)), tokens(), forms="optimized")
add("cohere2", decoder(hf.Cohere2Config(**GATED, logit_scale=0.5, sliding_window=8)), tokens())
add("starcoder2", decoder(hf.Starcoder2Config(**GATED)), tokens(), forms="static")
add("smollm3", decoder(hf.SmolLM3Config(**dict(GATED, num_hidden_layers=8))), tokens())
add("glm4", decoder(hf.Glm4Config(**GATED, head_dim=8)), tokens())
add("olmo2", decoder(hf.Olmo2Config(**GATED)), tokens())
add("stablelm", decoder(hf.StableLmConfig(**GATED, use_parallel_residual=True)), tokens())
add("nemotron", decoder(hf.NemotronConfig(**GATED)), tokens(), forms="optimized")
add("exaone4", decoder(hf.Exaone4Config(**GATED, sliding_window=8)), tokens())
add("minicpm3", decoder(hf.MiniCPM3Config(**dict(GATED, num_key_value_heads=4), q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8,
    v_head_dim=8)), tokens())
add("persimmon", decoder(hf.PersimmonConfig(**SMALL)), tokens())
add("biogpt", decoder(hf.BioGptConfig(**dict(SMALL, pad_token_id=1))), tokens())
add("openai-gpt", decoder(hf.OpenAIGPTConfig(vocab_size=128, n_positions=64, n_embd=32, n_layer=2, n_head=4)), tokens())
add("ctrl", decoder(hf.CTRLConfig(vocab_size=128, n_positions=64, n_embd=32, dff=48, n_layer=2, n_head=4)), tokens())
add("xlnet", decoder(hf.XLNetConfig(vocab_size=128, d_model=32, n_layer=2, n_head=4, d_inner=48), use_cache=False), tokens())
add("diffllama", decoder(hf.DiffLlamaConfig(**GATED)), tokens())
add("doge", decoder(hf.DogeConfig(**GATED)), tokens())
add("apertus", decoder(hf.ApertusConfig(**GATED)), tokens())
add("modernbert-decoder", decoder(hf.ModernBertDecoderConfig(**SMALL, local_attention=8, global_attn_every_n_layers=2, cls_token_id=0, sep_token_id=0)),
    tokens())
add("mamba", decoder(hf.MambaConfig(vocab_size=128, hidden_size=32, num_hidden_layers=2, state_size=4, time_step_rank=4, pad_token_id=0, bos_token_id=0,
    eos_token_id=0)), tokens(),
    forms="optimized static")
add("falcon-mamba", decoder(hf.FalconMambaConfig(vocab_size=128, hidden_size=32, num_hidden_layers=2, state_size=4, time_step_rank=4, pad_token_id=0,
    bos_token_id=0, eos_token_id=0)), tokens(), forms="static")
add("mamba2", decoder(hf.Mamba2Config(vocab_size=128, hidden_size=32, num_hidden_layers=2, state_size=8, num_heads=8, head_dim=8, n_groups=2, chunk_size=8,
    expand=2, pad_token_id=0, bos_token_id=0,
    eos_token_id=0)), tokens(), forms="optimized static")
add("rwkv", decoder(hf.RwkvConfig(vocab_size=128, context_length=64, hidden_size=32, num_hidden_layers=2, attention_hidden_size=32, intermediate_size=48,
    bos_token_id=0, eos_token_id=0)), tokens(),
    forms="static")
add("recurrent-gemma", decoder(hf.RecurrentGemmaConfig(**dict(GATED, num_hidden_layers=3), lru_width=32, attention_window_size=8, conv1d_width=4)), tokens(),
    forms="static")
add("lfm2", decoder(hf.Lfm2Config(**GATED, layer_types=["conv", "full_attention"], conv_L_cache=3)), tokens(), forms="static")
add("jamba", decoder(hf.JambaConfig(**MIXED, attn_layer_period=2, attn_layer_offset=1, expert_layer_period=2, mamba_d_state=4, mamba_dt_rank=4,
    use_mamba_kernels=False)), tokens(), forms="static")


for kind, config in dict(gpt2=hf.GPT2Config(**SMALL), qwen2=hf.Qwen2Config(**GATED), mixtral=hf.MixtralConfig(**MIXED),
    opt=hf.OPTConfig(**dict(SMALL, pad_token_id=1), ffn_dim=48),
                         bloom=hf.BloomConfig(vocab_size=128, hidden_size=32, n_layer=2, n_head=4),
                         gemma2=hf.Gemma2Config(**GATED, head_dim=8, sliding_window=8)).items():
    add(f"{kind}-mask", decoder(config, ("input_ids", "attention_mask")), padded(), forms="old")  # without a mask the older exporter lacks an operator


def dropping():
    """GPT-2 in training mode, attention written out: the exporter writes the dropout of the fused one as if for inference."""
    return wrap(hf.AutoModelForCausalLM.from_config(hf.GPT2Config(**SMALL, attn_pdrop=0.2), attn_implementation="eager"), ("input_ids",), use_cache=False)


add("gpt2-dropout", dropping, tokens(), train=True, drops=7)


# transformers: encoders, and heads on them.

def headed(head, config, inputs=("input_ids", "attention_mask"), output="logits", **fixed):
    """head: of AutoModelFor..., or a class. The exporter fails on fused attention with a bias where the batch is dynamic."""
    model = head if isinstance(head, type) else getattr(hf, f"AutoModelFor{head}")
    how = dict(attn_implementation="eager") if config.model_type in EAGER else {}
    return lambda: wrap((model._from_config if isinstance(head, type) else model.from_config)(config, **how), inputs, output, **fixed)


def masked(name, config, forms="", inputs=("input_ids", "attention_mask"), data=None, **more):
    add(name, headed("MaskedLM", config, inputs), data or padded(), forms=forms, **more)


CLASSES = dict(num_labels=5)
EAGER = ("t5", "umt5", "beit", "swin", "sam_vision_model")
masked("bert", hf.BertConfig(**SMALL), ALL)
masked("roberta", hf.RobertaConfig(**dict(SMALL, pad_token_id=1)), "optimized static")
masked("distilbert", hf.DistilBertConfig(vocab_size=128, dim=32, hidden_dim=48, n_layers=2, n_heads=4, max_position_embeddings=64, pad_token_id=0),
    "optimized old")
masked("albert", hf.AlbertConfig(**SMALL, embedding_size=16), "optimized")
masked("electra", hf.ElectraConfig(**SMALL, embedding_size=16), "optimized")
masked("deberta", hf.DebertaConfig(**SMALL, relative_attention=True, pos_att_type=["c2p", "p2c"]), "static")
masked("deberta-v2", hf.DebertaV2Config(**SMALL, relative_attention=True, pos_att_type=["c2p", "p2c"], position_buckets=8, share_att_key=True,
    norm_rel_ebd="layer_norm", conv_kernel_size=3), "static")
masked("modernbert", hf.ModernBertConfig(**SMALL, local_attention=8, global_attn_every_n_layers=2, cls_token_id=0, sep_token_id=0), "optimized static")
masked("mobilebert", hf.MobileBertConfig(**SMALL, embedding_size=16, intra_bottleneck_size=16, true_hidden_size=16, num_feedforward_networks=2), "optimized")
masked("mpnet", hf.MPNetConfig(**dict(SMALL, pad_token_id=1)))
masked("squeezebert", hf.SqueezeBertConfig(**SMALL, embedding_size=32))
masked("roformer", hf.RoFormerConfig(**SMALL, embedding_size=32), "optimized")
masked("convbert", hf.ConvBertConfig(**SMALL, embedding_size=16, head_ratio=2, conv_kernel_size=5))
masked("funnel", hf.FunnelConfig(vocab_size=128, block_sizes=[1, 1], num_decoder_layers=1, d_model=32, n_head=4, d_head=8, d_inner=48), "static")
masked("longformer", hf.LongformerConfig(**dict(SMALL, pad_token_id=1), attention_window=8), "static")
masked("bigbird", hf.BigBirdConfig(**SMALL, attention_type="original_full"))
masked("nystromformer", hf.NystromformerConfig(**SMALL, num_landmarks=4, segment_means_seq_len=16, conv_kernel_size=5), "static", ("input_ids",), unmasked)
masked("fnet", hf.FNetConfig(**SMALL), inputs=("input_ids",), data=unmasked)
masked("rembert", hf.RemBertConfig(**SMALL, input_embedding_size=16, output_embedding_size=24))
masked("ibert", hf.IBertConfig(**dict(SMALL, pad_token_id=1)))
masked("esm", hf.EsmConfig(**dict(SMALL, pad_token_id=1), mask_token_id=2, position_embedding_type="rotary"))
masked("xlm", hf.XLMConfig(vocab_size=128, emb_dim=32, n_layers=2, n_heads=4, max_position_embeddings=64, pad_index=0, pad_token_id=0))
masked("reformer", hf.ReformerConfig(vocab_size=128, hidden_size=32, attention_head_size=8, num_attention_heads=4, attn_layers=["local", "local"],
    local_attn_chunk_length=4, feed_forward_size=48, is_decoder=False,
       axial_pos_shape=[4, 4], axial_pos_embds_dim=[16, 16], max_position_embeddings=16, pad_token_id=0,
       hidden_dropout_prob=0.0, local_attention_probs_dropout_prob=0.0), "static", train=True)
masked("perceiver", hf.PerceiverConfig(num_latents=6, d_latents=32, d_model=24, num_blocks=1, num_self_attends_per_block=2, num_self_attention_heads=4,
    num_cross_attention_heads=4, qk_channels=32, v_channels=32,
       vocab_size=128, max_position_embeddings=16), inputs=("inputs", "attention_mask"), data=lambda rng,
       rows: {("inputs" if k == "input_ids" else k): v for k, v in padded()(rng, rows).items()}, forms="static")
add("llama-classify", headed("SequenceClassification", hf.LlamaConfig(**GATED, **CLASSES)), padded(classes=5), "cross-entropy", forms="optimized static")
add("llama-classify-ids", headed("SequenceClassification", hf.LlamaConfig(**GATED, **CLASSES), ("input_ids",)), classified(), "cross-entropy", forms="old")
add("gpt2-classify", headed("SequenceClassification", hf.GPT2Config(**SMALL, **CLASSES)), padded(classes=5), "cross-entropy")
add("bert-classify", headed("SequenceClassification", hf.BertConfig(**SMALL, **CLASSES)), padded(classes=5), "cross-entropy", forms="optimized")
add("bert-loss", headed("SequenceClassification", hf.BertConfig(**SMALL, **CLASSES), ("input_ids", "attention_mask", "labels"), "loss"), padded(classes=5),
    "output:loss", forms="optimized")
add("bert-tags", headed("TokenClassification", hf.BertConfig(**SMALL, num_labels=128)), padded())
add("bert-answers", headed("QuestionAnswering", hf.BertConfig(**SMALL), ("input_ids", "attention_mask", "start_positions", "end_positions"), "loss"),
    lambda rng, rows: {**{k: v for k, v in padded()(rng, rows).items() if k != "labels"}, "start_positions": rng.integers(0, 8, rows),
    "end_positions": rng.integers(0, 8, rows)}, "output:loss", forms="static optimized")
add("llama-loss", headed("CausalLM", hf.LlamaConfig(**GATED), ("input_ids", "labels"), "loss", use_cache=False),
    lambda rng, rows: (lambda t: dict(input_ids=t, labels=ignored(rng, t)))(chain(rng, rows, 16)), "output:loss", forms="optimized old")


# transformers: encoder-decoders.

def stacks(config, inputs=("input_ids", "decoder_input_ids"), head="Seq2SeqLM"):
    return headed(head, config, inputs, use_cache=False)


T5 = dict(vocab_size=128, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_decoder_layers=2, num_heads=4, decoder_start_token_id=0, pad_token_id=0,
    eos_token_id=1)
add("t5", stacks(hf.T5Config(**T5)), pairs(), forms=ALL)
add("t5-gated", stacks(hf.T5Config(**T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False)), pairs())
add("umt5", stacks(hf.UMT5Config(**T5)), pairs())
add("longt5", stacks(hf.LongT5Config(**T5, local_radius=3, encoder_attention_type="local")), pairs(), forms="static")
add("switch", stacks(hf.SwitchTransformersConfig(**T5, num_experts=4, num_sparse_encoder_layers=1, num_sparse_decoder_layers=1, expert_capacity=64)), pairs())
add("bart", stacks(hf.BartConfig(**STACKS)), pairs(), forms="optimized static")
add("mbart", stacks(hf.MBartConfig(**STACKS)), pairs())
add("marian", stacks(hf.MarianConfig(**STACKS)), pairs(), forms="optimized")
add("pegasus", stacks(hf.PegasusConfig(**STACKS)), pairs())
add("m2m100", stacks(hf.M2M100Config(**dict(STACKS, pad_token_id=1))), pairs())
add("blenderbot", stacks(hf.BlenderbotConfig(**STACKS)), pairs())
add("prophetnet", stacks(hf.ProphetNetConfig(vocab_size=128, hidden_size=32, encoder_ffn_dim=48, decoder_ffn_dim=48, num_encoder_layers=2,
    num_decoder_layers=2, num_encoder_attention_heads=4,
    num_decoder_attention_heads=4, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, decoder_start_token_id=0, ngram=2)), pairs())


def spoken(rng, rows):
    t = chain(rng, rows, 17)
    return dict(input_features=rng.normal(size=(rows, 8, 32)).astype(np.float32), decoder_input_ids=t[:, :-1], labels=ignored(rng, t[:, 1:]))


add("whisper", stacks(hf.WhisperConfig(**dict(STACKS, max_position_embeddings=64), num_mel_bins=8, max_source_positions=16, max_target_positions=32),
    ("input_features", "decoder_input_ids"), "SpeechSeq2Seq"),
    spoken, forms="optimized static")
add("speech-to-text", stacks(hf.Speech2TextConfig(**dict(STACKS, pad_token_id=1), input_feat_per_channel=8, max_source_positions=64, max_target_positions=32,
    conv_channels=16), ("input_features", "decoder_input_ids"), "SpeechSeq2Seq"),
    lambda rng, rows: {k: v.transpose(0, 2, 1).copy() if k == "input_features" else v for k, v in spoken(rng, rows).items()}, forms="static")


# transformers: sound.

SOUND = dict(SMALL, conv_dim=(16, 16), conv_stride=(4, 2), conv_kernel=(8, 3), num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=4,
    num_feat_extract_layers=2, num_labels=8, mask_time_prob=0.0, layerdrop=0.0)


def sound(config):
    return headed("AudioFrameClassification", config, ("input_values",))


add("wav2vec2", sound(hf.Wav2Vec2Config(**SOUND)), frames((160,), 19), forms="optimized static")
add("wav2vec2-stable", sound(hf.Wav2Vec2Config(**SOUND, do_stable_layer_norm=True, feat_extract_norm="layer", conv_bias=True)), frames((160,), 19))
add("hubert", lambda: wrap(nn.Sequential(Taken(hf.HubertModel(hf.HubertConfig(**SOUND)), "last_hidden_state"), nn.Linear(32, 8)), ("input",), lambda y: y),
    frames((160,), 19, name="input"), forms="static")
add("wavlm", sound(hf.WavLMConfig(**SOUND, num_buckets=8, max_bucket_distance=16)), frames((160,), 19), forms="static")
add("data2vec-audio", sound(hf.Data2VecAudioConfig(**dict(SOUND, num_conv_pos_embeddings=2), conv_pos_kernel_size=5)), frames((160,), 19))
add("wav2vec2-conformer", sound(hf.Wav2Vec2ConformerConfig(**SOUND, position_embeddings_type="rotary", conv_depthwise_kernel_size=5)), frames((160,), 19),
    forms="static")
add("ast", headed("AudioClassification", hf.ASTConfig(**dict(PATCHES, patch_size=4), frequency_stride=4, time_stride=4, max_length=16, num_mel_bins=8),
    ("input_values",)), features((16, 8), name="input_values"), "cross-entropy")


class Taken(nn.Module):
    """A part of a model's output, for nn.Sequential."""

    def __init__(self, model, name):
        super().__init__()
        self.model, self.name = model, name

    def forward(self, x):
        return self.model(x)[self.name]


# transformers: pictures.

def seen(name, config, forms="", data=None, head="ImageClassification", **more):
    add(name, headed(head, config, ("pixel_values",)), data or pictures(), "cross-entropy", forms=forms, **more)


seen("vit", hf.ViTConfig(**PATCHES), ALL)
seen("deit", hf.DeiTConfig(**PATCHES), "optimized", head=hf.DeiTForImageClassification)
seen("beit", hf.BeitConfig(**PATCHES, use_relative_position_bias=True, layer_scale_init_value=0.1), "optimized")
seen("dinov2", hf.Dinov2Config(**PATCHES), "optimized")
seen("swin", hf.SwinConfig(image_size=16, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4, num_labels=5), "optimized static")
seen("swinv2", hf.Swinv2Config(image_size=16, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4, num_labels=5), "static")
seen("convnext", hf.ConvNextConfig(image_size=16, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], patch_size=2, num_labels=5, layer_scale_init_value=0.1),
    ALL)
seen("convnextv2", hf.ConvNextV2Config(image_size=16, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], patch_size=2, num_labels=5))
seen("resnet", hf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2], layer_type="basic", num_labels=5), ALL)
seen("resnet-bottleneck", hf.ResNetConfig(embedding_size=8, hidden_sizes=[16, 32], depths=[1, 2], num_labels=5))
seen("mobilenet-v1", hf.MobileNetV1Config(image_size=32, depth_multiplier=0.25, num_labels=5), data=pictures(32))
seen("mobilenet-v2", hf.MobileNetV2Config(image_size=32, depth_multiplier=0.25, num_labels=5), "optimized", pictures(32))
seen("efficientnet", hf.EfficientNetConfig(image_size=32, width_coefficient=0.25, depth_coefficient=0.3, hidden_dim=320, num_labels=5), "optimized",
    pictures(32))
seen("regnet", hf.RegNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], groups_width=8, num_labels=5))
seen("mobilevit", hf.MobileViTConfig(image_size=64, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 12, 16, 16, 16, 32], num_attention_heads=4,
    num_labels=5), "static", pictures(64))
seen("poolformer", hf.PoolFormerConfig(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_labels=5), data=pictures(32))
seen("pvt", hf.PvtConfig(image_size=32, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4], mlp_ratios=[2, 2, 2, 2],
    num_labels=5), data=pictures(32))
seen("pvt-v2", hf.PvtV2Config(image_size=32, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4], mlp_ratios=[2, 2, 2, 2],
    num_labels=5), data=pictures(32))
seen("focalnet", hf.FocalNetConfig(image_size=16, patch_size=2, embed_dim=16, hidden_sizes=[16, 32], depths=[1, 1], focal_levels=[2, 2], focal_windows=[3, 3],
    num_labels=5))
seen("hiera", hf.HieraConfig(image_size=[32, 32], patch_size=[3, 3], patch_stride=[2, 2], patch_padding=[1, 1], embed_dim=8, num_heads=[1, 1, 2],
    depths=[1, 1, 1], masked_unit_size=[4, 4], num_query_pool=2, query_stride=[2, 2],
     masked_unit_attention=[True, False, False], embed_dim_multiplier=2.0, num_labels=5), data=pictures(32))
seen("bit", hf.BitConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], num_groups=4, num_labels=5), data=pictures(32))
seen("imagegpt", hf.ImageGPTConfig(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=4, num_labels=5),
     data=lambda rng, rows: dict(input_ids=rng.integers(0, 64, (rows, 16)), labels=rng.integers(0, 5, rows)))
CASES["imagegpt"].build = headed("ImageClassification", hf.ImageGPTConfig(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=4, num_labels=5),
    ("input_ids",))
seen("videomae", hf.VideoMAEConfig(**PATCHES, num_frames=4, tubelet_size=2), data=features((4, 3, 16, 16), name="pixel_values"), head="VideoClassification")
seen("timesformer", hf.TimesformerConfig(**PATCHES, num_frames=4), data=features((4, 3, 16, 16), name="pixel_values"), head="VideoClassification")
seen("vivit", hf.VivitConfig(**PATCHES, num_frames=4, tubelet_size=[2, 4, 4]), data=features((4, 3, 16, 16), name="pixel_values"), head="VideoClassification")
add("dinov3", lambda: nn.Sequential(Taken(hf.DINOv3ViTModel(hf.DINOv3ViTConfig(**PATCHES, num_register_tokens=2)), "pooler_output"), nn.Linear(32, 5)),
    pictures(name="input"), "cross-entropy")
add("sam-encoder", lambda: Spread(hf.SamVisionModel(hf.SamVisionConfig(hidden_size=32, output_channels=16, num_hidden_layers=2, num_attention_heads=4,
    image_size=32, patch_size=4, window_size=3, global_attn_indexes=[1],
    mlp_dim=48)), 16), pictures(32, name="input"), "cross-entropy", forms="static")
add("depth-anything", lambda: wrap(hf.DepthAnythingForDepthEstimation(hf.DepthAnythingConfig(backbone_config=hf.Dinov2Config(**PATCHES,
    out_features=["stage1", "stage2", "stage2", "stage2"][:2], reshape_hidden_states=False),
    patch_size=4, reassemble_hidden_size=32, neck_hidden_sizes=[8, 16], reassemble_factors=[2, 1], fusion_hidden_size=8, head_hidden_size=8)),
    ("pixel_values",), "predicted_depth"), floats((3, 16, 16), (16, 16), "pixel_values"), "mse")


class Spread(nn.Module):
    """An encoder of pictures, its channels averaged over space, and a head."""

    def __init__(self, model, channels):
        super().__init__()
        self.model, self.head = model, nn.Linear(channels, 5)

    def forward(self, x):
        return self.head(self.model(x).last_hidden_state.mean((2, 3)))


class Segmenting(nn.Module):
    """A model of pixels and the loss of them all."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, pixel_values, labels):
        logits = self.model(pixel_values)
        logits = F.interpolate(getattr(logits, "logits", logits), size=labels.shape[-2:], mode="bilinear", align_corners=False)
        return F.cross_entropy(logits, labels)


SEGFORMER = dict(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=16, mlp_ratios=[2, 2, 2, 2],
    num_labels=5)
add("segformer", lambda: Segmenting(hf.SegformerForSemanticSegmentation(hf.SegformerConfig(**SEGFORMER))), segmented(), "output:loss", forms="optimized static")
add("mobilenet-v2-segment", lambda: Segmenting(hf.MobileNetV2ForSemanticSegmentation(hf.MobileNetV2Config(image_size=32, depth_multiplier=0.25,
    num_labels=5))), segmented(), "output:loss")


class Detecting(nn.Module):
    """A detector's heads on queries that are matched in order: matching itself is data's."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, pixel_values, boxes, labels):
        out = self.model(pixel_values)
        return F.cross_entropy(out.logits.transpose(1, 2), labels) + 5 * F.l1_loss(out.pred_boxes, boxes)


def boxed(rng, rows):
    return dict(pixel_values=rng.normal(size=(rows, 3, 32, 32)).astype(np.float32), boxes=rng.random((rows, 6, 4)).astype(np.float32),
        labels=rng.integers(0, 5, (rows, 6)))


DETR = dict(d_model=32, encoder_layers=1, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48,
    num_queries=6, num_labels=4)
BACKBONE = dict(use_timm_backbone=False, use_pretrained_backbone=False, backbone=None)
add("detr", lambda: Detecting(hf.DetrForObjectDetection(hf.DetrConfig(**DETR, **BACKBONE, backbone_config=hf.ResNetConfig(embedding_size=8,
    hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", out_features=["stage2"])))),
    boxed, "output:loss", forms="static", axes=dict(labels=(0,)))
add("deformable-detr", lambda: Detecting(hf.DeformableDetrForObjectDetection(hf.DeformableDetrConfig(**dict(DETR, num_labels=5), **BACKBONE, num_feature_levels=2,
    encoder_n_points=2, decoder_n_points=2, backbone_config=hf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic",
    out_features=["stage1", "stage2"])))),
    boxed, "output:loss", forms="static", axes=dict(labels=(0,)))
add("yolos", lambda: Detecting(hf.YolosForObjectDetection(hf.YolosConfig(**dict(PATCHES, image_size=[32, 32], num_labels=4), num_detection_tokens=6))), boxed,
    "output:loss", forms="static", axes=dict(labels=(0,)))


# transformers: two kinds of input.

TEXT = dict(vocab_size=128, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=16, bos_token_id=0,
    eos_token_id=1, pad_token_id=1)
LOOK = {k: v for k, v in PATCHES.items() if k != "num_labels"}


def captioned(mask=True):
    return lambda rng, rows: {"input_ids": np.concatenate([chain(rng, rows, 15, 127), np.full((rows, 1), 127)], 1),
        "pixel_values": rng.normal(size=(rows, 3, 16, 16)).astype(np.float32),
                              **(dict(attention_mask=np.ones((rows, 16), np.int64)) if mask else {})}


add("clip", lambda: wrap(hf.CLIPModel(hf.CLIPConfig(text_config=dict(TEXT, eos_token_id=127), vision_config=LOOK, projection_dim=16)),
    ("input_ids", "pixel_values", "attention_mask"), "loss", return_loss=True), captioned(),
    "output:loss", forms="optimized static")
add("clip-text", lambda: wrap(hf.CLIPTextModelWithProjection(hf.CLIPTextConfig(**dict(TEXT, eos_token_id=127), projection_dim=5)), ("input_ids",),
    "text_embeds"),
    lambda rng, rows: dict(input_ids=np.concatenate([chain(rng, rows, 15, 127), np.full((rows, 1), 127)], 1), labels=rng.integers(0, 5, rows)),
    "cross-entropy", forms="optimized old")
add("clip-vision", lambda: wrap(hf.CLIPVisionModelWithProjection(hf.CLIPVisionConfig(**LOOK, projection_dim=5)), ("pixel_values",), "image_embeds"),
    pictures(), "cross-entropy", forms="optimized")
add("siglip", lambda: wrap(hf.SiglipModel(hf.SiglipConfig(text_config=TEXT, vision_config=LOOK)), ("input_ids", "pixel_values"), "loss", return_loss=True),
    captioned(False), "output:loss", forms="optimized")
add("vilt", lambda: wrap(hf.ViltForQuestionAnswering(hf.ViltConfig(**dict(SMALL, max_position_embeddings=16), image_size=16, patch_size=4,
    max_image_length=-1, num_labels=5)), ("input_ids", "pixel_values")),
    lambda rng, rows: {**captioned(False)(rng, rows), "labels": rng.integers(0, 5, rows)}, "cross-entropy", forms="static")
add("layoutlm", headed("SequenceClassification", hf.LayoutLMConfig(**SMALL, max_2d_position_embeddings=64, num_labels=5), ("input_ids", "bbox")),
    lambda rng, rows: dict(input_ids=chain(rng, rows, 16), bbox=np.sort(rng.integers(0, 32, (rows, 16, 2, 2)), 2).reshape(rows, 16, 4),
    labels=rng.integers(0, 5, rows)), "cross-entropy", axes=dict(bbox=(0, 1)))


def llava():
    config = hf.LlavaConfig(text_config=hf.LlamaConfig(**GATED), vision_config=hf.CLIPVisionConfig(**LOOK), image_token_index=127, image_seq_length=16,
        vision_feature_layer=-1)
    return wrap(hf.LlavaForConditionalGeneration(config), ("input_ids", "pixel_values"), use_cache=False)


def illustrated(rng, rows):
    t = chain(rng, rows, 25, 127)
    ids = np.concatenate([t[:, :4], np.full((rows, 16), 127), t[:, 4:12]], 1)
    return dict(input_ids=ids, pixel_values=rng.normal(size=(rows, 3, 16, 16)).astype(np.float32),
        labels=np.where(np.arange(28)[None] >= 20, np.roll(t, -1, 1)[:, :1].repeat(28, 1), -100))


add("llava", llava, illustrated, forms="static", axes=dict(input_ids=(0,)))


def smolvlm():
    config = hf.SmolVLMConfig(text_config=dict(model_type="llama", **GATED), vision_config=dict(LOOK), scale_factor=2, image_token_id=127, pad_token_id=0)
    return wrap(hf.SmolVLMForConditionalGeneration(config), ("input_ids", "pixel_values"), use_cache=False)


def some_pictures(rng, rows):
    """Two places for pictures a row, of which some are empty: no tokens stand for those."""
    tokens, pictures = chain(rng, rows, 20, 127), rng.normal(size=(rows, 2, 3, 16, 16)).astype(np.float32)
    for row in range(rows):
        there = [(0, 1), (1,), (0,), (0, 1)][row % 4]
        pictures[row, [n for n in (0, 1) if n not in there]] = 0
        tokens[row, 2:2 + 4 * len(there)] = 127
    return dict(input_ids=tokens[:, :-1], pixel_values=pictures, labels=np.where(tokens[:, 1:] == 127, -100, tokens[:, 1:]))


# Exporters write the counts of each row's pictures down one by one, for as many rows as the example has.
add("smolvlm", smolvlm, some_pictures, forms="static", axes=dict(input_ids=(0,)))


# transformers: time series.

add("patchtst", lambda: wrap(hf.PatchTSTForPrediction(hf.PatchTSTConfig(num_input_channels=3, context_length=16, patch_length=4, patch_stride=4,
    prediction_length=4, d_model=16, num_attention_heads=4, num_hidden_layers=2,
    ffn_dim=24, loss="mse")), ("past_values",), "prediction_outputs"), floats((16, 3), (4, 3), "past_values"), "mse", forms="static")
add("patchtsmixer", lambda: wrap(hf.PatchTSMixerForPrediction(hf.PatchTSMixerConfig(num_input_channels=3, context_length=16, patch_length=4, patch_stride=4,
    prediction_length=4, d_model=16, num_layers=2, loss="mse")),
    ("past_values",), "prediction_outputs"), floats((16, 3), (4, 3), "past_values"), "mse")


# Of no library.

class Block(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(4, o), nn.SiLU(), nn.Conv2d(o, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())

    def forward(self, x):
        return self.body(x)


class UNet(nn.Module):
    """Three levels, skips joined, scaled up by transposed convolutions and by interpolation."""

    def __init__(self, out=5):
        super().__init__()
        self.a, self.b, self.c = Block(3, 8), Block(8, 16), Block(16, 24)
        self.up, self.d, self.e, self.out = nn.ConvTranspose2d(24, 16, 2, 2), Block(32, 16), Block(24, 8), nn.Conv2d(8, out, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.b(F.max_pool2d(a, 2))
        c = self.c(F.avg_pool2d(b, 2))
        d = self.d(torch.cat([self.up(c), b], 1))
        return self.out(self.e(torch.cat([F.interpolate(d, scale_factor=2, mode="nearest"), a], 1)))


class SegNet(nn.Module):
    """Poolings that say where the largest was, and unpoolings that put it back there."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.d, self.out = Block(3, 8), Block(8, 12), Block(12, 12), Block(12, 8), nn.Conv2d(8, 5, 1)

    def forward(self, x):
        a, at = F.max_pool2d(self.a(x), 2, return_indices=True)
        b, into = F.max_pool2d(self.b(a), (1, 2), return_indices=True)
        return self.out(F.max_unpool2d(self.d(F.max_unpool2d(self.c(b), into, (1, 2))), at, 2))


class Warped(nn.Module):
    """A spatial transformer: where to look follows from the picture, or volume; ways to look are mode, padding and whether corners are aligned."""

    def __init__(self, ways=(("bilinear", "zeros", False),), shape=(3, 16, 16), affine=True):
        super().__init__()
        rank = len(shape) - 1
        self.ways, self.shape, self.affine = ways, shape, affine
        self.a, self.where = (nn.Conv2d if rank == 2 else nn.Conv3d)(shape[0], 6, 3, padding=1), nn.Linear(math.prod(shape), rank * (rank + 1))
        self.b, self.c = nn.Linear(math.prod(shape[1:]), 4), nn.Linear(6 * len(ways) * 4, 5)
        self.register_buffer("identity", 1.1 * torch.eye(rank, rank + 1), persistent=False)
        if not affine:
            lines = torch.meshgrid(*(torch.linspace(-1, 1, n) for n in shape[1:]), indexing="ij")
            self.register_buffer("points", torch.stack([line.flatten() for line in reversed((torch.ones_like(lines[0]), *lines))]), persistent=False)

    def forward(self, x):
        theta = self.identity + 0.2 * torch.tanh(self.where(x.flatten(1))).view(-1, *self.identity.shape)
        features = torch.tanh(self.a(x))
        grid = F.affine_grid(theta, features.shape, False) if self.affine else (theta @ self.points).transpose(1, 2).reshape(-1, *self.shape[1:], len(self.identity))
        looks = [F.grid_sample(features, grid, mode, padding, corners) for mode, padding, corners in self.ways]
        return self.c(torch.tanh(self.b(torch.cat(looks, 1).flatten(2))).flatten(1))


WAYS = [(mode, padding, corners) for mode in ("bilinear", "bicubic", "nearest") for padding in ("zeros", "border", "reflection") for corners in (False, True)]


class Mixer(nn.Module):
    """MLP-Mixer on patches."""

    class Layer(nn.Module):
        def __init__(self, count, width):
            super().__init__()
            self.n, self.m = nn.LayerNorm(width), nn.LayerNorm(width)
            self.tokens, self.channels = (nn.Sequential(nn.Linear(w, 24), nn.GELU(), nn.Linear(24, w)) for w in (count, width))

        def forward(self, x):
            x = x + self.tokens(self.n(x).transpose(1, 2)).transpose(1, 2)
            return x + self.channels(self.m(x))

    def __init__(self):
        super().__init__()
        self.patch, self.layers, self.norm, self.head = nn.Conv2d(3, 32, 4, 4), nn.Sequential(*(Mixer.Layer(16,
            32) for _ in range(3))), nn.LayerNorm(32), nn.Linear(32, 5)

    def forward(self, x):
        return self.head(self.norm(self.layers(self.patch(x).flatten(2).transpose(1, 2))).mean(1))


class Quantizing(nn.Module):
    """A vector-quantized autoencoder: gradients go straight past the choice of a code, and codes and encoder follow each other."""

    def __init__(self):
        super().__init__()
        self.encode, self.decode, self.codes = nn.Linear(24, 16), nn.Linear(16, 24), nn.Embedding(12, 16)

    def forward(self, x):
        z, codes = self.encode(x), self.codes.weight
        q = self.codes((z.square().sum(-1, keepdim=True) - 2 * z @ codes.T + codes.square().sum(-1)).argmin(-1))
        follow = F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(z, q.detach())
        return F.mse_loss(self.decode(z + (q - z).detach()), x) + follow


class Branches(nn.Module):
    """Of two ways to compute, and of two within one, that which the data choose; the other one's numbers are none."""

    def __init__(self):
        super().__init__()
        self.one, self.two, self.out = nn.Linear(8, 16), nn.Linear(8, 16), nn.Linear(16, 5)

    def forward(self, x):
        def above(x):
            h = self.one(x)
            return torch.cond(h.mean() > 0.05, lambda h: h / torch.relu(h.mean() - 0.05) * 0.05, lambda h: h * 2, (h,))
        def below(x):
            return torch.sqrt(torch.relu(self.two(x)) - x.sum()) + torch.log(torch.relu(-x.sum()))
        return self.out(torch.cond(x.sum() > 0, above, below, (x,)))


class Rounding(nn.Module):
    """Weights of few bits, straight-through, as for quantization-aware training."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        few = lambda w: w + ((w * 16).round() / 16 - w).detach()
        return F.linear(F.gelu(F.linear(x, few(self.one.weight), self.one.bias)), few(self.two.weight), self.two.bias) + x - x.floor()


class Dead(nn.Module):
    """Deviations and norms of channels that do not vary, and entries that a mask puts to one value."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(8, 8), nn.Linear(32, 5)
        with torch.no_grad():
            self.one.bias[:3] = -100

    def forward(self, x):
        y = F.relu(self.one(x))
        z = self.one(x).clone()
        z[x > 0.5] = 0.25
        z[x.sum(-1) > 0] = self.one.bias
        return self.two(torch.cat([y.std(1), y.norm(dim=1), F.normalize(y, dim=1).mean(1), z.tanh().mean(1)], 1))


class Smoothed(nn.Module):
    """What stands in the exporter's notes alone: a loss with label smoothing, rows of padding of ids that are data and of ids that are known."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(32, 16, padding_idx=0), nn.Embedding(12, 16, padding_idx=0)
        self.mix, self.head = nn.Linear(16, 16), nn.Linear(16, 32)

    def forward(self, input_ids, labels):
        x = self.words(input_ids) + self.places(torch.arange(input_ids.shape[1]))
        logits = self.head(x + F.gelu(self.mix(x.cumsum(1) * 0.2)))
        return F.cross_entropy(logits.transpose(1, 2), labels, label_smoothing=0.1)


class Illustrated(nn.Module):
    """Features of a picture in place of some tokens."""

    def __init__(self):
        super().__init__()
        self.embed, self.picture, self.mix, self.head = nn.Embedding(32, 16), nn.Linear(6, 16), nn.Linear(16, 16), nn.Linear(16, 32)

    def forward(self, input_ids, image):
        x = self.embed(input_ids)
        x = x.masked_scatter((input_ids == 31)[..., None].expand_as(x), self.picture(image))
        return self.head(x + F.gelu(self.mix(x.cumsum(1) * 0.2)))


def placed(rng, rows):
    ids = chain(rng, rows, 12, 31)
    for row in ids:
        row[rng.permutation(12)[:3]] = 31
    return dict(input_ids=ids, image=rng.normal(size=(rows, 3, 6)).astype(np.float32), labels=np.where(ids == 31, -100, ids))


class Widths(nn.Module):
    """Blocks whose feed-forward widths differ."""

    def __init__(self, widths):
        super().__init__()
        linears = lambda *sizes: nn.ModuleList(nn.Linear(*s) for s in sizes)
        self.embed, self.head = nn.Embedding(128, 32), nn.Linear(32, 128)
        self.norms = nn.ModuleList(nn.LayerNorm(32) for _ in range(2 * len(widths)))
        self.qkv, self.out = linears(*[(32, 96)] * len(widths)), linears(*[(32, 32)] * len(widths))
        self.up, self.down = linears(*[(32, w) for w in widths]), linears(*[(w, 32) for w in widths])

    def forward(self, input_ids):
        x = self.embed(input_ids)
        for i, (qkv, out, up, down) in enumerate(zip(self.qkv, self.out, self.up, self.down)):
            q, k, v = (t.unflatten(-1, (4, 8)).transpose(1, 2) for t in qkv(self.norms[2 * i](x)).chunk(3, -1))
            x = x + out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
            x = x + down(F.gelu(up(self.norms[2 * i + 1](x))))
        return self.head(x)


class Placed(nn.Module):
    """Tokens of a picture, one before them, with a table of relative places; in windows of their own (attention of five dimensions) where `windows`."""

    def __init__(self, width, windows=0):
        super().__init__()
        self.width, self.windows, heads = width, windows, 2
        one = 0 if windows else 1
        y, x = (t.flatten() for t in torch.meshgrid(torch.arange(width), torch.arange(width), indexing="ij"))
        index = torch.full((width * width + one,) * 2, (2 * width - 1) ** 2)
        index[one:, one:] = (y[:, None] - y + width - 1) * (2 * width - 1) + x[:, None] - x + width - 1
        if one:
            index[0, 1:], index[1:, 0] = (2 * width - 1) ** 2 + 1, (2 * width - 1) ** 2 + 2
        self.register_buffer("relative", index)
        self.table = nn.Parameter(torch.randn((2 * width - 1) ** 2 + 3 * one, heads) / 2)
        self.first = nn.Parameter(torch.randn(1, 1, 16)) if one else None
        self.embed, self.qkv, self.out, self.head = nn.Linear(3, 16), nn.Linear(16, 48), nn.Linear(16, 16), nn.Linear(16, 5)

    def forward(self, x):
        x = self.embed(x.flatten(2).transpose(1, 2))
        if self.windows:
            x = x.unflatten(1, (self.windows, -1))
        else:
            x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1)
        q, k, v = (t.unflatten(-1, (2, 8)).transpose(-3, -2) for t in self.qkv(x).chunk(3, -1))
        bias = self.table[self.relative].permute(2, 0, 1)
        x = x + self.out((torch.softmax(q @ k.transpose(-2, -1) / 8**0.5 + bias, -1) @ v).transpose(-3, -2).flatten(-2))
        return self.head(x.flatten(1, -2).mean(1))


class Dilated(nn.Module):
    """Causal attention to every third of the last ten tokens."""

    def __init__(self):
        super().__init__()
        self.embed, self.qkv, self.out, self.head = nn.Embedding(128, 32), nn.Linear(32, 96), nn.Linear(32, 32), nn.Linear(32, 128)

    def forward(self, input_ids):
        x, place = self.embed(input_ids), torch.arange(input_ids.shape[1])
        distance = place[:, None] - place
        seen = (distance >= 0) & (distance < 10) & (distance % 3 == 0)
        q, k, v = (t.unflatten(-1, (4, 8)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return self.head(x + self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=seen).transpose(1, 2).flatten(2)))


class TCN(nn.Module):
    """Causal convolutions, each with twice the dilation of the one before, weights normalized."""

    def __init__(self, normed=False):
        super().__init__()
        wrapped = nn.utils.parametrizations.weight_norm if normed else lambda m: m
        self.embed, self.head = nn.Embedding(128, 24), nn.Linear(24, 128)
        self.layers = nn.ModuleList(wrapped(nn.Conv1d(24, 24, 3, dilation=2**i)) for i in range(3))

    def forward(self, x):
        x = self.embed(x).transpose(1, 2)
        for i, layer in enumerate(self.layers):
            x = x + torch.relu(layer(F.pad(x, (2 * 2**i, 0))))
        return self.head(x.transpose(1, 2))


class Recurrent(nn.Module):
    def __init__(self, kind, layers=2, **more):
        super().__init__()
        self.embed, self.layers = nn.Embedding(128, 24), kind(24, 24, num_layers=layers, batch_first=True, **more)
        self.head = nn.Linear(48 if more.get("bidirectional") else 24, 128)

    def forward(self, input_ids):
        return self.head(self.layers(self.embed(input_ids))[0])


class WithStates(nn.Module):
    """An LSTM that is given its first states, [layers, batch, width]."""

    def __init__(self, **more):
        super().__init__()
        self.embed, self.layers, self.head = nn.Embedding(128, 24), nn.LSTM(24, 24, 2, **more), nn.Linear(24, 128)

    def forward(self, input_ids, h0, c0):
        return self.head(self.layers(self.embed(input_ids), (h0, c0))[0])


class SequenceFirst(nn.Module):
    """PyTorch's encoder layers as they are by default: tokens and logits are [sequence, batch, ..]. A loss of its own takes labels that are so."""

    def __init__(self):
        super().__init__()
        self.embed, self.place, self.head = nn.Embedding(128, 24), nn.Parameter(0.1 * torch.randn(16, 1, 24)), nn.Linear(24, 128)
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(24, 4, 48, 0.0), 2, enable_nested_tensor=False)

    def forward(self, input_ids, labels=None):
        mask = torch.triu(torch.full((16, 16), -torch.inf), 1)
        logits = self.head(self.layers(self.embed(input_ids) + self.place, mask, is_causal=True))
        return logits if labels is None else F.cross_entropy(logits.flatten(0, 1), labels.flatten())


class Uncertain(nn.Module):
    """Two tasks, weighted by what they learn of their noise: the loss ends in two equal sums."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 5), nn.Linear(6, 5)
        self.p, self.q = nn.Parameter(torch.tensor(0.3)), nn.Parameter(torch.tensor(-0.2))

    def forward(self, x, labels):
        weighted = [torch.exp(-s) * F.mse_loss(task(x), labels) for task, s in ((self.first, self.p), (self.second, self.q))]
        return weighted[0] + weighted[1] + self.p + self.q


class Attending(nn.Module):
    """An LSTM whose last state looks back with nn.MultiheadAttention; one class a row."""

    def __init__(self):
        super().__init__()
        self.embed, self.lstm, self.look, self.head = nn.Embedding(128, 24), nn.LSTM(24, 24, batch_first=True), nn.MultiheadAttention(24, 4,
            batch_first=True), nn.Linear(24, 5)

    def forward(self, input_ids):
        y, (h, _) = self.lstm(self.embed(input_ids))
        return self.head(self.look(h.transpose(0, 1), y, y, need_weights=False)[0][:, 0])


class Plain(nn.Module):
    """PyTorch's own encoder layers."""

    def __init__(self, first):
        super().__init__()
        self.embed, self.place, self.head = nn.Embedding(128, 32), nn.Parameter(0.1 * torch.randn(1, 16, 32)), nn.Linear(32, 128)
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 48, 0.0, "gelu" if first else "relu", batch_first=True, norm_first=first), 2,
            enable_nested_tensor=False)

    def forward(self, input_ids):
        length = input_ids.shape[1]
        mask = torch.triu(torch.full((length, length), float("-inf"), dtype=self.place.dtype), 1)
        return self.head(self.layers(self.embed(input_ids) + self.place[:, :length], mask=mask, is_causal=True))


class VAE(nn.Module):
    """Noise, a reconstruction and a divergence; the loss is an output."""

    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 16)), nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 24))

    def forward(self, x):
        mean, log = self.down(x).chunk(2, -1)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * log)
        return ((self.up(z) - x) ** 2).sum(1).mean() - 0.1 * (1 + log - mean**2 - log.exp()).sum(1).mean()


class Denoiser(nn.Module):
    """A diffusion model's step: the noise of a noised picture, by its time, which is embedded in sines."""

    def __init__(self):
        super().__init__()
        self.time, self.net, self.mid = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 3)), UNet(3), nn.Conv2d(3, 3, 3, padding=1)
        self.register_buffer("alphas", torch.cumprod(1 - torch.linspace(1e-3, 0.1, 50), 0))

    def forward(self, image, noise, t):
        a = self.alphas[t].sqrt()[:, None, None, None]
        angle = t[:, None] * torch.exp(-math.log(1e3) * torch.arange(8, device=t.device) / 8)[None]
        emb = self.time(torch.cat([angle.sin(), angle.cos()], -1).to(image.dtype))
        x = a * image + (1 - a**2).sqrt() * noise
        return F.mse_loss(self.net(self.mid(x) + emb[:, :, None, None]), noise)


def noised(rng, rows):
    return dict(image=rng.normal(size=(rows, 3, 16, 16)).astype(np.float32), noise=rng.normal(size=(rows, 3, 16, 16)).astype(np.float32),
        t=rng.integers(0, 50, rows))


class Ranking(nn.Module):
    """A recommender: tables of users and things, bags of tags, crossed features; a binary label."""

    def __init__(self):
        super().__init__()
        self.user, self.thing, self.tags = nn.Embedding(50, 16), nn.Embedding(80, 16), nn.Embedding(30, 16)
        self.dense, self.top = nn.Sequential(nn.Linear(8, 16), nn.ReLU()), nn.Sequential(nn.Linear(16 + 6, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, user, thing, tags, dense, clicked):
        d = self.dense(dense)
        e = torch.stack([d, self.user(user), self.thing(thing), self.tags(tags).mean(1)], 1)
        crossed = (e @ e.transpose(1, 2))[:, [0, 0, 0, 1, 1, 2], [1, 2, 3, 2, 3, 3]]
        return F.binary_cross_entropy_with_logits(self.top(torch.cat([d, crossed], 1))[:, 0], clicked)


def visits(rng, rows):
    return dict(user=rng.integers(0, 50, rows), thing=rng.integers(0, 80, rows), tags=rng.integers(0, 30, (rows, 5)),
        dense=rng.normal(size=(rows, 8)).astype(np.float32),
                clicked=rng.integers(0, 2, rows).astype(np.float32))


class Graph(nn.Module):
    """Graph attention on dense adjacencies; a class for each node."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(i, 24) for i in (8, 24))
        self.source, self.sink = (nn.ParameterList(nn.Parameter(0.3 * torch.randn(24, 1)) for _ in range(2)) for _ in range(2))
        self.head = nn.Linear(24, 5)

    def forward(self, x, near):
        for layer, s, t in zip(self.layers, self.source, self.sink):
            h = layer(x)
            score = F.leaky_relu(h @ s + (h @ t).transpose(1, 2), 0.2).masked_fill(near == 0, float("-inf"))
            x = F.elu(score.softmax(-1) @ h)
        return self.head(x)


def graphs(rng, rows):
    near = (rng.random((rows, 10, 10)) < 0.3) | np.eye(10, dtype=bool)[None]
    return dict(x=rng.normal(size=(rows, 10, 8)).astype(np.float32), near=near.astype(np.float32), labels=ignored(rng, rng.integers(0, 5, (rows, 10))))


class Pair(nn.Module):
    """SimCLR: two views of a picture recognize each other in the batch."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 16, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
            nn.Linear(16, 16))

    def forward(self, one, two):
        z = F.normalize(torch.cat([self.body(one), self.body(two)]), dim=1)
        n = one.shape[0]
        scores = (z @ z.T / 0.5).masked_fill(torch.eye(2 * n, dtype=torch.bool), -1e9)
        return F.cross_entropy(scores, torch.cat([torch.arange(n) + n, torch.arange(n)]))


class BatchNormed(nn.Module):
    """Training-mode normalization over the batch, written out as users do where exporters fail."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.gain, self.head = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, 2, 1), nn.Parameter(torch.ones(8)), nn.Linear(8, 5)

    def forward(self, x):
        y = self.a(x)
        y = (y - y.mean((0, 2, 3), keepdim=True)) * torch.rsqrt(y.var((0, 2, 3), unbiased=False, keepdim=True) + 1e-5) * self.gain[:, None, None]
        return self.head(self.b(F.relu(y)).mean((2, 3)))


class Retention(nn.Module):
    """Linear attention: positive features, cumulative sums in place of scores."""

    def __init__(self):
        super().__init__()
        self.embed, self.qkv, self.out, self.head = nn.Embedding(128, 32), nn.Linear(32, 96), nn.Linear(32, 32), nn.Linear(32, 128)

    def forward(self, input_ids):
        x = self.embed(input_ids)
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        state, norm = torch.cumsum(k[..., None] * v[..., None, :], 1), torch.cumsum(k, 1)
        return self.head(x + self.out((q[..., None, :] @ state)[..., 0, :] / (q * norm).sum(-1, keepdim=True)))


class Field(nn.Module):
    """A neural field: sines of a point's coordinates, a skip half way, colours."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(27, 32), nn.Linear(59, 32), nn.Linear(32, 3)

    def forward(self, x):
        f = x[..., None] * (2.0 ** torch.arange(4, dtype=x.dtype))
        f = torch.cat([x, f.sin().flatten(-2), f.cos().flatten(-2)], -1)
        return torch.sigmoid(self.c(F.softplus(self.b(torch.cat([F.softplus(self.a(f)), f], -1)))))


ONE = lambda model: lambda: model()
add("dead", Dead, features((6, 8)), "cross-entropy", forms="static", perturb=False)
add("illustrated", Illustrated, placed, forms="static", axes=dict(input_ids=(0,)))
add("smoothed", Smoothed, lambda rng, rows: (lambda t: dict(input_ids=t * (t > 6), labels=ignored(rng, t)))(chain(rng, rows, 12, 32)), "output:loss",
    forms="static", axes=dict(input_ids=(0,), labels=(0,)))
add("quantizer", Quantizing, lambda rng, rows: dict(x=rng.normal(size=(rows, 24)).astype(np.float32)), "output:loss", forms="static")
add("branches", Branches, signs, "cross-entropy")
add("rounding", Rounding, floats((16,), (16,)), "mse", forms="static")
add("widths", lambda: Widths([48, 64] * 3), tokens())
add("placed", lambda: Placed(17), pictures(17, name="x"), "cross-entropy", forms="static")
add("placed-windows", lambda: Placed(4, windows=4), pictures(8, name="x"), "cross-entropy", forms="optimized static")
add("dilated", Dilated, tokens(), forms="static old")
add("unet", lambda: Segmenting(UNet()), segmented(16, 16), "output:loss", forms="optimized static")
add("unet-mse", lambda: UNet(3), floats((3, 16, 16), (3, 16, 16)), "mse", forms="old")
add("segnet", lambda: Segmenting(SegNet()), segmented(16, 16), "output:loss", forms="optimized static")
add("warped", Warped, pictures(name="x"), "cross-entropy", forms="optimized static")
add("warped-ways", lambda: Warped(WAYS, affine=False), pictures(name="x"), "cross-entropy", forms="optimized old")
add("warped-volume", lambda: Warped([w for w in WAYS if w[0] != "bicubic"], (2, 4, 6, 5)), features((2, 4, 6, 5)), "cross-entropy")
add("mixer", Mixer, pictures(name="x"), "cross-entropy", forms=ALL)
add("group-norms", lambda: nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(4, 8), nn.SiLU(), nn.Conv2d(8, 12, 3, 2, 1), nn.GroupNorm(2, 12),
    nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 5)),
    pictures(name="input"), "cross-entropy", forms=ALL)
add("instance-norms", lambda: nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.InstanceNorm2d(8), nn.SiLU(), nn.Conv2d(8, 12, 3, 2, 1),
    nn.InstanceNorm2d(12, affine=True), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 5)),
    pictures(name="input"), "cross-entropy", forms=ALL)
add("plain-norms", lambda: nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32, elementwise_affine=False), nn.GELU(), nn.Linear(32, 32),
    nn.RMSNorm(32, elementwise_affine=False), nn.GELU(), nn.Linear(32, 5)),
    features((16,), name="input"), "cross-entropy", forms=ALL)
add("batch-norms", lambda: nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8, affine=False), nn.PReLU(8), nn.Conv2d(8, 12, 3, 2, 1), nn.SiLU(),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 5)),
    pictures(name="input"), "cross-entropy", forms=ALL)
add("tcn", TCN, tokens(), forms="optimized")
add("tcn-normed", lambda: TCN(True), tokens(), forms="static")
add("lstm", lambda: Recurrent(nn.LSTM), tokens(), forms=ALL)
add("gru", lambda: Recurrent(nn.GRU, bidirectional=True), tokens(), forms="optimized old")
add("rnn", lambda: Recurrent(nn.RNN, nonlinearity="relu"), tokens(), forms="old")
add("lstm-attention", Attending, classified(), "cross-entropy", forms="optimized")
def with_states(rng, rows):
    data = tokens()(rng, rows)
    return dict(input_ids=data["input_ids"], h0=rng.normal(size=(rows, 2, 24)).astype(np.float32) * 0.3, c0=rng.normal(size=(rows, 2, 24)).astype(np.float32) * 0.3,
        labels=data["labels"])


# By symbols where they tell (the older exporter's names; states, whose layers are fixed), else by --batch-dim.
add("states", lambda: WithStates(batch_first=True), with_states, forms="old", axes=dict(h0=(1,), c0=(1,)), batch=dict(h0=1, c0=1))
add("states-first", WithStates, with_states, forms="static", axes=dict(input_ids=(0, 1), h0=(1,), c0=(1,)), batch=dict(input_ids=1, h0=1, c0=1, logits=1),
    mtc="--batch-dim 1")
add("sequence-first", SequenceFirst, tokens(), forms="old static", axes=dict(input_ids=(1,)), batch=dict(input_ids=1, logits=1), mtc="--batch-dim input_ids=1")
add("sequence-first-loss", SequenceFirst, tokens(), "output:loss", forms="static", axes=dict(input_ids=(1,), labels=(1,)),
    batch=dict(input_ids=1, labels=1), mtc="--batch-dim 1")
add("uncertain", Uncertain, floats((6,), (5,)), "output:loss")  # other exports compute exp(-p) once, and it is a number then
add("encoder-layers", lambda: Plain(True), tokens(), forms="optimized static")
add("encoder-layers-post", lambda: Plain(False), tokens(), forms="old")
add("vae", VAE, lambda rng, rows: dict(x=rng.normal(size=(rows, 24)).astype(np.float32) * 0.3 + 1), "output:loss", noise=True, forms="optimized", lr=0.005)
add("denoiser", Denoiser, noised, "output:loss", forms="optimized")
add("ranking", Ranking, visits, "output:loss", forms="optimized", axes=dict(tags=(0,)))
add("graph", Graph, graphs, forms="static")
add("simclr", Pair, lambda rng, rows: {n: rng.normal(size=(rows, 3, 16, 16)).astype(np.float32) for n in ("one", "two")}, "output:loss", forms="static")
add("batch-statistics", BatchNormed, pictures(name="x"), "cross-entropy")
add("linear-attention", Retention, tokens(), forms="optimized")
add("field", Field, floats((3,), (3,)), "mse", forms="old")

# Experts as loops over their rows, as textbooks and earlier libraries write them; other uses of what a mask selects.

class Gated(nn.Module):
    def __init__(self, width=32, inner=24):
        super().__init__()
        self.w1, self.w2, self.w3 = nn.Linear(width, inner, bias=False), nn.Linear(inner, width, bias=False), nn.Linear(width, inner, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Biased(nn.Sequential):
    def __init__(self, width=32, inner=24):
        super().__init__(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))


class Sloped(nn.Module):
    """Two vectors of one length, which one expert ties to each other."""

    def __init__(self, width=32):
        super().__init__()
        self.up, self.down = nn.Parameter(torch.randn(width)), nn.Parameter(torch.randn(width))
        self.turn = nn.Linear(width, width)

    def forward(self, x):
        return self.turn(torch.where(x > 0, self.up, self.down) * x)


class Loop(nn.Module):
    """Experts, each for the rows that chose it; `way` says how these are found and put back."""

    def __init__(self, way, expert=Gated, experts=4, chosen=2):
        super().__init__()
        self.way, self.chosen = way, chosen
        self.gate = nn.Linear(32, experts, bias=False)
        self.experts = nn.ModuleList(expert() for _ in range(experts))
        if expert is Sloped:
            self.experts[0].down = self.experts[0].up

    def forward(self, x):
        rows = x.view(-1, x.shape[-1])
        weights, chosen = torch.topk(F.softmax(self.gate(rows), -1), self.chosen, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        return getattr(self, self.way)(rows, weights, chosen).view(x.shape)

    def where(self, rows, weights, chosen):
        out = torch.zeros_like(rows)
        for i, expert in enumerate(self.experts):
            row, place = torch.where(chosen == i)
            out[row] += weights[row, place, None] * expert(rows[row])
        return out

    def one_hot(self, rows, weights, chosen):
        out = torch.zeros_like(rows)
        masks = F.one_hot(chosen, num_classes=len(self.experts)).permute(2, 1, 0)
        for i, expert in enumerate(self.experts):
            place, row = torch.where(masks[i])
            own = rows[None, row].reshape(-1, rows.shape[-1])
            out.index_add_(0, row, expert(own) * weights[row, place, None])
        return out

    def repeated(self, rows, weights, chosen):
        flat, rows = chosen.view(-1), rows.repeat_interleave(self.chosen, dim=0)
        out = torch.empty_like(rows)
        for i, expert in enumerate(self.experts):
            out[flat == i] = expert(rows[flat == i])
        return (out.view(*weights.shape, -1) * weights.unsqueeze(-1)).sum(dim=1)

    def sorted(self, rows, weights, chosen):
        order = chosen.flatten().sort(0)[1]
        row = order.div(self.chosen, rounding_mode="trunc")
        parts = rows[row].split(F.one_hot(chosen.flatten(), len(self.experts)).sum(0).tolist(), dim=0)
        done = torch.cat([expert(part) for expert, part in zip(self.experts, parts)], dim=0)
        return torch.zeros_like(rows).index_add(0, row, done * weights.flatten()[order][:, None])

    def some(self, rows, weights, chosen):
        gone = torch.arange(rows.shape[0]) % 5 == 0
        chosen, rows = torch.where(gone, -1, chosen[:, 0]), torch.where(gone[:, None], torch.nan, rows)
        out = torch.zeros_like(rows)
        for i, expert in enumerate(self.experts):
            out[chosen == i] = expert(rows[chosen == i]) * weights[chosen == i, :1]
        return out

    def turned(self, rows, weights, chosen):
        turn, out = lambda r: r.reshape(-1, 4, 8).transpose(1, 2).reshape(-1, 32), rows.clone()
        for i, expert in enumerate(self.experts):
            own, = torch.where(chosen[:, 0] == i)
            out[own] = turn(out[own] + expert(rows[own]))
        for i, expert in enumerate(self.experts):
            own, = torch.where(chosen[:, 1] == i)
            out[own] = turn(out)[own] + expert(rows[own])
        return out * weights[:, :1]

    def summed(self, rows, weights, chosen):  # from less than the rows, and norms of rows that none takes are zero
        out, kind = weights[0], torch.arange(rows.shape[0]) % 4
        out, rows = out[:1], rows * (kind > 0)[:, None]
        for i, expert in enumerate(self.experts[:3]):
            put = torch.zeros_like(rows)
            own = rows[kind == i + 1]
            put[kind == i + 1] = expert(own / own.pow(2).sum(-1, keepdim=True).sqrt())
            out = out + put
        return out

    def whichever(self, rows, weights, chosen):
        shares, out = torch.zeros(rows.shape[0], len(self.experts)).to(rows).scatter(-1, chosen, weights), torch.zeros_like(rows)
        for i, expert in enumerate(self.experts):
            own = (chosen == i).any(dim=-1)
            out = out.index_add(0, own.nonzero().squeeze(-1), expert(rows[own]) * shares[own, i].unsqueeze(1))
        return out


class Stacked(nn.Module):
    """A small language model of such layers."""

    def __init__(self, layer, depth=2):
        super().__init__()
        self.words, self.head = nn.Embedding(128, 32), nn.Linear(32, 128)
        self.norms, self.layers = nn.ModuleList(nn.LayerNorm(32) for _ in range(depth)), nn.ModuleList(layer() for _ in range(depth))

    def forward(self, input_ids):
        x = self.words(input_ids)
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x))
        return self.head(x)


class OneHead(nn.Module):
    """Attention of one head, its scores capped, and parts of the width that weigh each other: where there is one row, dimensions of one are
    turned about, and none of them is the batch for sure."""

    def __init__(self):
        super().__init__()
        self.queries, self.keys, self.values = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 32)
        self.parts = nn.Parameter(0.3 * torch.randn(4, 8, 32))

    def forward(self, x):
        rows, length, _ = x.shape
        q, k, v = (layer(x).view(rows, length, 1, 32).transpose(1, 2) for layer in (self.queries, self.keys, self.values))
        scores = 2 * torch.tanh(q @ k.transpose(-1, -2) / 12)
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(rows, length, 32)
        parts = torch.einsum("bshd,hde->bshe", x.view(rows, length, 4, 8), self.parts)
        return mixed + torch.einsum("bshe,bsh->bse", parts, parts.mean(3).softmax(-1))


class Kinds(nn.Module):
    """Tokens of two kinds, each with layers of its own."""

    def __init__(self):
        super().__init__()
        self.words, self.norm, self.head = nn.Embedding(128, 32), nn.LayerNorm(32), nn.Linear(32, 128)
        self.one, self.other, self.turn = nn.Linear(32, 64), Gated(), nn.Linear(48, 32)

    def forward(self, input_ids):
        x, kind = self.words(input_ids), input_ids % 3 == 0
        a, b = self.one(self.norm(x[kind])).chunk(2, -1)
        mixed = torch.cat([F.softmax(a, -1) * b, a[:, :16].reshape(-1, 4, 4).transpose(1, 2).reshape(-1, 16)], -1)
        out = torch.empty_like(x)
        out[kind] = self.turn(mixed)
        out[~kind] = self.other(x[~kind])
        return self.head(x + out)


class Sums(nn.Module):
    """Sums, means and extremes of what masks select, nothing among it, and how much it is."""

    def __init__(self):
        super().__init__()
        self.words, self.inner, self.head = nn.Embedding(128, 32), Gated(), nn.Linear(32, 128)

    def forward(self, input_ids, labels):
        x = self.words(input_ids)
        x, kept = x + self.inner(x), labels > 20
        nll = -F.log_softmax(self.head(x), -1)[kept].gather(1, labels[kept][:, None])
        none, large = x[input_ids > 200], x[x > 0.1]
        total = nll.sum() / nll.shape[0] + none.sum() / (input_ids > 200).sum().clamp(min=1) + 0.1 * large.log().mean()
        total = total + x[kept].pow(2).mean() + 0.01 * (x[kept].amax(0) - x[kept].amin(0)).mean() + x[kept].std(0).mean()
        return total + 0.1 * (x[kept].sum(0) / kept.sum()).square().sum()


class Missing(nn.Module):
    """Rows of which some hold no number and have no label: neither may be seen."""

    def __init__(self):
        super().__init__()
        self.inner, self.centres, self.scale = nn.Linear(8, 6), nn.Parameter(torch.randn(5, 6)), nn.Parameter(torch.randn(8))

    def forward(self, x, labels):
        known = ~torch.isnan(x).any(-1)
        rows = torch.tanh(self.inner(x[known] * self.scale))
        near = (rows - self.centres[labels[known]]).square().mean()
        shares = F.softmax(torch.where(torch.isnan(x), -torch.inf, x)[known], -1)
        return near + torch.atanh(0.9 * rows).mean() + torch.acos(0.9 * rows).mean() + (shares @ self.scale).mean()


def missing(rng, rows):
    x, labels = rng.normal(size=(rows, 6, 8)).astype(np.float32), rng.integers(0, 5, (rows, 6))
    gone = rng.random((rows, 6)) < 0.3
    return dict(x=np.where(gone[..., None], np.nan, x).astype(np.float32), labels=np.where(gone, -100, labels))


class Puts(nn.Module):
    """What masks select, put back by every way PyTorch has, also to places that are looked up."""

    def __init__(self):
        super().__init__()
        self.words, self.inner, self.head = nn.Embedding(128, 32), nn.Linear(32, 32), nn.Linear(32, 128)

    def forward(self, input_ids):
        x, ids = self.words(input_ids), input_ids.reshape(-1)
        rows, odd, high = x.reshape(-1, 32), (ids % 2 == 1).nonzero().squeeze(1), torch.where(ids > 64)[0]
        rows = rows.index_copy(0, odd, torch.tanh(self.inner(rows.index_select(0, odd))))
        rows = rows.index_add(0, odd, rows[odd] * 0.5, alpha=2.0)
        rows = rows.scatter(0, high[:, None].expand(-1, 32), self.inner(rows[high]) + rows[high].mean(-1, keepdim=True))
        back = torch.arange(64).flip(0)
        rows = torch.index_put(rows, (back[high],), self.inner(rows[high]) * 0.5)
        most = torch.zeros_like(rows).scatter_reduce(0, (back // 2)[odd][:, None].expand(-1, 32), torch.tanh(rows[odd]), "amax", include_self=True)
        x = (rows + most).reshape(x.shape)
        x = x.masked_scatter(x > 0, torch.relu(x[x > 0]) * 0.5)
        return self.head(x)


class Counted(nn.Module):
    """Rows that a mask selects, by their numbers: with a position of each, of each its own largest; in runs, one for each row of the batch, each
    taken otherwise; and put where another mask holds, at fewer places."""

    def __init__(self):
        super().__init__()
        self.first, self.other, self.place, self.head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Embedding(64, 8), nn.Linear(8, 5)

    def forward(self, x, which):
        kept = which > 0
        y = self.first(x)[kept]
        numbers = torch.arange(y.shape[0])
        y = (y + self.place(numbers)) * y[numbers, y.detach().argmax(1)][:, None]
        runs = torch.split(y, kept.sum(1).tolist())
        y = torch.cat([self.other(run) * (i + 1) for i, run in enumerate(runs)])
        return self.head(self.first(x).masked_scatter((which.flip(1) > 1)[..., None].expand_as(x), y).tanh().mean(1))


def counted(rng, rows):
    return {**features((5, 8))(rng, rows), "which": rng.integers(0, 3, (rows, 5))}


class Nearest(nn.Module):
    """Lines resized to the nearest element, where fractions of 32 bits say which that is."""

    def __init__(self):
        super().__init__()
        self.inner, self.head = nn.Conv1d(2, 3, 1), nn.Linear(74, 5)

    def forward(self, x):
        h = self.inner(x)
        lines = [F.interpolate(h, scale_factor=factor, mode="nearest") for factor in (1 / 3, 0.6, 1.2, 2)] + [F.interpolate(h, size=18, mode="nearest")]
        return self.head(torch.cat(lines, -1).tanh()).mean(1)


class Means(nn.Module):
    """Means of what is scattered, which the exporter has no word for; and what a mask of all dimensions selects, put back."""

    def __init__(self):
        super().__init__()
        self.inner, self.head = nn.Linear(8, 8), nn.Linear(8, 5)

    def forward(self, x, which):
        h = self.inner(x)
        means = torch.zeros_like(h).scatter_reduce(1, which, h, "mean", include_self=False) + h.scatter_reduce(1, which, h.sin(), "mean")
        put, positive = h.clone(), h > 0.1
        put[positive] = h[positive].sqrt()
        put[~positive] *= 2
        return self.head(means + put)


class Kinks(nn.Module):
    """What is clipped and what has a corner, a parameter at the bounds and corners among it; equal elements of which one is the largest; and
    a constant that the code computes."""

    def __init__(self):
        super().__init__()
        self.inner, self.head = nn.Linear(8, 24), nn.Linear(24, 5)
        self.place = nn.Parameter(torch.tensor([0.0, 1.0, -1.0, 0.5, 6.0, -3.0, 3.0, 2.0] * 3))

    def forward(self, x):
        h = self.inner(x) * torch.hann_window(24, periodic=False)
        g = h * 0 + self.place
        clips = h + g.clamp(0, 1) * h + F.relu6(g) * h.sin() + F.hardtanh(g) * h.cos() + g.clamp_min(0.5) * h.tanh() + g.clamp_max(2) * h
        corners = F.hardsigmoid(g) * h + F.hardswish(g) * h.sin() + F.elu(g, 1.5) * h.cos() + F.celu(g, 0.5) * h + F.selu(g) * h.tanh()
        thrice = g.view(-1, 3, 8)  # of which each is equal to the others
        extremes = thrice.max(1).values + thrice.min(1).values.sin() * thrice.amax(1) + thrice.max(2, keepdim=True).values[:, 0]
        return self.head(clips + corners + extremes.repeat(1, 3) * h)


class Frequencies(nn.Module):
    """Rows that are trained the less the more often they are looked up."""

    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(6, 16, padding_idx=2, scale_grad_by_freq=True), nn.Linear(16, 5)

    def forward(self, x):
        return self.head(self.table((3 * x.sigmoid() + 2 * (x > 0)).long()).sin().mean(1))


class Detached(nn.Module):
    """Values that are detached before each kind of call: a ratio that is one, a code in a straight line, a target, a weight."""

    def __init__(self):
        super().__init__()
        self.inner, self.other, self.head = nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 5)
        self.book = nn.Parameter(torch.randn(6, 16))

    def forward(self, x, labels):
        z = self.inner(x)
        q = F.embedding((z @ self.book.T).argmax(1), self.book)
        loss = F.mse_loss(q, z.detach()) + F.cross_entropy(self.head(z + (q - z).detach()), labels)
        loss = loss - F.cosine_similarity(self.other(z), z.detach().sin(), dim=-1).mean() - ((z - z.detach()).exp() * x[:, :1]).mean()
        mixed = torch.where(z > 0, z.detach(), self.other(z)) + torch.cat([z.detach(), self.other(z)], 1)[:, 8:24].tanh()
        return loss + (mixed * F.layer_norm(z.detach() + 0.5, (16,))).mean() + F.linear(z.cos(), self.other.weight.detach(), self.other.bias).square().mean()


class Losses(nn.Module):
    """Losses of logits that are zero, and so large that a sigmoid of them is 0 or 1."""

    def __init__(self):
        super().__init__()
        self.head, self.flat = nn.Linear(8, 7), nn.Parameter(torch.zeros(1))

    def forward(self, x, t):
        z = torch.cat([self.head(x) * torch.tensor([1.0, 1.0, 3.0, 30.0, 300.0, 1000.0, -1000.0]), self.flat.expand(x.shape[0], 1)], 1)
        loss = F.binary_cross_entropy_with_logits(z, t) + F.binary_cross_entropy(z[:, 3:].sigmoid(), t[:, 3:]) - F.logsigmoid(0.3 * z).mean()
        loss = loss + torch.logaddexp(z, z.flip(1)).mean() + F.multilabel_soft_margin_loss(z, t) + F.softplus(z, beta=2).mean() + torch.sinc(0.1 * z).mean()
        return 0.01 * (loss + torch.log(1 - torch.sigmoid(z[:, :4])).square().mean() + F.smooth_l1_loss(z, t) + F.huber_loss(z, t) + F.l1_loss(z, t))


class Chosen(nn.Module):
    """Sequences that a mask chooses go through an encoder, whose attention puts time before them; through convolutions; into a mean too; or through
    attention that hides all of those that are not chosen."""

    def __init__(self, kind):
        super().__init__()
        self.kind, self.words, self.head = kind, nn.Embedding(128, 32), nn.Linear(32, 128)
        if kind == "lines":
            self.lines = nn.Sequential(nn.Conv1d(32, 32, 3, padding=1), nn.GELU(), nn.GroupNorm(4, 32), nn.BatchNorm1d(32), nn.Conv1d(32, 32, 3, padding=1))
        elif kind == "hidden":
            self.parts = nn.Linear(32, 96)
        else:
            self.encoder = nn.TransformerEncoderLayer(32, 4, 48, batch_first=True, dropout=0.0)

    def forward(self, input_ids, chosen):
        x, mask = self.words(input_ids), chosen > 0
        if self.kind == "lines":
            some = self.lines(x[mask].transpose(1, 2)).transpose(1, 2)
        elif self.kind == "hidden":
            q, k, v = self.parts(x[mask]).chunk(3, -1)
            some = torch.softmax(torch.tanh(q @ k.transpose(1, 2)).masked_fill((input_ids[mask] % 2 == 0)[:, None], -torch.inf), -1) @ v
        else:
            some = self.encoder(x[mask])
        y = torch.index_put(x, (mask,), some)
        return self.head(y if self.kind != "pooled" else y + torch.tanh(some.transpose(0, 1).reshape(-1, 32)).mean(0))


def chosen(rng, rows):
    which = rng.random(rows) < 0.6
    which[::4] = True  # the mean of none is no number
    return {**tokens()(rng, rows), "chosen": which.astype(np.int64)}


for name, layer in (("where", lambda: Loop("where")), ("one-hot", lambda: Loop("one_hot")), ("repeated", lambda: Loop("repeated")),
                    ("some", lambda: Loop("some")), ("turned", lambda: Loop("turned")), ("summed", lambda: Loop("summed")), ("whichever", lambda: Loop("whichever")), ("where-biased", lambda: Loop("where", Biased)), ("where-tied", lambda: Loop("where", Sloped)),
                    ("repeated-one", lambda: Loop("repeated", chosen=1))):
    add("experts-" + name, lambda layer=layer: Stacked(layer), tokens(), forms="static old")
add("experts-sorted", lambda: Stacked(lambda: Loop("sorted")), tokens(), forms="static")
add("one-head", lambda: Stacked(OneHead), tokens(), forms="static single")
add("selected-missing", Missing, missing, "output:loss", forms="static", axes=dict(labels=(0,)))
add("selected-kinds", Kinds, tokens(), forms="static old")
add("selected-sums", Sums, tokens(), "output:loss", forms="static old")
add("selected-puts", Puts, tokens(), forms="static")
add("selected-counted", Counted, counted, "cross-entropy", forms="optimized static new")
add("nearest", Nearest, features((2, 14)), "cross-entropy", forms="optimized static new old")
add("scattered-means", Means, lambda rng, rows: {**features((8,))(rng, rows), "which": rng.integers(0, 8, (rows, 8))}, "cross-entropy",
    forms="optimized static new", axes=dict(which=(0,)))
add("kinks", Kinks, features((8,)), "cross-entropy", forms="new", lr=0.005, perturb=False)
add("frequencies", Frequencies, features((8,)), "cross-entropy", forms="new", lr=0.01)
add("detached", Detached, features((8,)), "output:loss", forms="optimized static new", lr=0.01)
add("losses", Losses, lambda rng, rows: dict(x=rng.normal(size=(rows, 8)).astype(np.float32), t=rng.integers(0, 2, (rows, 8)).astype(np.float32)), "output:loss",
    forms="optimized new", lr=0.001, perturb=False)
for name in ("encoder", "lines", "pooled", "hidden"):
    add("selected-" + name, lambda name=name: Chosen(name), chosen, forms="optimized static new old", axes=dict(input_ids=(0,), chosen=(0,)))

for name in ("llama", "llama-mask", "gpt2", "bert", "t5", "vit", "gemma2", "mixtral", "gpt-oss", "whisper", "clip", "lstm", "group-norms", "wav2vec2",
    "deberta-v2", "mamba2", "modernbert", "swin", "cohere", "phi", "bart", "qwen3", "plain-norms", "encoder-layers"):
    CASES[name].forms += " new"

KNOWN = {
    # What exporters (or the model itself) say; by name.
    **{n: "complex rotary angles" for n in ("llama4",)},
    **{n: "attention of a dynamic batch cannot be laid out" for n in ("doge",)},
    **{n: "a condition on data" for n in ("longformer", "longformer-static", "vilt", "vilt-static")},
    **{n: "ignore_index from a shape" for n in ("bert-answers", "bert-answers-optimized")},
    **{n: "torch.export fails inside the model" for n in ("longt5", "longt5-static", "switch", "nystromformer", "nystromformer-static")},
    **{n: "scaled_dot_product_attention with enable_gqa" for n in ("llama-classify-ids-old",)},
    **{n: "aten::diff" for n in ("llama-loss-old",)},
    **{n: "index_copy and index_add of a number of rows that data say" for n in ("selected-puts",)},
    **{n: "aten::rms_norm" for n in ("plain-norms-old",)},
}
