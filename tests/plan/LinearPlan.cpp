#include "tests/plan/LinearPlan.h"

#include "runtime/plan/Accesses.h"

#include <fmt/format.h>

#include <algorithm>

namespace mt::tests {
namespace {

using kernels::Attributes;
using kernels::Dims;
using kernels::DType;
using kernels::Effect;
using plan::BindingEffect;
using plan::Role;
using plan::Span;

constexpr int64_t kRows = Linear::kBatch / Linear::kMicroBatches;
constexpr int64_t kScalars = kernels::Scalars::kCount, kScalarRows = 2; ///< of the step, and of the parameter
enum Space : uint32_t { kDevice, kStaging, kState };
enum Stream : uint32_t { kCompute, kHost, kUpload, kDownload };

uint64_t alignUp(uint64_t value) { return (value + 63) / 64 * 64; }

/// A template under construction; the workspace grows with what is asked of it.
class TemplateBuilder {
public:
  explicit TemplateBuilder(std::string name) { code.name = std::move(name); }

  struct Value {
    kernels::OperandType type;
    plan::Operand place;
  };
  Value argument(DType type, Dims dims, Effect effect) {
    Value value{{type, std::move(dims), effect, true}, {static_cast<int32_t>(code.arguments.size()), 0}};
    code.arguments.push_back({value.type.bytes(), effect});
    return value;
  }
  Value temporary(DType type, Dims dims) {
    Value value{{type, std::move(dims), Effect::read, true}, {-1, alignUp(code.workspaceBytes)}};
    code.workspaceBytes = value.place.offset + value.type.bytes();
    return value;
  }
  static Value absent() { return {{DType::f32, {}, Effect::read, false}, {-1, 0}}; }

  TemplateBuilder &call(std::string kernel, Attributes attributes, std::vector<Value> reads, std::vector<Value> writes,
                        Effect writing = Effect::write) {
    plan::Call made;
    made.signature.kernel = std::move(kernel);
    made.signature.attributes = std::move(attributes);
    made.location = "node_" + std::to_string(code.calls.size());
    for (Value &value : reads)
      add(made, value, Effect::read);
    for (Value &value : writes)
      add(made, value, writing);
    uint64_t bytes = std::max(kernels::workspaceBytes(made.signature, kernels::Backend::cpu),
                              kernels::workspaceBytes(made.signature, kernels::Backend::cuda));
    if (bytes > 0) // enough on every device
      add(made, temporary(DType::u8, {static_cast<int64_t>(bytes)}), Effect::scratch);
    code.calls.push_back(std::move(made));
    return *this;
  }
  plan::Template code;

private:
  static void add(plan::Call &call, Value value, Effect effect) {
    value.type.effect = effect;
    call.signature.operands.push_back(value.type);
    call.operands.push_back(value.place);
  }
};

plan::Template feedTemplate() {
  TemplateBuilder b("feed");
  std::vector<TemplateBuilder::Value> parts;
  for (int64_t width : {Linear::kIn, Linear::kOut})
    for (int64_t i = 0; i < Linear::kMicroBatches; ++i)
      parts.push_back(b.argument(DType::f32, {kRows, width}, Effect::write));
  parts.push_back(b.argument(DType::f64, {kScalarRows, kScalars}, Effect::write));
  return b.call("feed", {}, {}, parts).code;
}

/// The weight as an argument, and what products read: itself, or its upper half widened.
struct WeightIn {
  TemplateBuilder::Value argument;
  TemplateBuilder::Value widened(TemplateBuilder &b) const {
    if (argument.type.type == DType::f32)
      return argument;
    auto wide = b.temporary(DType::f32, argument.type.dims);
    b.call("cast", {}, {argument}, {wide});
    return wide;
  }
};

WeightIn weightIn(TemplateBuilder &b, bool split) {
  return {b.argument(split ? DType::bf16 : DType::f32, {Linear::kIn, Linear::kOut}, Effect::read)};
}

plan::Template trainTemplate(bool split) {
  TemplateBuilder b("train");
  auto x = b.argument(DType::f32, {kRows, Linear::kIn}, Effect::read);
  auto target = b.argument(DType::f32, {kRows, Linear::kOut}, Effect::read);
  WeightIn weight = weightIn(b, split);
  auto scalars = b.argument(DType::f64, {kScalars}, Effect::read);
  auto loss = b.argument(DType::f32, {}, Effect::write);
  auto gradient = b.argument(DType::f32, {Linear::kIn, Linear::kOut}, Effect::write);
  auto prediction = b.temporary(DType::f32, {kRows, Linear::kOut});
  auto difference = b.temporary(DType::f32, {kRows, Linear::kOut});
  b.call("matmul", {}, {x, weight.widened(b), TemplateBuilder::absent()}, {prediction});
  b.call("squared_error_grad", {}, {prediction, target, scalars}, {loss, difference});
  b.call("matmul", {{"transposeLhs", int64_t{1}}}, {x, difference, TemplateBuilder::absent()}, {gradient});
  return b.code;
}

plan::Template lossTemplate(bool split) {
  TemplateBuilder b("loss");
  auto x = b.argument(DType::f32, {kRows, Linear::kIn}, Effect::read);
  auto target = b.argument(DType::f32, {kRows, Linear::kOut}, Effect::read);
  WeightIn weight = weightIn(b, split);
  auto scalars = b.argument(DType::f64, {kScalars}, Effect::read);
  auto loss = b.argument(DType::f32, {}, Effect::write);
  auto prediction = b.temporary(DType::f32, {kRows, Linear::kOut});
  b.call("matmul", {}, {x, weight.widened(b), TemplateBuilder::absent()}, {prediction});
  b.call("squared_error", {}, {prediction, target, scalars}, {loss});
  return b.code;
}

plan::Template normTemplate() {
  TemplateBuilder b("norm");
  auto gradient = b.argument(DType::f32, {Linear::kIn, Linear::kOut}, Effect::read);
  auto norm = b.argument(DType::f64, {1}, Effect::write);
  return b.call("squared_norm", {}, {gradient}, {norm}).code;
}

plan::Template stepNormTemplate() {
  TemplateBuilder b("step_norm");
  auto scalars = b.argument(DType::f64, {kScalarRows, kScalars}, Effect::read);
  auto norm = b.argument(DType::f64, {1}, Effect::read);
  auto result = b.argument(DType::f64, {kScalarRows, kScalars}, Effect::write);
  return b.call("step_norm", {}, {scalars, norm}, {result}).code;
}

plan::Template updateTemplate(bool split) {
  TemplateBuilder b("update weight");
  Dims dims = {Linear::kIn, Linear::kOut};
  auto gradient = b.argument(DType::f32, dims, Effect::read);
  auto norm = b.argument(DType::f64, {1}, Effect::read);
  auto scalars = b.argument(DType::f64, {kScalars}, Effect::read);
  std::vector<TemplateBuilder::Value> state = {b.argument(split ? DType::bf16 : DType::f32, dims, Effect::update)};
  if (split)
    state.push_back(b.argument(DType::i16, dims, Effect::update));
  state.push_back(b.argument(DType::f32, dims, Effect::update));
  return b
      .call(split ? "sgd_split" : "sgd", {{"parameter", int64_t{0}}}, {gradient, norm, scalars}, state, Effect::update)
      .code;
}

plan::Template reportTemplate() {
  TemplateBuilder b("report");
  auto loss = b.argument(DType::f32, {}, Effect::read);
  auto scalars = b.argument(DType::f64, {kScalars}, Effect::read);
  return b.call("report", {}, {loss, scalars}, {}).code;
}

enum Code : uint32_t { kFeed, kTrain, kLoss, kNorm, kStepNorm, kUpdate, kReport };

class PlanBuilder {
public:
  PlanBuilder(bool unified, bool split) : unified(unified), split(split) {
    plan.producer = "LinearPlan";
    plan.model = {.file = "/models/linear.onnx", .name = "linear", .digest = 7, .layers = 1, .vocabulary = 0};
    plan.settings = {.batch = Linear::kBatch,
                     .microBatch = kRows,
                     .sequence = 0,
                     .loss = "mse",
                     .precision = split ? "bf16" : "fp32",
                     .optimizer = "sgd",
                     .groups = {},
                     .clip = false,
                     .savedActivations = "all",
                     .weights = unified ? "in place" : "streamed",
                     .parked = "none",
                     .updates = "early"};
    plan.target = {.name = unified ? "cpu" : "cpu-discrete", .device = "cpu", .unified = unified};
    plan.spaces = {{plan::SpaceKind::device, 0, 0, "device"},
                   {plan::SpaceKind::staging, 0, 0, "staging"},
                   {plan::SpaceKind::state, 0, 0, "state"}};
    plan.streams = {{plan::StreamKind::compute, 0, "compute"}, {plan::StreamKind::host, 0, "host"}};
    if (!unified) {
      plan.streams.push_back({plan::StreamKind::upload, 0, "upload"});
      plan.streams.push_back({plan::StreamKind::download, 0, "download"});
    }
    plan.templates = {feedTemplate(),     trainTemplate(split),  lossTemplate(split), normTemplate(),
                      stepNormTemplate(), updateTemplate(split), reportTemplate()};
    placeTables();
  }

  plan::Plan build() {
    addStep();
    plan.programs.push_back({plan::ProgramKind::finish, {}});
    addEvaluate();
    for (plan::Program &program : plan.programs)
      awaitConflicts(program);
    return std::move(plan);
  }

private:
  const bool unified, split;
  plan::Plan plan;
  plan::Program *program = nullptr;
  /// A slot on the host and, where that is another memory, on the device.
  struct Slot {
    Span host, device;
  };
  Slot weight, remainder, momentum, x[2], target[2], scalars, loss, gradient, norm, final;
  Span workspace;

  Span allocate(uint32_t space, uint64_t bytes) {
    Span span{space, alignUp(plan.spaces[space].bytes), bytes};
    plan.spaces[space].bytes = span.offset + bytes;
    return span;
  }
  Slot both(uint64_t bytes) {
    Span host = allocate(kStaging, bytes);
    return {host, unified ? host : allocate(kDevice, bytes)};
  }

  void placeTables() {
    constexpr uint64_t kWeightBytes = Linear::kIn * Linear::kOut * sizeof(float);
    weight = both(split ? kWeightBytes / 2 : kWeightBytes);
    if (split)
      remainder.host = allocate(kState, kWeightBytes / 2);
    momentum.host = allocate(kState, kWeightBytes);
    for (int i = 0; i < Linear::kMicroBatches; ++i) {
      x[i] = both(kRows * Linear::kIn * sizeof(float));
      target[i] = both(kRows * Linear::kOut * sizeof(float));
    }
    scalars = both(kScalarRows * kScalars * sizeof(double));
    loss = both(sizeof(float));
    gradient = both(kWeightBytes);
    norm = both(sizeof(double));
    final.host = allocate(kStaging, kScalarRows * kScalars * sizeof(double));
    uint64_t most = 0;
    for (const plan::Template &code : plan.templates)
      most = std::max(most, code.workspaceBytes);
    workspace = allocate(kDevice, most);
    plan.parameters = {{"weight",
                        {{plan::Alias::Kind::module, "linear.weight", false},
                         {plan::Alias::Kind::initializer, "weight.T", true}},
                        {Linear::kIn, Linear::kOut},
                        true,
                        "sgd",
                        {{std::string(plan::kWeight), split ? DType::bf16 : DType::f32, weight.host},
                         {"first_moment", DType::f32, momentum.host}},
                        {.path = "",
                         .offset = 0,
                         .length = 0,
                         .type = DType::f32,
                         .generator = "normal",
                         .seed = 3,
                         .deviation = 0.5,
                         .value = 0}}};
    if (split)
      plan.parameters[0].parts.push_back({std::string(plan::kRemainder), DType::i16, remainder.host});
    plan.inputs = {{plan::InputKind::data, "x", DType::f32, {Linear::kBatch, Linear::kIn}, {x[0].host, x[1].host}, 0},
                   {plan::InputKind::labels,
                    "labels",
                    DType::f32,
                    {Linear::kBatch, Linear::kOut},
                    {target[0].host, target[1].host},
                    0},
                   {plan::InputKind::scalars, "scalars", DType::f64, {kScalarRows, kScalars}, {scalars.host}, 0}};
  }

  plan::Command &add(Role role, uint32_t stream, std::string label) {
    plan::Command &command = program->commands.emplace_back();
    command.role = role;
    command.stream = stream;
    command.label = std::move(label);
    command.predictedSeconds = 1e-6;
    return command;
  }
  void upload(const Slot &slot, const std::string &what) {
    if (unified)
      return;
    plan::Command &command = add(Role::prefetch, kUpload, "prefetch " + what);
    command.isCopy = true;
    command.from = slot.host;
    command.to = slot.device;
  }
  void download(const Slot &slot, const std::string &what) {
    if (unified)
      return;
    plan::Command &command = add(Role::offload, kDownload, "offload " + what);
    command.isCopy = true;
    command.from = slot.device;
    command.to = slot.host;
  }
  plan::Command &run(Role role, uint32_t stream, std::string label, Code code, std::vector<plan::Binding> arguments) {
    plan::Command &command = add(role, stream, std::move(label));
    command.templateIndex = code;
    command.arguments = std::move(arguments);
    if (plan.templates[code].workspaceBytes > 0)
      command.workspace = workspace;
    return command;
  }
  static Span rowOf(const Span &rows, uint64_t row) {
    constexpr uint64_t kBytes = kScalars * sizeof(double);
    return {rows.space, rows.offset + row * kBytes, kBytes};
  }
  static plan::Binding reads(const Span &span) { return {span, BindingEffect::read, false}; }
  static plan::Binding writes(const Span &span) { return {span, BindingEffect::write, true}; }
  static plan::Binding updates(const Span &span) { return {span, BindingEffect::update, false}; }
  static plan::Binding adds(const Span &span, bool first) {
    return {span, first ? BindingEffect::write : BindingEffect::accumulate, first};
  }

  void addFeed() {
    run(Role::update, kHost, "feed", kFeed,
        {writes(x[0].host), writes(x[1].host), writes(target[0].host), writes(target[1].host), writes(scalars.host)});
    upload(weight, "weight");
    upload(scalars, "scalars");
  }

  void addStep() {
    program = &plan.programs.emplace_back();
    addFeed();
    for (int i = 0; i < Linear::kMicroBatches; ++i) {
      upload(x[i], fmt::format("x {}", i));
      upload(target[i], fmt::format("labels {}", i));
      auto &command = run(Role::compute, kCompute, fmt::format("compute train mb {}", i), kTrain,
                          {reads(x[i].device), reads(target[i].device), reads(weight.device), reads(rowOf(scalars.device, 0)),
                           adds(loss.device, i == 0), adds(gradient.device, i == 0)});
      command.layer = 0;
      command.microBatch = i;
    }
    run(Role::compute, kCompute, "compute norm", kNorm, {reads(gradient.device), writes(norm.device)});
    download(gradient, "gradient");
    download(norm, "norm");
    download(loss, "loss");
    run(Role::update, kHost, "step norm", kStepNorm, {reads(scalars.host), reads(norm.host), writes(final.host)});
    std::vector<plan::Binding> update = {reads(gradient.host), reads(norm.host), reads(rowOf(final.host, 1)),
                                         updates(weight.host)};
    if (split)
      update.push_back(updates(remainder.host));
    update.push_back(updates(momentum.host));
    run(Role::update, kHost, "update weight", kUpdate, update);
    run(Role::update, kHost, "report", kReport, {reads(loss.host), reads(rowOf(final.host, 0))});
  }

  void addEvaluate() {
    program = &plan.programs.emplace_back();
    program->kind = plan::ProgramKind::evaluate;
    addFeed();
    for (int i = 0; i < Linear::kMicroBatches; ++i) {
      upload(x[i], fmt::format("x {}", i));
      upload(target[i], fmt::format("labels {}", i));
      run(Role::compute, kCompute, fmt::format("compute loss mb {}", i), kLoss,
          {reads(x[i].device), reads(target[i].device), reads(weight.device), reads(rowOf(scalars.device, 0)),
           adds(loss.device, i == 0)});
    }
    download(loss, "loss");
    run(Role::update, kHost, "report", kReport, {reads(loss.host), reads(rowOf(scalars.host, 0))});
  }

  static bool conflict(const plan::CommandAccesses &a, const plan::CommandAccesses &b) {
    for (const plan::Access &x : a.accesses)
      for (const plan::Access &y : b.accesses)
        if (x.space == y.space && x.begin < y.end && y.begin < x.end && (x.write || y.write))
          return true;
    return false;
  }

  /// Every command awaits every earlier one on another stream that it conflicts with, of this and the last iteration.
  static void awaitConflicts(plan::Program &program) {
    std::vector<plan::CommandAccesses> accesses;
    for (const plan::Command &command : program.commands)
      accesses.push_back(plan::accessesOf(command));
    bool cyclic = program.kind == plan::ProgramKind::step;
    for (uint32_t i = 0; i < accesses.size(); ++i)
      for (uint32_t j = 0; j < accesses.size(); ++j)
        if (accesses[i].stream != accesses[j].stream && conflict(accesses[i], accesses[j])) {
          if (j < i)
            program.commands[i].awaits.push_back({j, 0});
          if (cyclic)
            program.commands[i].awaits.push_back({j, 1});
        }
  }
};

} // namespace

plan::Plan linearPlan(bool unified, bool split) { return PlanBuilder(unified, split).build(); }

} // namespace mt::tests
