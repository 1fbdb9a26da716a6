#!/usr/bin/env python3
"""Writes the node cases that the package onnx generates, for tests/onnx/ConformanceTest.cpp.

    conformance_cases.py PACKAGES FOLDER OPERATORS       PACKAGES holds the package (tools/setup.sh --onnx-cases fetches it)
    conformance_cases.py PACKAGES --operators OPERATORS  writes OPERATORS anew

FOLDER then holds a model for each case, FOLDER/NAME.onnx; cases.json, which says what goes in and must come out; and
values.f64, all their elements as doubles in the order of cases.json. The folder is left as it is where it was written by
this script from this version of the package. OPERATORS is the list of the standard's operators, with the operator sets that
changed them, which docs/operators.md is made of; it must be the package's. Exit status 77: the package is not there.

Beside the package's cases stand those of MORE, whose names begin with more_: its own are few digits or points without a slope. Their
results are those of the package's reference implementation.

What a compiler must know - shapes, axes, pads - is no input of a model for mt but stands in it. Sequences go in and out
as their tensors, through SequenceConstruct and SequenceAt.
"""
import hashlib
import json
import pathlib
import sys
import warnings

# operator -> which of its inputs must be known when compiling
KNOWN = {
    "AffineGrid": [1], "BlackmanWindow": [0], "CenterCropPad": [1], "Col2Im": [1, 2], "Compress": [1],
    "ConstantOfShape": [0], "CumProd": [1], "CumSum": [1], "DFT": [1, 2], "Dropout": [1, 2], "Expand": [1],
    "GatherBlockQuantized": [0, 3], "HammingWindow": [0], "HannWindow": [0], "If": [0], "Loop": [0, 1], "MaxUnpool": [2],
    "MelWeightMatrix": [0, 1, 2, 3, 4], "NonMaxSuppression": [2, 3, 4], "NonZero": [0], "OneHot": [1], "Pad": [1, 2, 3],
    "Range": [0, 1, 2], "RelativePositionBias": [1, 2], "Reshape": [1], "Resize": [1, 2, 3], "ReverseSequence": [1], "SequenceAt": [1],
    "SequenceErase": [1], "SequenceInsert": [2], "Slice": [1, 2, 3, 4], "Split": [1], "SplitToSequence": [1],
    "Squeeze": [1], "STFT": [1, 3], "Tile": [1], "TopK": [1], "Trilu": [1], "Unsqueeze": [1], "Upsample": [1],
}


# name -> operator, attributes, and shapes of inputs, each of random numbers from one number to another: whole ones between
# whole numbers, in bytes where there are 256; none where an input is left out. Or the whole numbers themselves
MORE = {
    **{f"gridsample_{mode}_{padding}_{corners}": ("GridSample", dict(mode=mode, padding_mode=padding, align_corners=corners),
                                                  [([2, 2, 5, 4], -1.0, 1.0), ([2, 3, 2, 2], -2.2, 2.2)])
       for mode, padding in (("cubic", "reflection"), ("cubic", "zeros"), ("linear", "reflection"), ("linear", "border")) for corners in (0, 1)},
    "gridsample_volume": ("GridSample", dict(padding_mode="reflection"), [([2, 2, 3, 4, 5], -1.0, 1.0), ([2, 2, 1, 3, 3], -1.8, 1.8)]),
    "gridsample_line": ("GridSample", dict(padding_mode="border"), [([2, 2, 5], -1.0, 1.0), ([2, 4, 1], -1.5, 1.5)]),
    **{f"roialign_{shift}": ("RoiAlign", dict(coordinate_transformation_mode=shift, output_height=2, output_width=3, sampling_ratio=2,
                                              spatial_scale=0.7), [([2, 2, 6, 5], -1.0, 1.0), ([3, 4], 0.0, 9.0), ([3], 0, 2)])
       for shift in ("half_pixel", "output_half_pixel")},
    "gather_quantized": ("GatherBlockQuantized", dict(bits=4, block_size=16, quantize_axis=1),
                         [([6, 20], 0, 256), ([2, 3], -6, 6), ([6, 3], 0.1, 0.9), ([6, 2], 0, 256)]),
    "gather_quantized_bytes": ("GatherBlockQuantized", dict(bits=8, block_size=16, quantize_axis=-1), [([6, 2, 32], 0, 256), ([4], 0, 6), ([6, 2, 2], 0.1, 0.9)]),
    "deformconv": ("DeformConv", dict(strides=[2, 1], dilations=[1, 2], pads=[1, 0, 1, 2], offset_group=2),
                   [([2, 4, 5, 6], -1.0, 1.0), ([3, 4, 2, 2], -1.0, 1.0), ([2, 16, 3, 6], -1.4, 1.4), ([3], -1.0, 1.0), ([2, 8, 3, 6], 0.0, 1.0)]),
    **{f"attention_{name}": ("Attention", dict(num_heads=2, **attributes), [([3, 5, 8], -1.0, 1.0), ([8, width], -1.0, 1.0), *more])
       for name, width, attributes, more in (
           ("plain", 24, {}, []), ("causal", 24, dict(unidirectional=1), [([24], -1.0, 1.0)]),
           ("widths", 20, dict(qkv_hidden_sizes=[8, 8, 4], scale=0.3), [([20], -1.0, 1.0)]),
           ("mask", 24, {}, [None, ([[1, 1, 0, 2, 1], [0, -1, 3, 1, 1], [1, 0, 0, 0, 0]],)]), ("lengths", 24, {}, [([24], -1.0, 1.0), ([3], 1, 5)]),
           ("ends", 24, {}, [([24], -1.0, 1.0), ([4, 5, 3, 1, 0, 2],)]), ("bias", 24, {}, [None, ([[[int((b + q + k) % 3 > 0) for k in range(5)] for q in range(5)] for b in range(3)],), None,
                                ([1, 2, 5, 5], -1.0, 1.0)]))},
    "multihead_packed": ("MultiHeadAttention", dict(num_heads=2), [([2, 5, 2, 3, 4], -1.0, 1.0)]),
    "multihead_packed_keys": ("MultiHeadAttention", dict(num_heads=2, scale=0.4), [([2, 5, 8], -1.0, 1.0), ([2, 6, 2, 2, 4], -1.0, 1.0)]),
    "multihead_lengths": ("MultiHeadAttention", dict(num_heads=2), [([2, 5, 8], -1.0, 1.0), ([2, 6, 8], -1.0, 1.0), ([2, 6, 4], -1.0, 1.0),
                                                                   ([20], -1.0, 1.0), ([2], 1, 6), ([1, 2, 5, 6], -1.0, 1.0)]),
    **{f"positionbias_{both}": ("RelativePositionBias", dict(is_bidirectional=both, max_distance=12), [([8, 3], -1.0, 1.0), ([40],), ([37],)])
       for both in (0, 1)},
    "embed": ("EmbedLayerNormalization", {}, [([2, 5], 0, 9), ([2, 5], 0, 2), *[([n, 6], -1.0, 1.0) for n in (9, 7, 2)], *2 * [([6], -1.0, 1.0)]]),
    "embed_places": ("EmbedLayerNormalization", dict(epsilon=0.1), [([2, 5], 0, 9), None, *[([n, 6], -1.0, 1.0) for n in (9, 7)], None,
                                                                     *2 * [([6], -1.0, 1.0)], None, ([2, 5], 0, 7)]),
    "skipnorm": ("SkipLayerNormalization", {}, [*2 * [([2, 3, 6], -1.0, 1.0)], *3 * [([6], -1.0, 1.0)]]),
    "groupnorm_last": ("GroupNorm", dict(groups=2, activation=1), [([2, 3, 4, 6], -1.0, 1.0), *2 * [([6], -1.0, 1.0)]]),
    "groupnorm_first": ("GroupNorm", dict(groups=3, channels_last=0), [([2, 6, 3, 4], -1.0, 1.0), *2 * [([6], -1.0, 1.0)]]),
    "skipgroupnorm": ("SkipGroupNorm", dict(groups=2), [([2, 3, 4, 6], -1.0, 1.0), *2 * [([6], -1.0, 1.0)], ([2, 3, 4, 6], -1.0, 1.0), ([6], -1.0, 1.0)]),
    "skipgroupnorm_rows": ("SkipGroupNorm", dict(groups=2, activation=1), [([2, 3, 4, 6], -1.0, 1.0), *2 * [([6], -1.0, 1.0)], ([2, 6], -1.0, 1.0)]),
    **{f"fusedgemm_{name.lower()}": ("FusedGemm", dict(transB=1, alpha=0.5, activation=name, **numbers), [([3, 5], -1.0, 1.0), ([4, 5], -1.0, 1.0), ([4], -1.0, 1.0)])
       for name, numbers in (("Tanh", {}), ("Selu", dict(activation_alpha=1.5, activation_gamma=0.7)), ("LeakyRelu", dict(activation_alpha=0.2)), ("HardSigmoid", dict(activation_alpha=0.3, activation_beta=0.4)))},
    "fusedconv_relu": ("FusedConv", dict(activation="Relu", pads=[1, 1, 1, 1]), [([2, 3, 5, 4], -1.0, 1.0), ([4, 3, 3, 3], -1.0, 1.0), ([4], -1.0, 1.0), ([2, 4, 5, 4], -1.0, 1.0)]),
    "fusedconv_clip": ("FusedConv", dict(activation="Clip", activation_params=[-0.5, 0.7], strides=[2, 1]), [([2, 3, 5, 4], -1.0, 1.0), ([4, 3, 2, 2], -1.0, 1.0)]),
    "nhwcconv": ("NhwcConv", dict(pads=[1, 0, 0, 1], group=2), [([2, 5, 4, 4], -1.0, 1.0), ([6, 2, 3, 2], -1.0, 1.0), ([6], -1.0, 1.0)]),
    "fusedmatmul_batches": ("FusedMatMul", dict(alpha=0.5, transBatchA=1, transBatchB=1, transB=1), [([3, 2, 5], -1.0, 1.0), ([4, 2, 5], -1.0, 1.0)]),
    "biassplitgelu": ("BiasSplitGelu", {}, [([2, 3, 8], -1.0, 1.0), ([8], -1.0, 1.0)]),
    "biasadd": ("BiasAdd", {}, [([2, 3, 8], -1.0, 1.0), ([8], -1.0, 1.0), ([2, 3, 8], -1.0, 1.0)]),
    "deformconv_groups": ("DeformConv", dict(group=2), [([2, 4, 4, 4], -1.0, 1.0), ([6, 2, 2, 3], -1.0, 1.0), ([2, 12, 3, 2], -1.4, 1.4)]),
}


class More:
    """A case as the package's own are."""

    def __init__(self, onnx, name):
        import fused_operators
        import numpy
        from onnx.reference import ReferenceEvaluator
        operator, attributes, given = MORE[name]
        random, inputs = numpy.random.RandomState(len(name)), []
        for shape, *bounds in filter(None, given):
            low, high = bounds or (None, None)
            if not bounds:
                inputs.append(numpy.array(shape))
            elif isinstance(low, int) and isinstance(high, int):
                inputs.append(random.randint(low, high, shape).astype(numpy.uint8 if high == 256 else numpy.int64))
            else:
                inputs.append((low + (high - low) * random.random_sample(shape)).astype(numpy.float32))
        inputs = iter(inputs)
        inputs = [next(inputs) if one else None for one in given]
        names = [f"x{i}" if one else "" for i, one in enumerate(given)]
        value = lambda n, a: onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        other = fused_operators.OPERATORS.get(operator)
        domain = "com.microsoft" if other else ""
        node = onnx.helper.make_node(operator, names, ["y"], domain=domain, **attributes)
        result = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
        graph = onnx.helper.make_graph([node], name, [value(n, a) for n, a in zip(names, inputs) if n], [result])
        sets = [onnx.helper.make_opsetid("", 22), onnx.helper.make_opsetid("com.microsoft", 1)]
        self.model = onnx.helper.make_model(graph, opset_imports=sets)
        results = [other(*inputs, **attributes)] if other else ReferenceEvaluator(self.model).run(None, dict(zip(names, inputs)))
        inputs = [a for a in inputs if a is not None]
        self.name, self.data_sets, self.rtol, self.atol = f"more_{name}", [(inputs, results)], 1e-4, 1e-6


def known_inputs(case):
    """Names of the graph inputs that must be known when compiling: those of the operator that the case is of."""
    names = set()
    for node in case.model.graph.node:
        places = [1] if node.op_type.startswith("Reduce") else KNOWN.get(node.op_type, [])
        names.update(node.input[place] for place in places if place < len(node.input))
    return names & {given.name for given in case.model.graph.input}


class Writer:
    def __init__(self, onnx, folder):
        import numpy
        self.onnx, self.numpy, self.folder = onnx, numpy, folder
        self.values = open(folder / "values.f64", "wb")

    def array(self, value):
        if isinstance(value, self.onnx.TensorProto):
            value = self.onnx.numpy_helper.to_array(value)
        return self.numpy.asarray(value)

    def entry(self, name, value):
        """What cases.json says of a tensor, whose elements are written; none of strings and complex numbers."""
        array = self.array(value)
        plain = array.dtype.kind not in "OUSc"
        if plain:
            self.values.write(self.numpy.ascontiguousarray(array.astype(self.numpy.float64)).tobytes())
        return {"name": name, "type": str(array.dtype), "dims": list(array.shape), "values": plain}

    def make_known(self, graph, given, value):
        """An initializer or, of real numbers, a Constant, which alone is never taken for a weight."""
        tensor = self.onnx.numpy_helper.from_array(self.array(value), given.name)
        if self.array(value).dtype.kind in "iub":
            graph.initializer.append(tensor)
        else:
            graph.node.insert(0, self.onnx.helper.make_node("Constant", [], [given.name], value=tensor))

    def unpack_sequence(self, graph, given, values):
        names = [f"{given.name}.{i}" for i in range(len(values))]
        element = given.type.optional_type.elem_type if given.type.HasField("optional_type") else given.type
        kind = element.sequence_type.elem_type.tensor_type.elem_type
        operator = "SequenceConstruct" if values else "SequenceEmpty"
        attributes = {} if values else {"dtype": kind}
        graph.node.insert(0, self.onnx.helper.make_node(operator, names, [given.name], **attributes))
        for name, value in zip(names, values):
            graph.input.append(self.onnx.helper.make_tensor_value_info(name, kind, self.array(value).shape))
        return [self.entry(name, value) for name, value in zip(names, values)]

    def pack_sequence(self, graph, wanted, values):
        entries = []
        for i, value in enumerate(values):
            place, name = f"{wanted.name}.at{i}", f"{wanted.name}.{i}"
            graph.initializer.append(self.onnx.helper.make_tensor(place, self.onnx.TensorProto.INT64, [], [i]))
            graph.node.append(self.onnx.helper.make_node("SequenceAt", [wanted.name, place], [name]))
            graph.output.append(self.onnx.helper.make_empty_tensor_value_info(name))
            entries.append(self.entry(name, value))
        return entries

    def write(self, case, known):
        """The model of a case, and what cases.json says of it."""
        model = self.onnx.ModelProto()
        model.CopyFrom(case.model)
        graph, (given_values, wanted_values) = model.graph, case.data_sets[0]
        operators = sorted({(node.domain + "." if node.domain else "") + node.op_type for node in graph.node})
        given, wanted = list(graph.input), list(graph.output)
        del graph.input[:], graph.output[:]
        inputs, outputs = [], []
        for info, value in zip(given, given_values):
            if value is None:
                kind = info.type.optional_type.elem_type
                graph.node.insert(0, self.onnx.helper.make_node("Optional", [], [info.name], type=kind))
            elif info.name in known:
                self.make_known(graph, info, value)
            elif isinstance(value, list):
                inputs += self.unpack_sequence(graph, info, value)
            else:
                entry = self.entry(info.name, value)
                kind = self.onnx.helper.np_dtype_to_tensor_dtype(self.array(value).dtype)
                graph.input.append(self.onnx.helper.make_tensor_value_info(info.name, kind, entry["dims"]))
                inputs.append(entry)
        for info, value in zip(wanted, wanted_values):
            if isinstance(value, list):
                outputs += self.pack_sequence(graph, info, value)
            elif value is not None:
                graph.output.append(info)
                outputs.append(self.entry(info.name, value))
        (self.folder / f"{case.name}.onnx").write_bytes(model.SerializeToString())
        return {"name": case.name, "operators": operators, "rtol": case.rtol, "atol": case.atol,
                "inputs": inputs, "outputs": outputs}


def write_all(onnx, folder):
    from onnx.backend.test.case.node import collect_testcases
    cases = collect_testcases(None) + [More(onnx, name) for name in MORE]
    known = {case.name: known_inputs(case) for case in cases}
    writer = Writer(onnx, folder)
    entries = []
    for case in sorted(cases, key=lambda case: case.name):
        whole = case.name.split("_expanded")[0]  # the same case with its operator as the function that defines it
        entries.append(writer.write(case, known[case.name] | known.get(whole, set())))
    writer.values.close()
    (folder / "cases.json").write_text(json.dumps(entries))
    return len(entries)


def operators(onnx):
    """A line for each operator of the default domain, by name: the operator sets that changed it, and what else it is."""
    versions = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            versions.setdefault(schema.name, {})[schema.since_version] = schema
    lines = []
    for name, known in sorted(versions.items()):
        newest = known[max(known)]
        lines.append(" ".join([name, *map(str, sorted(known)), *(["deprecated"] if newest.deprecated else [])]))
    return "\n".join(lines) + "\n"


def main(packages, folder, listed):
    sys.path.insert(0, packages)
    try:
        import onnx
    except ImportError:
        print(f"skipped: the package onnx is not in {packages}; tools/setup.sh --onnx-cases fetches it")
        return 77
    if folder == "--operators":
        pathlib.Path(listed).write_text(operators(onnx))
        return 0
    if pathlib.Path(listed).read_text() != operators(onnx):
        print(f"error: {listed} is stale; write it anew with {__file__} {packages} --operators {listed}")
        return 1
    scripts = sorted(pathlib.Path(__file__).parent.glob("*.py"))
    stamp = onnx.__version__ + " " + hashlib.sha256(b"".join(script.read_bytes() for script in scripts)).hexdigest()
    folder = pathlib.Path(folder)
    if (folder / "stamp").exists() and (folder / "stamp").read_text() == stamp:
        return 0
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.onnx"):
        path.unlink()
    print(write_all(onnx, folder), "cases of onnx", onnx.__version__)
    (folder / "stamp").write_text(stamp)
    return 0


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    sys.exit(main(*sys.argv[1:]))
