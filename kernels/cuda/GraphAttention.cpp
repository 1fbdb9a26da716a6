// cuDNN's scaled dot-product attention, forward with its logsumexp and backward with sums in a fixed order, for causal,
// windowed and full masks and grouped heads. Graphs are built once for equal calls, batch rows or groups of heads at a
// time as the catalogue cut them. It should reach 60 % of the device's 16-bit rate forward, 45 % backward.
#include "kernels/cuda/GraphAttention.h"

#include "kernels/DeviceScratch.h"
#include "kernels/Visibility.h"
#include "kernels/cuda/Dnn.h"
#include "kernels/cuda/Scratch.h"

#define CUDNN_FRONTEND_SKIP_JSON_LIB
#define NV_CUDNN_DISABLE_EXCEPTION
#include <cudnn_frontend.h>

#include <array>

namespace mt::kernels::cuda {
namespace {

namespace graph = cudnn_frontend::graph;
using graph::Graph;
using Tensor = std::shared_ptr<graph::Tensor_attributes>;
using Extents = std::vector<int64_t>;

/// The tensors of a graph: addresses are given in this order.
enum class Name : int64_t { query = 1, key, value, output, logsumexp, gradient, dquery, dkey, dvalue };

/// What a graph computes: everything but addresses.
struct Problem {
  AttentionBlocks shape;
  FusedAttention cut;
  float scale;
  bool statistics;                    ///< forward: the logsumexp is wanted
  std::optional<int64_t> left, right; ///< a query sees keys in (q - left, q + right]

  explicit Problem(const Signature &call)
      : shape(AttentionBlocks::of(call)), cut(FusedAttention::of(call)), scale(static_cast<float>(call.real("scale"))),
        statistics(!shape.gradient && call.operands[8].present) {
    Visibility seen = Visibility::of(call, shape.keys);
    if (seen.high - seen.offset < shape.queries - 1)
      left = seen.high - seen.offset + 1;
    if (seen.offset - seen.low < shape.keys - 1)
      right = seen.offset - seen.low;
  }

  int64_t heads() const { return shape.heads / shape.groups * cut.groups; }
  std::string text() const {
    return fmt::format("{} {} [{} x {}, {} x {}, {}, {}] {} of {} x {} {} {} {} {}", name(shape.type), shape.gradient,
                       shape.queries, shape.heads, shape.keys, shape.groups, shape.width, shape.valueWidth, cut.rows,
                       heads(), cut.groups, scale, statistics, left.value_or(-1), right.value_or(-1));
  }
};

Status check(cudnn_frontend::error_t error, std::string_view what) {
  return error.is_good() ? Status() : fail("cuDNN, {}: {}", what, error.get_message());
}

/// Describes tensors as they lie: [batch, sequence, heads, width] seen as [batch, heads, sequence, width].
struct Describer {
  const Problem &problem;
  Graph &into;

  static Extents strides(int64_t length, int64_t heads, int64_t width) {
    return {length * heads * width, width, heads * width, 1};
  }
  Extents queryDims(int64_t width) const { return {problem.cut.rows, problem.heads(), problem.shape.queries, width}; }
  Extents keyDims(int64_t width) const { return {problem.cut.rows, problem.cut.groups, problem.shape.keys, width}; }
  Extents queryStrides(int64_t width) const { return strides(problem.shape.queries, problem.shape.heads, width); }
  Extents keyStrides(int64_t width) const { return strides(problem.shape.keys, problem.shape.groups, width); }
  Extents statisticStrides() const { return {problem.heads() * problem.shape.queries, problem.shape.queries, 1, 1}; }

  Tensor input(Name name, const char *label, const Extents &dims, const Extents &steps) const {
    return into.tensor(
        graph::Tensor_attributes().set_name(label).set_uid(static_cast<int64_t>(name)).set_dim(dims).set_stride(steps));
  }
  static void output(const Tensor &tensor, Name name, const Extents &dims, const Extents &steps) {
    tensor->set_output(true).set_uid(static_cast<int64_t>(name)).set_dim(dims).set_stride(steps);
  }
  template <typename Attributes> void mask(Attributes &attributes) const {
    attributes.set_attn_scale(problem.scale);
    if (problem.left || problem.right)
      attributes.set_diagonal_alignment(cudnn_frontend::DiagonalAlignment_t::TOP_LEFT);
    if (problem.left)
      attributes.set_diagonal_band_left_bound(static_cast<int>(*problem.left));
    if (problem.right)
      attributes.set_diagonal_band_right_bound(static_cast<int>(*problem.right));
  }

  void forward() const {
    int64_t width = problem.shape.width, valueWidth = problem.shape.valueWidth;
    Tensor query = input(Name::query, "query", queryDims(width), queryStrides(width));
    Tensor key = input(Name::key, "key", keyDims(width), keyStrides(width));
    Tensor value = input(Name::value, "value", keyDims(valueWidth), keyStrides(valueWidth));
    auto attributes =
        graph::SDPA_attributes()
            .set_name("attention")
            .set_generate_stats(problem.statistics)
            .set_implementation(cudnn_frontend::AttentionImplementation_t::COMPOSITE); // one for all masks
    mask(attributes);
    auto [result, logsumexp] = into.sdpa(query, key, value, attributes);
    output(result, Name::output, queryDims(valueWidth), queryStrides(valueWidth));
    if (!problem.statistics)
      return;
    output(logsumexp, Name::logsumexp, queryDims(1), statisticStrides());
    logsumexp->set_data_type(cudnn_frontend::DataType_t::FLOAT);
  }

  void backward() const {
    int64_t width = problem.shape.width, valueWidth = problem.shape.valueWidth;
    Tensor query = input(Name::query, "query", queryDims(width), queryStrides(width));
    Tensor key = input(Name::key, "key", keyDims(width), keyStrides(width));
    Tensor value = input(Name::value, "value", keyDims(valueWidth), keyStrides(valueWidth));
    Tensor result = input(Name::output, "output", queryDims(valueWidth), queryStrides(valueWidth));
    Tensor logsumexp = input(Name::logsumexp, "logsumexp", queryDims(1), statisticStrides());
    logsumexp->set_data_type(cudnn_frontend::DataType_t::FLOAT);
    Tensor gradient = input(Name::gradient, "gradient", queryDims(valueWidth), queryStrides(valueWidth));
    auto attributes = graph::SDPA_backward_attributes().set_name("attention_grad").set_deterministic_algorithm(true);
    mask(attributes);
    auto [dquery, dkey, dvalue] = into.sdpa_backward(query, key, value, result, gradient, logsumexp, attributes);
    output(dquery, Name::dquery, queryDims(width), queryStrides(width));
    output(dkey, Name::dkey, keyDims(width), keyStrides(width));
    output(dvalue, Name::dvalue, keyDims(valueWidth), keyStrides(valueWidth));
  }
};

Result<std::shared_ptr<Graph>> build(Dnn &dnn, const Problem &problem) {
  auto made = std::make_shared<Graph>();
  bool half = problem.shape.type == DType::f16;
  made->set_io_data_type(half ? cudnn_frontend::DataType_t::HALF : cudnn_frontend::DataType_t::BFLOAT16)
      .set_intermediate_data_type(cudnn_frontend::DataType_t::FLOAT)
      .set_compute_data_type(cudnn_frontend::DataType_t::FLOAT);
  if (dnn.described)
    made->set_device_properties(dnn.described).set_sm_version(dnn.describedCapability);
  Describer describer{problem, *made};
  problem.shape.gradient ? describer.backward() : describer.forward();
  MT_TRY(check(made->validate(), "describing attention"));
  MT_TRY(check(dnn.described ? made->build_operation_graph() : made->build_operation_graph(dnn.handle), "building the graph of attention"));
  MT_TRY(check(made->create_execution_plans({cudnn_frontend::HeurMode_t::A, cudnn_frontend::HeurMode_t::FALLBACK}),
               "looking for plans"));
  made->deselect_workspace_greater_than(static_cast<int64_t>(problem.cut.scratch));
  MT_TRY(check(made->check_support(), fmt::format("looking for plans within {} bytes", problem.cut.scratch)));
  MT_TRY(check(made->build_plans(cudnn_frontend::BuildPlanPolicy_t::HEURISTICS_CHOICE), "building a plan"));
  int64_t needed = made->get_workspace_size();
  if (needed < 0 || static_cast<uint64_t>(needed) > problem.cut.scratch)
    return fail("cuDNN needs {} bytes of scratch, the plan gives {}", needed, problem.cut.scratch);
  return made;
}

Result<std::shared_ptr<Graph>> graphOf(Dnn &dnn, const Problem &problem) {
  std::scoped_lock lock(dnn.mutex);
  std::shared_ptr<void> &known = dnn.graphs[problem.text()];
  if (!known) {
    MT_ASSIGN(std::shared_ptr<Graph> made, build(dnn, problem));
    known = made;
  }
  return std::static_pointer_cast<Graph>(known);
}

struct GraphAttention {
  Problem problem;
  Dnn *dnn;
  std::shared_ptr<Graph> built;
  Run adding;

  /// The address of the first element of batch row `b` and head (or group) `head`.
  static void *place(const Launch &launch, size_t operand, int64_t element, DType type) {
    return launch.at<char>(operand) + element * static_cast<int64_t>(byteSize(type));
  }

  /// Addresses in the order of Name, for the part that begins at a batch row and a group of heads.
  std::array<void *, 9> places(const Launch &launch, int64_t b, int64_t group) const {
    const AttentionBlocks &s = problem.shape;
    int64_t head = s.heads / s.groups * group;
    auto ofQuery = [&](size_t operand, int64_t width) {
      return place(launch, operand, (b * s.queries * s.heads + head) * width, s.type);
    };
    auto ofKey = [&](size_t operand, int64_t width) {
      return place(launch, operand, (b * s.keys * s.groups + group) * width, s.type);
    };
    auto statistic = [&](size_t operand) {
      return place(launch, operand, (b * s.heads + head) * s.queries, DType::f32);
    };
    if (s.gradient)
      return {ofQuery(1, s.width),      ofKey(2, s.width),  ofKey(3, s.valueWidth),
              ofQuery(8, s.valueWidth), statistic(9),       ofQuery(0, s.valueWidth),
              ofQuery(10, s.width),     ofKey(11, s.width), ofKey(12, s.valueWidth)};
    return {ofQuery(0, s.width), ofKey(1, s.width), ofKey(2, s.valueWidth), ofQuery(7, s.valueWidth),
            problem.statistics ? statistic(8) : nullptr};
  }

  int count() const { return problem.shape.gradient ? 9 : problem.statistics ? 5 : 4; }

  Status operator()(const Launch &launch) const {
    if (launch.accumulate != 0)
      return adding(launch);
    Scratch scratch(launch.operands.back());
    void *workspace = scratch.take(problem.cut.scratch);
    if (cudnnStatus_t status = dnn->call.cudnnSetStream(dnn->handle, launch.stream); status != CUDNN_STATUS_SUCCESS)
      return fail("cuDNN, choosing a stream: {}", dnn->call.cudnnGetErrorString(status));
    for (int64_t b = 0; b < problem.shape.batch; b += problem.cut.rows)
      for (int64_t group = 0; group < problem.shape.groups; group += problem.cut.groups) {
        std::array<void *, 9> addresses = places(launch, b, group);
        MT_TRY(cuda::check(built->execute(dnn->handle, addresses.data(), count(), workspace), "running attention"));
      }
    return {};
  }
};

/// The graph writes all of its results.
bool wantsAll(const Signature &call) {
  bool gradient = call.kernel == "attention_grad";
  for (size_t operand : gradient ? std::vector<size_t>{10, 11, 12} : std::vector<size_t>{7})
    if (!call.operands[operand].present)
      return false;
  return true;
}

Result<std::shared_ptr<Graph>> graphOf(const Signature &call, Dnn &dnn, const Problem &problem) {
  if (!wantsAll(call))
    return fail("cuDNN's attention writes all of its results, and not all are wanted");
  const AttentionBlocks &shape = problem.shape;
  if (shape.queries == 1 || shape.keys == 1)
    return fail("cuDNN's attention is not reliable for a single query or key");
  // On Hopper the gradient reads keys beyond the last, half a tile of 128, unless the mask hides them: NaN where a
  // logsumexp is far below zero (pytorch/pytorch#196678, NVIDIA/cudnn-frontend#628).
  bool tailIsMasked = problem.right && shape.queries - 1 + *problem.right < shape.keys;
  if (shape.gradient && shape.keys % 128 == 64 && !tailIsMasked)
    return fail("cuDNN's gradient does not mask what lies beyond {} keys", shape.keys);
  constexpr size_t kWithoutPadding = 91600; // older ones copy from the host in every launch to mask the last keys
  if (shape.gradient && shape.keys % 128 != 0 && dnn.call.cudnnGetVersion() < kWithoutPadding)
    return fail("cuDNN {} needs keys in multiples of 128 for gradients", dnn.call.cudnnGetVersion());
  return graphOf(dnn, problem);
}

} // namespace

Result<Run> prepareGraphAttention(const Signature &call, Library &library, Run adding) {
  MT_ASSIGN(Dnn * dnn, library.dnn());
  const Problem problem(call);
  MT_ASSIGN(std::shared_ptr<Graph> built, graphOf(call, *dnn, problem));
  return Run(GraphAttention{problem, dnn, built, std::move(adding)});
}

Result<uint64_t> graphScratch(const Signature &call, Dnn &dnn) {
  MT_ASSIGN(std::shared_ptr<Graph> built, graphOf(call, dnn, Problem(call)));
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
