"""What ONNX Runtime's fused operators (domain com.microsoft) compute, in numpy: references of conformance_cases.py.

Each function takes the operator's inputs in order, None where one is left out, and its attributes, and gives the first output
(https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md).
"""
import math

import numpy as np


def standard(operator, inputs, attributes):
    """What the standard's operator computes."""
    import onnx
    from onnx.reference import ReferenceEvaluator
    names = [f"x{i}" for i in range(len(inputs))]
    node = onnx.helper.make_node(operator, names, ["y"], **attributes)
    value = lambda n, a: onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
    graph = onnx.helper.make_graph([node], operator, list(map(value, names, inputs)), [onnx.helper.make_tensor_value_info("y", 1, None)])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 22)])
    return ReferenceEvaluator(model).run(None, dict(zip(names, inputs)))[0]


def gather_quantized(data, ids, scales, zeros=None, bits=4, block_size=128, gather_axis=0, quantize_axis=1):
    """GatherBlockQuantized: from numbers of `bits` bits that lie in bytes, the lowest bits first."""
    def unpacked(values, most):
        parts = np.stack([values >> shift & (1 << bits) - 1 for shift in range(0, 8, bits)], -1)
        return parts.reshape(*values.shape[:-1], -1)[..., :most].astype(np.float32)
    spread = lambda values: np.repeat(values, block_size, -1)
    zeros = unpacked(zeros, scales.shape[-1]) if zeros is not None else np.full(scales.shape, 1 << bits - 1, np.float32)
    count = data.shape[-1] * 8 // bits
    return np.take((unpacked(data, count) - spread(zeros)[..., :count]) * spread(scales)[..., :count], ids, gather_axis)


def attend(q, k, v, mask, bias, causal, scale):
    """Of [B, S, heads, D]; merged."""
    scores = np.einsum("bqhd,bkhd->bhqk", q, k) * (scale or 1 / math.sqrt(q.shape[-1]))
    batch, places = len(q), np.arange(k.shape[1])
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        if mask.shape == (batch,):
            seen = (places < mask[:, None])[:, None]
        elif mask.shape == (2 * batch,):
            seen = ((places < mask[:batch, None]) & (places >= mask[batch:, None]))[:, None]
        else:
            seen = (mask > 0).reshape(batch, -1, k.shape[1])
        scores = np.where(seen[:, None], scores, -np.inf)
    if causal:
        scores = np.where(places <= np.arange(q.shape[1])[:, None], scores, -np.inf)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    result = np.einsum("bhqk,bkhd->bqhd", shares, v)
    return result.reshape(*result.shape[:2], -1).astype(np.float32)


def split_heads(x, heads):
    return x.reshape(*x.shape[:2], heads, -1)


def attention(x, weights, bias=None, mask=None, past=None, added=None, num_heads=1, unidirectional=0, scale=0.0, qkv_hidden_sizes=None):
    product = x @ weights + (0 if bias is None else bias)
    q, k, v = np.split(product, np.cumsum(qkv_hidden_sizes)[:2] if qkv_hidden_sizes else 3, -1)
    return attend(*(split_heads(p, num_heads) for p in (q, k, v)), mask, added, unidirectional, scale)


def multi_head_attention(q, k=None, v=None, bias=None, mask=None, added=None, num_heads=1, unidirectional=0, scale=0.0):
    if k is None:
        q, k, v = (q[:, :, :, i] for i in range(3))
    elif v is None:
        q, (k, v) = split_heads(q, num_heads), (k[:, :, :, i] for i in range(2))
    else:
        parts = (0, 0, 0) if bias is None else np.split(bias, [q.shape[-1], 2 * q.shape[-1]])
        q, k, v = (split_heads(x + b, num_heads) for x, b in zip((q, k, v), parts))
    return attend(q, k, v, mask, added, unidirectional, scale)


def relative_position_bias(table, queries, keys, max_distance=128, is_bidirectional=0):
    buckets, heads = table.shape
    ahead = np.arange(keys[0])[None] - np.arange(queries[0])[:, None]
    half = buckets // 2 if is_bidirectional else buckets
    distance = np.abs(ahead) if is_bidirectional else np.maximum(-ahead, 0)
    single = half // 2
    far = single + (np.log(np.maximum(distance, 1) / single) / math.log(max_distance / single) * (half - single)).astype(int)
    bucket = np.where(distance < single, distance, np.minimum(far, half - 1)) + (is_bidirectional * half) * (ahead > 0)
    return table.reshape(heads, buckets)[:, bucket][None]  # stored column by column


def layer_norm(x, gain, bias, epsilon):
    centered = x - x.mean(-1, keepdims=True)
    return (centered / np.sqrt((centered**2).mean(-1, keepdims=True) + epsilon) * gain + bias).astype(np.float32)


def embed_layer_norm(ids, segments, words, positions, of_segments, gain, bias, mask=None, places=None, epsilon=1e-12):
    total = words[ids] + (positions[places] if places is not None else positions[:ids.shape[1]])
    return layer_norm(total if segments is None else total + of_segments[segments], gain, bias, epsilon)


def skip_layer_norm(x, skip, gain, beta, bias=None, epsilon=1e-12):
    return layer_norm(x + skip + (0 if bias is None else bias), gain, beta, epsilon)


def group_norm(x, gain, bias, skip=None, added=None, groups=1, channels_last=1, activation=0, epsilon=1e-5):
    x = x if channels_last else x.transpose(0, 2, 3, 1)
    if skip is not None:
        skip = skip.reshape(skip.shape[0], 1, 1, skip.shape[1]) if skip.ndim == 2 else skip
        x = x + (skip if channels_last or skip.shape[1] == 1 else skip.transpose(0, 2, 3, 1))
    x = x if added is None else x + added
    parts = x.reshape(*x.shape[:3], groups, -1)
    centered = parts - parts.mean((1, 2, 4), keepdims=True)
    result = (centered / np.sqrt((centered**2).mean((1, 2, 4), keepdims=True) + epsilon)).reshape(x.shape) * gain + bias
    result = result / (1 + np.exp(-result)) if activation else result
    return (result if channels_last else result.transpose(0, 3, 1, 2)).astype(np.float32)


def activated(x, activation, numbers):
    if activation == "Clip":
        return np.clip(x, np.float32(numbers["min"]), np.float32(numbers["max"]))
    return standard(activation, [x], numbers) if activation else x


def fused_gemm(*inputs, activation="", **attributes):
    own = {name[len("activation_"):]: attributes.pop(name) for name in list(attributes) if name.startswith("activation_")}
    return activated(standard("Gemm", inputs, attributes), activation, own)


def fused_conv(x, kernel, bias=None, added=None, activation="", activation_params=(), **attributes):
    result = standard("Conv", [x, kernel] + ([] if bias is None else [bias]), attributes)
    names = ("min", "max") if activation == "Clip" else ("alpha", "beta")
    return activated(result if added is None else result + added, activation, dict(zip(names, activation_params)))


def nhwc_conv(x, kernel, *bias, **attributes):
    forward = lambda a: np.ascontiguousarray(a.transpose(0, 3, 1, 2))
    return standard("Conv", [forward(x), forward(kernel), *bias], attributes).transpose(0, 2, 3, 1)


def fused_matmul(a, b, alpha=1.0, transA=0, transB=0, transBatchA=0, transBatchB=0):
    def turned(x, batch, matrix):
        x = np.moveaxis(x, 0, -2) if batch else x
        return x.swapaxes(-1, -2) if matrix else x
    return (alpha * (turned(a, transBatchA, transA) @ turned(b, transBatchB, transB))).astype(np.float32)


def bias_split_gelu(x, bias):
    left, right = np.split(x + bias, 2, -1)
    return left * standard("Gelu", [right], {})


OPERATORS = {
    "Attention": attention, "BiasAdd": lambda x, bias, skip: x + bias + skip, "BiasSplitGelu": bias_split_gelu,
    "EmbedLayerNormalization": embed_layer_norm, "FusedConv": fused_conv, "FusedGemm": fused_gemm, "FusedMatMul": fused_matmul,
    "GatherBlockQuantized": gather_quantized, "GroupNorm": group_norm, "MultiHeadAttention": multi_head_attention, "NhwcConv": nhwc_conv,
    "RelativePositionBias": relative_position_bias, "SkipGroupNorm": group_norm, "SkipLayerNormalization": skip_layer_norm,
}
