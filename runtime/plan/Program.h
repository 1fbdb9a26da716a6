// A plan in memory: plain structs, indices and spans, validated. What the executor and every tool reads; loading
// and saving are in PlanFile.h. Mirrors plan.proto field by field, with mt::kernels types.
#ifndef MT_RUNTIME_PLAN_PROGRAM_H
#define MT_RUNTIME_PLAN_PROGRAM_H

#include "kernels/Catalogue.h"
#include "kernels/Shares.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mt::plan {

using kernels::DType;

struct Span {
  uint32_t space = 0;
  uint64_t offset = 0, bytes = 0;
  bool operator==(const Span &) const = default;
};

/// A device's memory, the host's that links reach, the host's that it alone uses, and a file of the host's.
enum class SpaceKind : uint8_t { device, staging, state, file };
/// What moves between a file and memory goes past the system's cache in blocks of so many bytes: where both begin at
/// multiples.
inline constexpr uint64_t kFileBlock = 4096;
/// Whether it is memory of the host.
constexpr bool isHostMemory(SpaceKind kind) { return kind == SpaceKind::staging || kind == SpaceKind::state; }
struct Space {
  SpaceKind kind = SpaceKind::device;
  uint32_t device = 0;
  uint64_t bytes = 0;
  std::string name;
};

/// What a stream does: copies from the host, runs kernels, copies to the host, works on the host, copies to other
/// devices, copies from files to the host's memory, from there to files, and exchanges with other ranks, from the
/// host's memory or from a device's.
enum class StreamKind : uint8_t { upload, compute, download, host, peer, read, write, network, deviceNetwork };
inline constexpr size_t kStreamKinds = 9;
/// Whether it is the host that carries out its commands.
constexpr bool isOfHost(StreamKind kind) {
  return kind == StreamKind::host || kind == StreamKind::read || kind == StreamKind::write ||
         kind == StreamKind::network;
}
/// Whether it exchanges with other ranks.
constexpr bool isNetwork(StreamKind kind) { return kind == StreamKind::network || kind == StreamKind::deviceNetwork; }
struct Stream {
  StreamKind kind = StreamKind::compute;
  uint32_t device = 0;
  std::string name;
};

/// Names of the parts of a master: the weight, and where that is its upper half, the rest. Other parts are an optimizer's
/// (kernels/Optimizers.h).
inline constexpr std::string_view kWeight = "weight", kRemainder = "remainder";
/// Parts by number, as schedules have them: the weight, the remainder, then what the optimizer keeps in its order.
inline constexpr int64_t kWeightPart = 0, kRemainderPart = 1, kStateParts = 2;
struct Part {
  std::string name;
  DType type = DType::f32;
  Span span;
  int64_t elements = 1; ///< of the parameter for one of the part
};

/// What a parameter holds in place of the numbers of its initial value: these in four bits each, two to a byte, as codes
/// of kernels/Quantized.h's NormalFloat, times one bf16 scale for each block of a row - or those scales.
struct Packing {
  kernels::Dims dims;  ///< of the numbers; rows are of the last dimension
  int64_t block = 0;   ///< of a row's entries; the last of a row may be shorter
  std::string codes;   ///< of scales: the parameter that holds the codes, whose numbers' they are; else empty
  kernels::Dims scaleDims() const;
  friend bool operator==(const Packing &, const Packing &) = default;
};

struct Piece;
/// Where a parameter's first value comes from: bytes of a file if `path` is set, else a generator.
struct Initial {
  std::string path;
  uint64_t offset = 0, length = 0;
  DType type = DType::f32;
  std::string generator; ///< normal, uniform, zeros, ones, constant
  uint64_t seed = 0;
  double deviation = 0, value = 0;
  std::optional<Packing> packing = {};
  std::vector<Piece> pieces = {}; ///< of equal sizes, along the first dimension; then what is above them is not said
  uint64_t sample = 0;            ///< of the file's bytes when the plan was compiled (sampleOf); 0: not taken
};
/// A parameter of the model that is a part of a plan's, as one expert's matrix of all.
struct Piece {
  std::string name;
  Initial initial; ///< without packing or pieces
};

/// Another name of a parameter: of an initializer of the model that holds a copy of it, or of a tensor of the module
/// that the model was exported from.
struct Alias {
  enum class Kind : uint8_t { initializer, module };
  Kind kind = Kind::initializer;
  std::string name;
  bool transposed = false; ///< what has this name is the transpose of the parameter
};
struct Parameter {
  std::string name; ///< of the model's initializer
  std::vector<Alias> aliases;
  kernels::Dims dims;
  bool trainable = false;
  std::string optimizer; ///< of a trainable one
  std::vector<Part> parts;
  Initial initial;

  /// The part of that name, or null.
  const Part *part(std::string_view partName) const;
  /// Of the model's tensor, which codes and scales stand for.
  const kernels::Dims &modelDims() const { return initial.packing ? initial.packing->dims : dims; }
  bool holdsScales() const { return initial.packing && !initial.packing->codes.empty(); }
};

/// What is trained beside a weight W that is not: the model computes with W + scale * up down (Hu et al., LoRA, arXiv
/// 2106.09685). Parameters by index.
struct Adapter {
  uint32_t weight = 0;           ///< [out, in]
  uint32_t down = 0, up = 0;     ///< [rank, in], [out, rank]
  double scale = 1, dropout = 0; ///< dropout: share of the input that training drops before `down`
  bool transposed = false;       ///< the weight is of [in, out]
};

enum class InputKind : uint8_t { data, labels, scalars, rows };
struct Input {
  InputKind kind = InputKind::data;
  std::string name;
  DType type = DType::i64;
  kernels::Dims dims;
  std::vector<Span> parts;
  int64_t vocabulary = 0;
  std::optional<int64_t> ignored = -100; ///< of integer labels: the value that does not count; none: each counts
  std::vector<int64_t> targets = {};     ///< of labels: [begin, end) of the targets in each dimension of a row; empty: all
  /// Whether data say what it holds; else the run does: its scalars, the numbers of the batch's rows.
  bool isOfData() const { return kind == InputKind::data || kind == InputKind::labels; }
};

struct Argument {
  uint64_t bytes = 0;
  kernels::Effect effect = kernels::Effect::read;
};
struct Operand {
  int32_t argument = -1; ///< -1: the workspace
  uint64_t offset = 0;
};
struct Call {
  kernels::Signature signature;  ///< types, dims, effects, presence of the operands, attributes
  std::vector<Operand> operands; ///< where each of them is
  std::string location;
};
struct Template {
  std::string name;
  std::vector<Argument> arguments;
  uint64_t workspaceBytes = 0;
  std::vector<Call> calls;
};

enum class Role : uint8_t { prefetch, compute, offload, update };
/// What bytes are.
enum class ByteKind : uint8_t { unknown, weight, gradient, state, activation, input, scalar, workspace };
enum class BindingEffect : uint8_t { read, write, accumulate, update };
struct Binding {
  Span span;
  BindingEffect effect = BindingEffect::read;
  bool fresh = false;
  ByteKind bytes = ByteKind::unknown; ///< what is bound
  /// The place of rank r is min(r * rankStride, rankReach) bytes behind `span`, which is rank 0's.
  uint64_t rankStride = 0, rankReach = 0;
};
struct Await {
  uint32_t command = 0, back = 0;
  bool operator==(const Await &) const = default;
};
struct Command {
  Role role = Role::compute;
  uint32_t stream = 0;
  std::string label;
  bool isCopy = false;
  Span from, to;                  ///< of a copy
  ByteKind bytes = ByteKind::unknown; ///< what a copy moves
  uint32_t templateIndex = 0;     ///< of a run
  std::vector<Binding> arguments; ///< of a run
  Span workspace;                 ///< of a run
  std::vector<Await> awaits;
  double predictedSeconds = 0;
  int32_t layer = -1, microBatch = -1;
};

/// Besides steps and evaluations: what the last step left pending (finish), and what lives on the device, from the host
/// (load: before the first of them) and back to it (store: after a finish, before the host's bytes are read).
enum class ProgramKind : uint8_t { step, finish, evaluate, load, store };
inline constexpr ProgramKind kProgramKinds[] = {ProgramKind::step, ProgramKind::finish, ProgramKind::evaluate, ProgramKind::load,
                                                ProgramKind::store};
/// Whether consecutive iterations of a program follow each other without a drain: its awaits may then reach one back.
constexpr bool isCyclic(ProgramKind kind) { return kind == ProgramKind::step; }
struct Program {
  ProgramKind kind = ProgramKind::step;
  std::vector<Command> commands;
};

struct Model {
  std::string file, name;
  uint64_t digest = 0;
  int64_t layers = 0, vocabulary = 0;
};
struct Settings {
  int64_t batch = 0, microBatch = 0, sequence = 0;
  std::string loss, precision;
  double labelSmoothing = 0, zLoss = 0; ///< of a cross-entropy in training; evaluations have neither
  std::string optimizer;           ///< of parameters for which no group says another
  std::vector<std::string> groups; ///< of parameters, as ParameterGroups.h reads them
  bool clip = false;
  bool average = false; ///< of the weights: optimizers keep one, too
  /// Decisions in words, such as "input 20, all 12": what of activations is saved, which weights stay on the device, which
  /// activations wait on the host, which updates run under the next step.
  std::string savedActivations, weights, parked, updates;
  bool narrowExchange = false; ///< ranks send each other gradients in 16 bits
  bool everyRowCounts = false; ///< a row changes the loss even where none of its labels counts
  bool lossOfRows = false;     ///< the loss is no mean over labels that count: evaluations weigh batches by their rows
};
/// By kinds of streams: how much longer work on one takes while another works, 0.24 for 1.24 times as long.
using Contention = std::array<std::array<double, kStreamKinds>, kStreamKinds>;
struct Target {
  std::string name, device;
  bool unified = false;
  Contention contention = {};
  std::string isa = {}; ///< that the host's kernels are held to (kernels/InstructionSets.h); empty: none
};
struct Prediction {
  double stepSeconds = 0, computeSeconds = 0, uploadSeconds = 0, downloadSeconds = 0, hostSeconds = 0, diskSeconds = 0;
  double networkSeconds = 0;
  std::string bound;
  double usefulFlops = 0, executedFlops = 0; ///< of a step, on one rank
  uint64_t weightLinkBytes = 0, gradientLinkBytes = 0, activationLinkBytes = 0, stateLinkBytes = 0;
  uint64_t networkBytes = 0; ///< that a rank sends to others in a step
};

struct Plan {
  std::string producer;
  Model model;
  Settings settings;
  Target target;
  std::vector<Space> spaces;
  std::vector<Stream> streams;
  std::vector<Parameter> parameters;
  std::vector<Adapter> adapters;
  std::vector<Input> inputs;
  std::vector<Template> templates;
  std::vector<Program> programs;
  Prediction prediction;
  uint32_t ranks = 1;  ///< processes that run it together, each all of its commands
  uint64_t digest = 0; ///< XXH3-64 of the payload; set by loading and saving

  const Program *program(ProgramKind kind) const;
};

/// How the ranks share a trained parameter: its weight is whole on each, the other parts are of a rank's elements.
kernels::Shares sharesOf(const Plan &plan, const Parameter &parameter);
/// "bf16", and whether frozen weights are packed: what tells apart runs of one model.
std::string describePrecision(const Plan &plan);
/// "causal-lm", or "causal-lm with label smoothing 0.1 and z-loss 0.0001".
std::string describeLoss(const Settings &settings);
/// Bytes that a binding covers on any rank.
Span everyRank(const Binding &binding);

/// Devices that spaces and streams name: at least 1.
uint64_t deviceCount(const Plan &plan);

} // namespace mt::plan
#endif
