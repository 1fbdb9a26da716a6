// cuDNN's scaled dot-product attention, forward with its logsumexp and backward with sums in a fixed order, for causal,
// windowed and full masks and grouped heads. Equal graphs are built once. It should reach 60 % of the device's 16-bit
// rate forward, 45 % backward.
#include "kernels/cuda/AttentionGraph.h"

#include "kernels/cuda/Dnn.h"

#define CUDNN_FRONTEND_SKIP_JSON_LIB
#define NV_CUDNN_DISABLE_EXCEPTION
#include <cudnn_frontend.h>

namespace mt::kernels::cuda {

std::string AttentionGraph::text() const {
  return fmt::format("{} {} {} {} rows {}, {} x {} of {} x {}, {} x {} of {} x {}, {} {} {} ({}, {}]", name(type),
                     gradient, statistics, scale, rows, queries, heads, allQueries, allHeads, keys, groups, allKeys,
                     allGroups, width, valueWidth, apart, left.value_or(-1), right.value_or(-1));
}

namespace {

namespace graph = cudnn_frontend::graph;
using graph::Graph;
using Tensor = std::shared_ptr<graph::Tensor_attributes>;
using Extents = std::vector<int64_t>;

int64_t identifier(GraphTensor tensor) { return static_cast<int64_t>(tensor) + 1; }

Status check(cudnn_frontend::error_t error, std::string_view what) {
  return error.is_good() ? Status() : fail("cuDNN, {}: {}", what, error.get_message());
}

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

Result<std::shared_ptr<Graph>> build(Dnn &dnn, const AttentionGraph &of, uint64_t scratch) {
  MT_TRY(avoid(of, dnn));
  auto made = std::make_shared<Graph>();
  bool half = of.type == DType::f16;
  made->set_io_data_type(half ? cudnn_frontend::DataType_t::HALF : cudnn_frontend::DataType_t::BFLOAT16)
      .set_intermediate_data_type(cudnn_frontend::DataType_t::FLOAT)
      .set_compute_data_type(cudnn_frontend::DataType_t::FLOAT);
  if (dnn.described)
    made->set_device_properties(dnn.described).set_sm_version(dnn.describedCapability);
  Describer describer{of, *made};
  of.gradient ? describer.backward() : describer.forward();
  MT_TRY(check(made->validate(), "describing attention"));
  MT_TRY(check(dnn.described ? made->build_operation_graph() : made->build_operation_graph(dnn.handle),
               "building the graph of attention"));
  MT_TRY(check(made->create_execution_plans({cudnn_frontend::HeurMode_t::A, cudnn_frontend::HeurMode_t::FALLBACK}),
               "looking for plans"));
  made->deselect_workspace_greater_than(static_cast<int64_t>(scratch));
  MT_TRY(check(made->check_support(), fmt::format("looking for plans within {} bytes", scratch)));
  MT_TRY(check(made->build_plans(cudnn_frontend::BuildPlanPolicy_t::HEURISTICS_CHOICE), "building a plan"));
  int64_t needed = made->get_workspace_size();
  if (needed < 0 || static_cast<uint64_t>(needed) > scratch)
    return fail("cuDNN needs {} bytes of scratch, the plan gives {}", needed, scratch);
  return made;
}

Result<std::shared_ptr<Graph>> graphOf(Dnn &dnn, const AttentionGraph &of, uint64_t scratch) {
  std::scoped_lock lock(dnn.mutex);
  std::shared_ptr<void> &known = dnn.graphs[fmt::format("{} {}", of.text(), scratch)];
  if (!known) {
    MT_ASSIGN(std::shared_ptr<Graph> made, build(dnn, of, scratch));
    known = made;
  }
  return std::static_pointer_cast<Graph>(known);
}

} // namespace

Result<GraphRun> prepareGraph(const AttentionGraph &of, uint64_t scratch, Library &library) {
  MT_ASSIGN(Dnn * dnn, library.dnn());
  MT_ASSIGN(std::shared_ptr<Graph> built, graphOf(*dnn, of, scratch));
  const int tensors = of.gradient ? 9 : of.statistics ? 5 : 4;
  return GraphRun([dnn, built, tensors](Stream stream, GraphAddresses addresses, void *workspace) -> Status {
    MT_TRY(stream.launching(kGraphLaunches));
    if (cudnnStatus_t status = dnn->call.cudnnSetStream(dnn->handle, stream); status != CUDNN_STATUS_SUCCESS)
      return fail("cuDNN, choosing a stream: {}", dnn->call.cudnnGetErrorString(status));
    return check(built->execute(dnn->handle, addresses.data(), tensors, workspace), "running attention");
  });
}

Result<uint64_t> graphWorkspace(const AttentionGraph &graph, uint64_t scratch, Dnn &dnn) {
  MT_ASSIGN(std::shared_ptr<Graph> built, graphOf(dnn, graph, scratch));
  return static_cast<uint64_t>(built->get_workspace_size());
}

Status describeGpu(Dnn &dnn, int capability, const std::string &description) {
  auto properties = std::make_shared<cudnn_frontend::DeviceProperties>();
  MT_TRY(check(properties->deserialize({description.begin(), description.end()}), "reading the description of a GPU"));
  dnn.described = properties;
  dnn.describedCapability = capability;
  dnn.graphs.clear();
  return {};
}

} // namespace mt::kernels::cuda
