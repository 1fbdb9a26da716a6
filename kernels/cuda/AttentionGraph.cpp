// cuDNN's scaled dot-product attention, forward with its logsumexp and backward with sums in a fixed order, for causal,
// windowed and full masks and grouped heads. Equal graphs are built once. It should reach 60 % of the device's 16-bit
// rate forward, 45 % backward.
#include "kernels/cuda/AttentionGraph.h"

#include "kernels/cuda/DnnGraph.h"

namespace mt::kernels::cuda {

std::string AttentionGraph::text() const {
  return fmt::format("{} {} {} {} rows {}, {} x {} of {} x {}, {} x {} of {} x {}, {} {} {} ({}, {}]", name(type),
                     gradient, statistics, scale, rows, queries, heads, allQueries, allHeads, keys, groups, allKeys,
                     allGroups, width, valueWidth, apart, left.value_or(-1), right.value_or(-1));
}

namespace {

using graph::Graph;
using Tensor = std::shared_ptr<graph::Tensor_attributes>;
using Extents = std::vector<int64_t>;

int64_t identifier(GraphTensor tensor) { return static_cast<int64_t>(tensor) + 1; }

/// Describes tensors as they lie: [batch, sequence, heads, width] seen as [batch, heads, sequence, width].
struct Describer {
  const AttentionGraph &of;
  Graph &into;

  static Extents strides(int64_t length, int64_t heads, int64_t width) {
    return {length * heads * width, width, heads * width, 1};
  }
  Extents queryDims(int64_t width) const { return {of.rows, of.heads, of.queries, width}; }
  Extents keyDims(int64_t width) const { return {of.rows, of.groups, of.keys, width}; }
  Extents queryStrides(int64_t width) const { return strides(of.allQueries, of.allHeads, width); }
  Extents keyStrides(int64_t width) const { return strides(of.allKeys, of.allGroups, width); }
  Extents keyGradientStrides(int64_t width) const { return of.apart ? strides(of.keys, 1, width) : keyStrides(width); }
  Extents statisticStrides() const { return {of.heads * of.queries, of.queries, 1, 1}; }

  Tensor input(GraphTensor tensor, const char *label, const Extents &dims, const Extents &steps) const {
    return into.tensor(
        graph::Tensor_attributes().set_name(label).set_uid(identifier(tensor)).set_dim(dims).set_stride(steps));
  }
  static void output(const Tensor &made, GraphTensor tensor, const Extents &dims, const Extents &steps) {
    made->set_output(true).set_uid(identifier(tensor)).set_dim(dims).set_stride(steps);
  }
  template <typename Attributes> void mask(Attributes &attributes) const {
    attributes.set_attn_scale(of.scale);
    if (of.left || of.right)
      attributes.set_diagonal_alignment(cudnn_frontend::DiagonalAlignment_t::TOP_LEFT);
    if (of.left)
      attributes.set_diagonal_band_left_bound(static_cast<int>(*of.left));
    if (of.right)
      attributes.set_diagonal_band_right_bound(static_cast<int>(*of.right));
  }

  void forward() const {
    Tensor query = input(GraphTensor::query, "query", queryDims(of.width), queryStrides(of.width));
    Tensor key = input(GraphTensor::key, "key", keyDims(of.width), keyStrides(of.width));
    Tensor value = input(GraphTensor::value, "value", keyDims(of.valueWidth), keyStrides(of.valueWidth));
    auto attributes =
        graph::SDPA_attributes()
            .set_name("attention")
            .set_generate_stats(of.statistics)
            .set_implementation(cudnn_frontend::AttentionImplementation_t::COMPOSITE); // one for all masks
    mask(attributes);
    auto [result, logsumexp] = into.sdpa(query, key, value, attributes);
    output(result, GraphTensor::output, queryDims(of.valueWidth), queryStrides(of.valueWidth));
    if (!of.statistics)
      return;
    output(logsumexp, GraphTensor::logsumexp, queryDims(1), statisticStrides());
    logsumexp->set_data_type(cudnn_frontend::DataType_t::FLOAT);
  }

  void backward() const {
    Tensor query = input(GraphTensor::query, "query", queryDims(of.width), queryStrides(of.width));
    Tensor key = input(GraphTensor::key, "key", keyDims(of.width), keyStrides(of.width));
    Tensor value = input(GraphTensor::value, "value", keyDims(of.valueWidth), keyStrides(of.valueWidth));
    Tensor result = input(GraphTensor::output, "output", queryDims(of.valueWidth), queryStrides(of.valueWidth));
    Tensor logsumexp = input(GraphTensor::logsumexp, "logsumexp", queryDims(1), statisticStrides());
    logsumexp->set_data_type(cudnn_frontend::DataType_t::FLOAT);
    Tensor gradient = input(GraphTensor::gradient, "gradient", queryDims(of.valueWidth), queryStrides(of.valueWidth));
    auto attributes = graph::SDPA_backward_attributes().set_name("attention_grad").set_deterministic_algorithm(true);
    mask(attributes);
    auto [dquery, dkey, dvalue] = into.sdpa_backward(query, key, value, result, gradient, logsumexp, attributes);
    output(dquery, GraphTensor::dquery, queryDims(of.width), queryStrides(of.width));
    output(dkey, GraphTensor::dkey, keyDims(of.width), keyGradientStrides(of.width));
    output(dvalue, GraphTensor::dvalue, keyDims(of.valueWidth), keyGradientStrides(of.valueWidth));
  }
};

/// What cuDNN is known to get wrong, or to do slowly.
Status avoid(const AttentionGraph &of, const Dnn &dnn) {
  if (of.queries == 1 || of.keys == 1)
    return fail("cuDNN's attention is not reliable for a single query or key");
  // On Hopper the gradient reads keys beyond the last, half a tile of 128, unless the mask hides them: NaN where a
  // logsumexp is far below zero (pytorch/pytorch#196678, NVIDIA/cudnn-frontend#628).
  bool tailIsMasked = of.right && of.queries - 1 + *of.right < of.keys;
  if (of.gradient && of.keys % 128 == 64 && !tailIsMasked)
    return fail("cuDNN's gradient does not mask what lies beyond {} keys", of.keys);
  constexpr size_t kWithoutPadding = 91600; // older ones copy from the host in every launch to mask the last keys
  if (of.gradient && of.keys % 128 != 0 && dnn.call.cudnnGetVersion() < kWithoutPadding)
    return fail("cuDNN {} needs keys in multiples of 128 for gradients", dnn.call.cudnnGetVersion());
  return {};
}

Result<std::shared_ptr<DnnGraph>> graphOf(Dnn &dnn, const AttentionGraph &of, uint64_t scratch) {
  return knownGraph(dnn, fmt::format("{} {}", of.text(), scratch), [&]() -> Result<std::shared_ptr<DnnGraph>> {
    MT_TRY(avoid(of, dnn));
    std::shared_ptr<DnnGraph> made = emptyGraph(of.type, dnn);
    Describer describer{of, *made};
    of.gradient ? describer.backward() : describer.forward();
    MT_TRY(buildPlan(*made, dnn, scratch, {}, "attention"));
    return made;
  });
}

} // namespace

Result<GraphRun> prepareGraph(const AttentionGraph &of, uint64_t scratch, Library &library) {
  MT_ASSIGN(Dnn * dnn, library.dnn());
  MT_ASSIGN(std::shared_ptr<DnnGraph> built, graphOf(*dnn, of, scratch));
  const size_t tensors = of.gradient ? 9 : of.statistics ? 5 : 4;
  return GraphRun([dnn, built, tensors](Stream stream, GraphAddresses addresses, void *workspace) {
    return enqueue(*built, *dnn, stream, kGraphLaunches, std::span(addresses).first(tensors), workspace, "attention");
  });
}

Result<uint64_t> graphWorkspace(const AttentionGraph &graph, uint64_t scratch, Dnn &dnn) {
  MT_ASSIGN(std::shared_ptr<DnnGraph> built, graphOf(dnn, graph, scratch));
  return workspaceOf(*built);
}

} // namespace mt::kernels::cuda
