// Models of a few layers that differ in what they take: for tests of the planner.
#ifndef MT_TESTS_PLANNER_SMALLMODEL_H
#define MT_TESTS_PLANNER_SMALLMODEL_H

#include "compiler/planner/Machine.h"
#include "compiler/planner/Model.h"

#include <random>

namespace mt::planner {

/// What one layer takes: elements of its weight, of the value that it carries on, and of what each rung above the first saves;
/// seconds of its forward, and of its backward by rung.
struct SmallLayer {
  int64_t weights = 0, carried = 0;
  std::vector<int64_t> saved;
  double forward = 0;
  std::vector<double> backward;
};

inline TensorType floats(int64_t elements) { return {kernels::DType::f32, {elements}}; }

/// A chain of layers, the last of which is the loss, each with one weight; `microBatches` micro-batches.
inline Model smallModel(const std::vector<SmallLayer> &layers, int64_t microBatches = 1) {
  Model model;
  model.microBatches = microBatches;
  model.inputs = {{"x", floats(64)}};
  const TensorType loss{kernels::DType::f32, {}};
  for (size_t l = 0; l < layers.size(); ++l) {
    const SmallLayer &small = layers[l];
    const auto index = static_cast<int64_t>(l);
    const bool isLoss = l + 1 == layers.size();
    model.parameters.push_back({.name = "w" + std::to_string(l), .type = floats(small.weights), .full = floats(small.weights),
                                .optimizer = {}, .rest = {}, .owner = index, .pack = index, .packOffset = 0});
    model.packs.push_back({{index}, {index}, 4 * small.weights});
    const TensorType in = l == 0 ? floats(64) : floats(layers[l - 1].carried), out = isLoss ? loss : floats(small.carried);
    Layer layer;
    layer.isLoss = isLoss;
    layer.operands = {l == 0 ? Operand{Operand::input, 0} : Operand{Operand::value, index - 1}, {Operand::parameter, index}};
    layer.results = {index};
    layer.owned = layer.packs = {index};
    if (l > 0)
      model.values[l - 1].users = {index};
    model.values.push_back({index, 0, out, {}});
    auto add = [&](Template entry) {
      model.templates.push_back(std::move(entry));
      return static_cast<int64_t>(model.templates.size()) - 1;
    };
    const std::vector<Argument> arguments{{Argument::operand, 0, in}, {Argument::operand, 1, floats(small.weights)}};
    layer.primal = add({"forward", small.forward, 0, 0, arguments, {{Result::value, 0, out}}});
    for (size_t rung = 0; rung <= (isLoss ? 0 : small.saved.size()); ++rung) {
      Rung entry{"rung" + std::to_string(rung), layer.primal, -1};
      std::vector<Argument> backward = arguments;
      if (rung > 0) {
        const TensorType saved = floats(small.saved[rung - 1]);
        entry.forward = add({"forward", small.forward, 0, 0, arguments, {{Result::value, 0, out}, {Result::saved, 0, saved}}});
        backward.push_back({Argument::saved, 0, saved});
      }
      if (!isLoss)
        backward.push_back({Argument::gradient, 0, out});
      std::vector<Result> results;
      if (l > 0)
        results.push_back({Result::gradient, 0, in});
      results.push_back({Result::gradient, 1, floats(small.weights)});
      if (isLoss)
        results.push_back({Result::loss, 0, loss});
      entry.backward = add({"backward", small.backward[rung], 0, 0, backward, results});
      layer.rungs.push_back(entry);
    }
    model.layers.push_back(std::move(layer));
  }
  model.noteReads();
  (void)model.setOptimizer("adamw");
  return model;
}

/// A device with copies of 1 GB/s each way, a host that reads and writes `host` bytes a second, and no overheads.
inline target::Target smallTarget(double host = 10e9) {
  target::Target target;
  target.name = "small";
  target.deviceMemory = target.hostMemory = uint64_t(1) << 40;
  target.uploadBandwidth = target.downloadBandwidth = 1e9;
  target.hostBandwidth = host;
  target.deviceBandwidth = target.fp32Flops = target.bf16Flops = 1e15;
  return target;
}

/// The same with a host, and a memory of the device, of random speed.
inline target::Target randomTarget(std::mt19937 &random) {
  target::Target target = smallTarget(std::uniform_int_distribution<int>(2, 40)(random) * 1e9);
  target.deviceBandwidth = std::uniform_int_distribution<int>(1, 20)(random) * 10e9;
  return target;
}

/// `count` layers and a loss, of random sizes and times.
inline Model randomModel(std::mt19937 &random, size_t count) {
  auto between = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); };
  std::vector<SmallLayer> layers;
  for (size_t l = 0; l <= count; ++l) {
    SmallLayer layer;
    layer.weights = between(1, 50) * 10000;
    layer.carried = between(1, 50) * 5000;
    layer.saved = {between(1, 20) * 5000, between(20, 100) * 5000};
    layer.forward = 1e-5 * static_cast<double>(between(1, 200));
    layer.backward = {3 * layer.forward, 2.5 * layer.forward, 2 * layer.forward};
    layers.push_back(layer);
  }
  Model model = smallModel(layers, between(1, 2));
  model.clip = between(0, 1) == 1;
  return model;
}

} // namespace mt::planner
#endif
