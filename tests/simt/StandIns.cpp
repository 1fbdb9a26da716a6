// What kernels/cuda asks of the vendor's libraries, without any: a GPU of compute capability 90, products by the loops
// of tests/kernels/FakeBlas.h, the CPU's attention and convolutions in place of cuDNN's. Their operands are checked as
// those of launches are.
#include "kernels/AttentionOperands.h"
#include "kernels/cpu/CpuKernels.h"
#include "kernels/cuda/ConvolutionGraph.h"
#include "kernels/cuda/Dnn.h"
#include "kernels/cuda/Family.h"
#include "kernels/cuda/GraphAttention.h"
#include "kernels/cuda/Library.h"
#include "tests/kernels/FakeBlas.h"
#include "tests/simt/Simt.h"

#include <cstring>

namespace mt::kernels::cuda {

Status check(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess)
    return {};
  std::string problem = simt::problem();
  return fail("{}: {}", what, problem.empty() ? "after another failed" : problem);
}

Result<std::unique_ptr<Library>> Library::open() {
  std::unique_ptr<Library> library(new Library());
  library->multiprocessorCount = 132;
  library->capability = 90;
  return library;
}
Library::~Library() = default;

Result<Blas *> Library::blas() {
  static auto &blas = *[] {
    auto *made = new test::FakeBlas;
    made->proposals = {{.scratch = 1 << 20, .alignment = 16}, {.scratch = 0, .alignment = 1}};
    made->instead = simt::happensInstead;
    made->touches = [](const void *begin, uint64_t bytes, bool writes) {
      return simt::touches(begin, bytes, writes, "cuBLASLt");
    };
    return made;
  }();
  return &blas.blas;
}
Result<Dnn *> Library::dnn() { return fail("there is no cuDNN here"); }
Dnn::~Dnn() = default;

namespace {

/// The tensors of a graph, gathered from where they lie and sent back: what the processor's kernels take is dense.
struct Dense {
  std::vector<uint16_t> elements;
  int64_t rows, length, heads, width, allLength, allHeads;

  Dense(int64_t rows, int64_t length, int64_t heads, int64_t width, int64_t allLength, int64_t allHeads)
      : elements(static_cast<size_t>(rows * length * heads * width)), rows(rows), length(length), heads(heads),
        width(width), allLength(allLength), allHeads(allHeads) {}
  /// Calls each(dense, strided) for the heads of each place in the sequence; false if one may not be touched.
  template <typename Each> bool walk(void *base, bool writes, Each each) {
    const uint64_t bytes = static_cast<uint64_t>(heads * width) * sizeof(uint16_t);
    for (int64_t at = 0; at < rows * length; ++at) {
      uint16_t *there = static_cast<uint16_t *>(base) + (at / length * allLength + at % length) * allHeads * width;
      if (!simt::touches(there, bytes, writes, "cuDNN"))
        return false;
      each(elements.data() + at * heads * width, there, bytes);
    }
    return true;
  }
  bool gather(void *base) {
    return walk(base, false, [](void *dense, const void *there, uint64_t bytes) { std::memcpy(dense, there, bytes); });
  }
  bool scatter(void *base) {
    return walk(base, true, [](const void *dense, void *there, uint64_t bytes) { std::memcpy(there, dense, bytes); });
  }
};

Signature callOf(const AttentionGraph &graph) {
  Attributes attributes = {{"scale", static_cast<double>(graph.scale)}};
  if (graph.left)
    attributes["maxDistance"] = *graph.left - 1;
  if (graph.right)
    attributes["minDistance"] = -*graph.right;
  auto operand = [&](Dims dims, Effect effect, DType type) { return OperandType{type, std::move(dims), effect, true}; };
  const OperandType none{DType::f32, {}, Effect::read, false};
  const Dims query{graph.rows, graph.queries, graph.heads, graph.width},
      key{graph.rows, graph.keys, graph.groups, graph.width},
      value{graph.rows, graph.keys, graph.groups, graph.valueWidth},
      output{graph.rows, graph.queries, graph.heads, graph.valueWidth},
      statistic{graph.rows, graph.heads, graph.queries};
  const OperandType result = operand(output, graph.gradient ? Effect::read : Effect::write, graph.type);
  Signature call{graph.gradient ? "attention_grad" : "attention",
                 attributes,
                 {operand(query, Effect::read, graph.type), operand(key, Effect::read, graph.type),
                  operand(value, Effect::read, graph.type), none, none, none, none, none, none, none, result}};
  if (graph.gradient) {
    call.operands.insert(call.operands.begin(), result); // the result's gradient
    call.operands.insert(call.operands.end(), {operand(statistic, Effect::read, DType::f32),
                                               operand(query, Effect::write, graph.type),
                                               operand(key, Effect::write, graph.type),
                                               operand(value, Effect::write, graph.type),
                                               {DType::f32, {}, Effect::write, false},
                                               {DType::f32, {}, Effect::write, false}});
  } else {
    call.operands.push_back({DType::f32, statistic, Effect::write, graph.statistics});
  }
  return call;
}

Signature callOf(const ConvolutionGraph &graph) {
  using Computes = ConvolutionGraph::Computes;
  const char *const names[] = {"conv", "conv_data_grad", "conv_weight_grad"};
  Signature call{names[static_cast<size_t>(graph.computes)],
                 {{"strides", graph.strides},
                  {"dilations", graph.dilations},
                  {"low", graph.low},
                  {"high", graph.high},
                  {"groups", graph.groups}},
                 {}};
  auto add = [&](const Dims &dims, Effect effect) { call.operands.push_back({graph.type, dims, effect, true}); };
  const bool forward = graph.computes == Computes::result;
  add(forward ? graph.image : graph.result, Effect::read);
  add(graph.computes == Computes::kernel ? graph.image : graph.kernel, Effect::read);
  if (forward)
    call.operands.push_back({DType::f32, {}, Effect::read, false}); // a bias
  add(forward ? graph.result : graph.computes == Computes::image ? graph.image : graph.kernel, Effect::write);
  return call;
}

/// A call on the processor, with scratch of its own.
struct OnCpu {
  Signature call;
  cpu::Run run;

  static Result<OnCpu> prepare(Signature call) {
    if (std::string problem = check(call); !problem.empty())
      return fail("{}", problem);
    if (const uint64_t bytes = workspaceBytes(call, Backend::cpu); bytes > 0)
      call.operands.push_back({DType::u8, {static_cast<int64_t>(bytes)}, Effect::scratch, true});
    MT_ASSIGN(cpu::Run run, cpu::prepare(call));
    return OnCpu{std::move(call), std::move(run)};
  }
  Status operator()(std::vector<void *> operands) const {
    std::vector<double> own;
    operands.resize(call.operands.size(), nullptr);
    if (const OperandType &last = call.operands.back(); last.effect == Effect::scratch) {
      own.resize(last.bytes() / sizeof(double) + 1);
      operands.back() = own.data();
    }
    cpu::ThreadPool pool(1);
    return run({.operands = operands, .accumulate = 0, .pool = pool});
  }
};

} // namespace

Result<GraphRun> prepareGraph(const AttentionGraph &graph, uint64_t scratch, Library &) {
  if (graph.gradient) // as cuDNN's, which has no other way here
    if (const uint64_t pairs = static_cast<uint64_t>(graph.rows * graph.heads * graph.queries * graph.keys) * 2;
        pairs > scratch)
      return fail("needs {} bytes for all pairs, the plan gives {}", pairs, scratch);
  MT_ASSIGN(OnCpu run, OnCpu::prepare(callOf(graph)));
  return GraphRun([graph, scratch, run = std::move(run)](Stream stream, GraphAddresses at, void *workspace) -> Status {
    MT_TRY(stream.launching(kGraphLaunches));
    if (simt::happensInstead(stream.cuda))
      return {};
    auto ofQuery = [&](int64_t width) {
      return Dense(graph.rows, graph.queries, graph.heads, width, graph.allQueries, graph.allHeads);
    };
    auto ofKey = [&](int64_t width) {
      return Dense(graph.rows, graph.keys, graph.groups, width, graph.allKeys, graph.allGroups);
    };
    auto ofKeyGradient = [&](int64_t width) {
      return graph.apart ? Dense(1, graph.keys, 1, width, graph.keys, 1) : ofKey(width);
    };
    auto of = [&](GraphTensor tensor) { return at[static_cast<size_t>(tensor)]; };
    Dense query = ofQuery(graph.width), key = ofKey(graph.width), value = ofKey(graph.valueWidth),
          output = ofQuery(graph.valueWidth), gradient = ofQuery(graph.valueWidth), dquery = ofQuery(graph.width),
          dkey = ofKeyGradient(graph.width), dvalue = ofKeyGradient(graph.valueWidth);
    const uint64_t statistics = static_cast<uint64_t>(graph.rows * graph.heads * graph.queries) * sizeof(float);
    bool may = query.gather(of(GraphTensor::query)) && key.gather(of(GraphTensor::key)) &&
               value.gather(of(GraphTensor::value)) && simt::touches(workspace, scratch, true, "cuDNN");
    if (graph.gradient || graph.statistics)
      may = may && simt::touches(of(GraphTensor::logsumexp), statistics, !graph.gradient, "cuDNN");
    if (graph.gradient)
      may = may && output.gather(of(GraphTensor::output)) && gradient.gather(of(GraphTensor::gradient));
    if (!may)
      return fail("{}", simt::problem());
    std::vector<void *> operands(run.call.operands.size(), nullptr);
    const AttentionOperands place(graph.gradient);
    operands[place.query] = query.elements.data(), operands[place.key] = key.elements.data(),
    operands[place.value] = value.elements.data(), operands[place.output] = output.elements.data();
    operands[place.logsumexp] = of(GraphTensor::logsumexp);
    if (graph.gradient) {
      operands[AttentionOperands::kGradient] = gradient.elements.data(),
      operands[place.dquery] = dquery.elements.data(), operands[place.dkey] = dkey.elements.data(),
      operands[place.dvalue] = dvalue.elements.data();
    }
    MT_TRY(run(std::move(operands)));
    may = graph.gradient ? dquery.scatter(of(GraphTensor::dquery)) && dkey.scatter(of(GraphTensor::dkey)) &&
                               dvalue.scatter(of(GraphTensor::dvalue))
                         : output.scatter(of(GraphTensor::output));
    return may ? Status() : fail("{}", simt::problem());
  });
}

Result<ConvolutionRun> prepareGraph(const ConvolutionGraph &graph, uint64_t scratch, Library &) {
  if (graph.low != graph.high) // so that what goes without cuDNN is seen, too
    return fail("no plan where pads differ");
  MT_ASSIGN(OnCpu run, OnCpu::prepare(callOf(graph)));
  return ConvolutionRun(
      [scratch, run = std::move(run)](Stream stream, ConvolutionAddresses at, void *workspace) -> Status {
        MT_TRY(stream.launching(kConvolutionLaunches));
        if (simt::happensInstead(stream.cuda))
          return {};
        const std::vector<OperandType> &types = run.call.operands;
        const size_t result = types[2].present ? 2 : 3;
        for (void *address : at)
          if (!isGraphAligned(address))
            return fail("an operand of a convolution is not aligned");
        if (!simt::touches(at[0], types[0].bytes(), false, "cuDNN") ||
            !simt::touches(at[1], types[1].bytes(), false, "cuDNN") ||
            !simt::touches(at[2], types[result].bytes(), true, "cuDNN") ||
            !simt::touches(workspace, scratch, true, "cuDNN"))
          return fail("{}", simt::problem());
        std::vector<void *> operands = {at[0], at[1], nullptr, nullptr};
        operands[result] = at[2];
        return run(std::move(operands));
      });
}

} // namespace mt::kernels::cuda

/// The calls that kernels make of the runtime themselves.
extern "C" cudaError_t CUDARTAPI cudaMemcpy2DAsync(void *to, size_t toPitch, const void *from, size_t fromPitch,
                                                   size_t bytes, size_t rows, cudaMemcpyKind, cudaStream_t stream) {
  if (mt::simt::happensInstead(stream))
    return cudaSuccess;
  for (size_t row = 0; row < rows; ++row) {
    void *target = static_cast<char *>(to) + row * toPitch;
    const void *source = static_cast<const char *>(from) + row * fromPitch;
    if (!mt::simt::touches(source, bytes, false, "cudaMemcpy2DAsync") ||
        !mt::simt::touches(target, bytes, true, "cudaMemcpy2DAsync"))
      return cudaErrorInvalidValue;
    std::memcpy(target, source, bytes);
  }
  return cudaSuccess;
}
extern "C" cudaError_t CUDARTAPI cudaMemsetAsync(void *memory, int byte, size_t bytes, cudaStream_t stream) {
  if (mt::simt::happensInstead(stream))
    return cudaSuccess;
  if (!mt::simt::touches(memory, bytes, true, "cudaMemsetAsync"))
    return cudaErrorInvalidValue;
  std::memset(memory, byte, bytes);
  return cudaSuccess;
}
