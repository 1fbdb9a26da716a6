// conv, conv_data_grad and conv_weight_grad: through cuDNN's graph where it does what the call asks, else straight from
// their definitions. A bias is added to what the graph has written.
#include "kernels/cuda/ConvolutionGraph.h"

#include "kernels/DeviceScratch.h"
#include "kernels/cuda/CastElements.h"
#include "kernels/cuda/Dnn.h"
#include "kernels/cuda/Launching.h"
#include "kernels/cuda/Scratch.h"
#include "kernels/cuda/Window.h"
#include "runtime/base/Log.h"

#include <algorithm>

namespace mt::kernels::cuda {
namespace {

struct Direct {
  ConvArguments arguments = {};
  Bound image, kernel, gradient, bias, result;
  ConvCode code = nullptr;
  bool byBlocks = false;

  Status operator()(const Launch &launch) const {
    if (!launch.operands[result.operand])
      return {};
    ConvArguments bound = arguments;
    bound.image = image.in(launch), bound.kernel = kernel.in(launch), bound.gradient = gradient.in(launch);
    bound.bias = bias.in(launch), bound.result = result.out(launch);
    return start(launch.stream, byBlocks ? bound.total : ceilDivide(bound.total, kThreads), kThreads, code, bound);
  }
};

Run directConvolution(const Signature &call) {
  const size_t result = call.kernel == "conv" ? 3 : 2;
  const ConvArguments arguments = {ConvShape::of(call), call.operands[result].elements(), {}, {}, {}, {}, {}};
  const Bound first(call, 0), second(call, 1), last(call, result);
  if (call.kernel == "conv")
    return Direct{arguments, first, second, {}, Bound(call, 2), last, convCode()};
  if (call.kernel == "conv_data_grad")
    return Direct{arguments, {}, second, first, {}, last, convDataGradCode()};
  return Direct{arguments, second, {}, first, {}, last, convWeightGradCode(), true};
}

struct ByGraph {
  GraphConvolution parts;
  ConvolutionRun graph;
  DType type; ///< of what the graph reads and writes
  Bound result;
  int64_t elements; ///< of the result
  Run addBias;      ///< null: none
  Run direct;       ///< for addresses that the graph does not take

  Status operator()(const Launch &launch) const {
    void *to = launch.operands[result.operand];
    if (!to)
      return {};
    const bool adds = launch.accumulates(result.operand), waits = adds || result.type != type; // of kernels' gradients
    if (!isGraphAligned(launch.operands[0]) || !isGraphAligned(launch.operands[1]) || !(waits || isGraphAligned(to)))
      return direct(launch);
    Scratch scratch(launch.operands.back());
    void *waiting = scratch.take(parts.result), *library = scratch.take(parts.library);
    MT_TRY(graph(launch.stream, {launch.operands[0], launch.operands[1], waits ? waiting : to}, library));
    if (waits)
      return castElements(launch.stream, waiting, type, to, result.type, elements, adds);
    if (!addBias)
      return {};
    void *const operands[] = {to, launch.operands[2], to};
    return addBias({.operands = operands, .accumulate = 0, .stream = launch.stream, .fault = launch.fault});
  }
};

/// The bias of a channel onto all its places.
Result<Run> prepareBias(const Signature &call, Library &library) {
  OperandType read = call.operands[3], bias = call.operands[2];
  read.effect = Effect::read;
  bias.dims.resize(read.dims.size() - 1, 1);
  return prepare({"add", {}, {read, bias, call.operands[3]}}, library);
}

Result<Run> prepareByGraph(const Signature &call, const GraphConvolution &parts, Library &library, const Run &direct) {
  const size_t result = call.kernel == "conv" ? 3 : 2;
  ByGraph made{parts, {}, call.operands[0].type, Bound(call, result), call.operands[result].elements(), {}, direct};
  MT_ASSIGN(made.graph, prepareGraph(ConvolutionGraph::of(call), parts.library, library));
  if (result == 3 && call.operands[2].present) {
    MT_ASSIGN(made.addBias, prepareBias(call, library));
  }
  return Run(std::move(made));
}

Result<Run> prepareConvolution(const Signature &call, Library &library) {
  Run direct = directConvolution(call);
  const GraphConvolution parts = GraphConvolution::of(call);
  if (!parts.refusal.empty()) // the compiler has said so
    return direct;
  Result<Run> byGraph = prepareByGraph(call, parts, library, direct);
  if (!byGraph)
    log().warn("{} goes straight from its definition, which is slower: {}", call.kernel, byGraph.status().message());
  return byGraph ? *byGraph : direct;
}

} // namespace

ConvolutionGraph ConvolutionGraph::of(const Signature &call) {
  const ConvShape shape = ConvShape::of(call);
  const Windows &w = shape.windows;
  ConvolutionGraph made;
  made.computes = call.kernel == "conv"             ? Computes::result
                  : call.kernel == "conv_data_grad" ? Computes::image
                                                    : Computes::kernel;
  made.type = call.operands[0].type;
  made.groups = shape.groups;
  made.image = {shape.batch, shape.groups * shape.channels};
  made.kernel = {shape.groups * shape.filters, shape.channels};
  made.result = {shape.batch, shape.groups * shape.filters};
  const bool flat = w.image[0] == 1 && w.size[0] == 1 && w.result[0] == 1 && w.low[0] == 0;
  for (int d = flat ? 1 : 0; d < Windows::kDims; ++d) {
    made.image.push_back(w.image[d]);
    made.kernel.push_back(w.size[d]);
    made.result.push_back(w.result[d]);
    made.strides.push_back(w.stride[d]);
    made.dilations.push_back(w.dilation[d]);
    made.low.push_back(w.low[d]);
    const int64_t window = (w.size[d] - 1) * w.dilation[d] + 1, inside = w.image[d] + w.low[d] - window;
    const bool alike = inside + w.low[d] >= 0 && (inside + w.low[d]) / w.stride[d] + 1 == w.result[d];
    made.high.push_back(alike ? w.low[d] : std::max<int64_t>(0, (w.result[d] - 1) * w.stride[d] - inside));
  }
  return made;
}

std::span<const Entry> convolutionEntries() {
  static constexpr Entry kEntries[] = {
      {"conv", prepareConvolution}, {"conv_data_grad", prepareConvolution}, {"conv_weight_grad", prepareConvolution}};
  return kEntries;
}

} // namespace mt::kernels::cuda
