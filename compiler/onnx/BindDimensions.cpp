#include "compiler/onnx/BindDimensions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

namespace mt::onnx {
namespace {

using ValueInfo = ::onnx::ValueInfoProto;

struct Binding {
  int64_t size = 0;
  std::string place; ///< for messages: "dimension 0 of 'input_ids'"
};

class Binder {
public:
  Binder(const ImportOptions &options, Problems &problems) : options(options), problems(problems) {}
  BoundInputs bind(const ::onnx::GraphProto &graph);

private:
  void findBatches(const std::vector<const ValueInfo *> &inputs, std::vector<std::string> &warnings);
  std::optional<int> saidBatch(const ValueInfo &input);
  /// Takes a dimension for the batch, as the model's symbols say; a warning where it is not the first.
  void take(const ValueInfo &input, int batch, std::vector<std::string> &warnings);
  int batchOf(const ValueInfo &input) const {
    auto at = batches.find(input.name());
    return at == batches.end() ? 0 : at->second;
  }
  std::optional<int64_t> fixedBatch(const std::vector<const ValueInfo *> &inputs) const;
  int sequenceOf(const ValueInfo &input) const { return batchOf(input) == 0 ? 1 : 0; }
  /// Gives dimension `index` of `input` a size that is known beforehand.
  void force(const ValueInfo &input, int index, int64_t size, const char *flag);
  void bindSequence(const std::vector<const ValueInfo *> &inputs);
  std::string dimsOf(const std::vector<const ValueInfo *> &sequences) const;
  void bindNamed();
  void finish(const ValueInfo &input, BoundInput &bound);
  int64_t sizeOf(const ValueInfo &input, int index);

  const ImportOptions &options;
  Problems &problems;
  std::map<std::string, int> batches; ///< the dimension that is the batch, by input
  std::map<std::string, Binding> symbols;
  std::map<std::pair<std::string, int>, int64_t> forced;
  std::set<std::string> used;
  int64_t sequence = 0;
  bool fixesSequence = false;
};

const auto &shapeOf(const ValueInfo &input) { return input.type().tensor_type().shape(); }
/// What --dim calls a dimension that has no name, and --seq that of a sequence.
std::string placeName(const ValueInfo &input, int index) { return fmt::format("{}:{}", input.name(), index); }
std::string place(const ValueInfo &input, int index) {
  return fmt::format("dimension {} of input '{}'", index, input.name());
}
bool isSequenceInput(const ValueInfo &input) {
  std::optional<DType> type = elementType(input.type().tensor_type().elem_type());
  return type && !isFloat(*type) && shapeOf(input).dim_size() == 2;
}

/// Whether a symbol is a usual name of the batch.
bool namesBatch(std::string symbol) {
  static const std::set<std::string> kNames = {"b", "batch", "batch_size", "batchsize", "batch_dim", "bs", "bsz"};
  std::ranges::transform(symbol, symbol.begin(), [](unsigned char c) { return std::tolower(c); });
  return kNames.contains(symbol);
}

/// The first dimension of an input whose symbol is one of `wanted`; -1: none.
int dimensionNamed(const ValueInfo &input, const auto &wanted) {
  for (int d = 0; d < shapeOf(input).dim_size(); ++d)
    if (std::string symbol = symbolOf(shapeOf(input).dim(d));
        !symbol.empty() && !isFixed(shapeOf(input).dim(d)) && wanted(symbol))
      return d;
  return -1;
}

/// What the user says; else a dimension that is called batch; where dimension 0 is fixed, one whose symbol is that of
/// another input's batch, as states of recurrent layers have; else dimension 0.
void Binder::findBatches(const std::vector<const ValueInfo *> &inputs, std::vector<std::string> &warnings) {
  std::set<std::string> others; // symbols of dimensions that are none
  for (const auto &[name, size] : options.dims)
    others.insert(name);
  for (const ValueInfo *input : inputs)
    if (dimensionNamed(*input, namesBatch) == 0)
      for (int d = 1; d < shapeOf(*input).dim_size(); ++d)
        others.insert(symbolOf(shapeOf(*input).dim(d)));
  std::set<std::string> known; // symbols of batches
  std::vector<const ValueInfo *> open;
  for (const ValueInfo *input : inputs) {
    int &batch = batches[input->name()] = 0;
    const int rank = shapeOf(*input).dim_size();
    if (std::optional<int> said = saidBatch(*input))
      batch = *said;
    else if (int named = dimensionNamed(
                 *input, [&](const std::string &symbol) { return namesBatch(symbol) && !others.contains(symbol); });
             named >= 0)
      take(*input, named, warnings);
    else if (rank > 0 && isFixed(shapeOf(*input).dim(0)))
      open.push_back(input); // its dimension 0 has no symbol
    if (rank > 0)
      known.insert(symbolOf(shapeOf(*input).dim(batch)));
  }
  for (const ValueInfo *input : open)
    if (int same = dimensionNamed(*input, [&](const std::string &symbol) { return known.contains(symbol); }); same > 0)
      take(*input, same, warnings);
  for (const auto &[name, dim] : options.batchDims)
    if (!name.empty() && !batches.contains(name))
      problems.push_back(fmt::format("--batch-dim {}: the model has no input of that name", name));
}

/// What --batch-dim says of an input.
std::optional<int> Binder::saidBatch(const ValueInfo &input) {
  const int rank = shapeOf(input).dim_size();
  auto given = options.batchDims.find(input.name());
  if (given == options.batchDims.end())
    given = options.batchDims.find("");
  if (given == options.batchDims.end())
    return std::nullopt;
  if (given->second < rank)
    return static_cast<int>(given->second);
  if (!given->first.empty() || rank > 1)
    problems.push_back(fmt::format("--batch-dim {}={}: input '{}' has {} dimensions, counted from 0", input.name(),
                                   given->second, input.name(), rank));
  return 0;
}

void Binder::take(const ValueInfo &input, int batch, std::vector<std::string> &warnings) {
  batches[input.name()] = batch;
  if (batch > 0)
    warnings.push_back(fmt::format("{} ('{}') is taken as the batch: its data have rows first, as those of every "
                                   "input; --batch-dim {}=0 says otherwise",
                                   place(input, batch), symbolOf(shapeOf(input).dim(batch)), input.name()));
}

std::optional<int64_t> Binder::fixedBatch(const std::vector<const ValueInfo *> &inputs) const {
  std::optional<int64_t> fixed;
  for (const ValueInfo *input : inputs) {
    if (shapeOf(*input).dim_size() == 0)
      continue;
    const auto &dim = shapeOf(*input).dim(batchOf(*input));
    if (!isFixed(dim) || (fixed && *fixed != dim.dim_value()))
      return std::nullopt;
    fixed = dim.dim_value();
  }
  return fixed;
}

void Binder::force(const ValueInfo &input, int index, int64_t size, const char *flag) {
  const auto &dim = shapeOf(input).dim(index);
  if (isFixed(dim)) {
    if (dim.dim_value() != size) {
      const bool mayBeOther = index == 0 && batchOf(input) == 0 && shapeOf(input).dim_size() > 1;
      problems.push_back(fmt::format("{} is {} in the model, but {} was asked for: use {} {}, or export the model with "
                                     "this dimension dynamic{}",
                                     place(input, index), dim.dim_value(), size, flag, dim.dim_value(),
                                     mayBeOther ? fmt::format("; if another dimension is the batch, say which with "
                                                              "--batch-dim {}=N",
                                                              input.name())
                                                : ""));
    }
    forced[{input.name(), index}] = dim.dim_value();
    return;
  }
  forced[{input.name(), index}] = size;
  if (symbolOf(dim).empty())
    return;
  auto [at, fresh] = symbols.emplace(symbolOf(dim), Binding{size, place(input, index)});
  if (!fresh && at->second.size != size)
    problems.push_back(fmt::format("dimension '{}' would be {} as {} and {} as {}: they must agree", symbolOf(dim),
                                   at->second.size, at->second.place, size, place(input, index)));
}

// What was asked for, else the model's own sequence length where it has one; of several that --dim names, or that the
// model fixes, the last, which in an encoder-decoder is the decoder's.
void Binder::bindSequence(const std::vector<const ValueInfo *> &inputs) {
  std::vector<const ValueInfo *> sequences;
  std::optional<int64_t> own;
  for (const ValueInfo *input : inputs)
    if (isSequenceInput(*input)) {
      sequences.push_back(input);
      if (const auto &dim = shapeOf(*input).dim(sequenceOf(*input)); isFixed(dim) && !own)
        own = dim.dim_value();
    }
  fixesSequence = own.has_value();
  if (sequences.empty())
    return;
  sequence = options.sequence.value_or(own.value_or(kDefaultSequence));
  std::optional<int64_t> named;
  bool all = true;
  for (const ValueInfo *input : sequences) {
    const int at = sequenceOf(*input);
    const auto &dim = shapeOf(*input).dim(at);
    std::string name = placeName(*input, at);
    if (!options.dims.contains(name))
      name = placeName(*input, 1); // as --seq INPUT=N says it, wherever the sequence is
    auto given = options.dims.find(name);
    if (given != options.dims.end()) {
      used.insert(name);
      force(*input, at, given->second, fmt::format("--seq {}=", input->name()).c_str());
    } else if (!symbolOf(dim).empty()) {
      given = options.dims.find(symbolOf(dim));
    }
    if (given != options.dims.end()) { // --dim, or --seq by the input's name, speaks for it
      if (options.sequence && given->second != sequence)
        problems.push_back(
            fmt::format("--seq {} and --dim {}={} both bind {}: where inputs have sequences of their own, "
                        "give no --seq and bind each by name, {}",
                        sequence, given->first, given->second, place(*input, at), dimsOf(sequences)));
      named = given->second;
      continue;
    }
    if (isFixed(dim) && !options.sequence) { // the model speaks for it
      forced[{input->name(), at}] = dim.dim_value();
      named = dim.dim_value();
      continue;
    }
    all = false;
    force(*input, at, sequence, "--seq");
  }
  if (all && named)
    sequence = *named;
}

/// "--dim a=N --dim b=N" for the symbols of some inputs' sequences.
std::string Binder::dimsOf(const std::vector<const ValueInfo *> &sequences) const {
  std::set<std::string> symbols;
  for (const ValueInfo *input : sequences)
    if (const auto &dim = shapeOf(*input).dim(sequenceOf(*input)); !symbolOf(dim).empty())
      symbols.insert("--dim " + symbolOf(dim) + "=N");
  return fmt::format("{}", fmt::join(symbols, " "));
}

void Binder::bindNamed() {
  for (const auto &[name, size] : options.dims) {
    if (size <= 0)
      problems.push_back(fmt::format("--dim {}={} must be positive", name, size));
    auto [at, fresh] = symbols.emplace(name, Binding{size, "--dim " + name});
    if (!fresh && at->second.size != size)
      problems.push_back(fmt::format("--dim {}={} contradicts {}, which is {}", name, size, at->second.place,
                                     at->second.size));
  }
}

int64_t Binder::sizeOf(const ValueInfo &input, int index) {
  if (auto at = forced.find({input.name(), index}); at != forced.end())
    return at->second;
  const auto &dim = shapeOf(input).dim(index);
  if (isFixed(dim))
    return dim.dim_value();
  std::string unnamed = placeName(input, index);
  std::string name = symbolOf(dim).empty() ? unnamed : symbolOf(dim);
  used.insert(name);
  if (auto at = symbols.find(name); at != symbols.end())
    return at->second.size;
  problems.push_back(fmt::format("{} ('{}') has no size: give it one with --dim {}=N", place(input, index), name, name));
  return 1;
}

void Binder::finish(const ValueInfo &input, BoundInput &bound) {
  bound.batchDim = batchOf(input);
  bound.dims.resize(static_cast<size_t>(shapeOf(input).dim_size()));
  for (int i = 0; i < shapeOf(input).dim_size(); ++i)
    bound.dims[bound.dataDim(i)] = sizeOf(input, i);
  if (!elementCount(bound.dims)) {
    problems.push_back(fmt::format("input '{}' has the shape {}: negative, or absurdly large", input.name(),
                                   dimsText(bound.dims)));
    bound.dims.assign(bound.dims.size(), 1); // what follows looks for more problems
  }
}

BoundInputs Binder::bind(const ::onnx::GraphProto &graph) {
  std::set<std::string> initialized;
  for (const auto &tensor : graph.initializer())
    initialized.insert(tensor.name());
  std::vector<const ValueInfo *> inputs;
  BoundInputs result;
  for (const ValueInfo &input : graph.input()) {
    if (initialized.contains(input.name()))
      continue;
    std::optional<DType> type = elementType(input.type().tensor_type().elem_type());
    if (!input.type().has_tensor_type() || !input.type().tensor_type().has_shape() || !type) {
      problems.push_back(fmt::format("input '{}' is no tensor of a supported type and known rank ({}): export it as one",
                                     input.name(), onnxTypeName(input.type().tensor_type().elem_type())));
      continue;
    }
    inputs.push_back(&input);
    result.inputs.push_back({input.name(), *type, {}});
  }
  if (!options.asFixed)
    findBatches(inputs, result.warnings);
  for (const ValueInfo *input : inputs)
    if (shapeOf(*input).dim_size() > 0 && !options.asFixed)
      force(*input, batchOf(*input), options.batch, "--batch (or --micro-batch)");
  result.fixedBatch = fixedBatch(inputs);
  if (!options.asFixed)
    bindSequence(inputs);
  bindNamed();
  for (size_t i = 0; i < inputs.size(); ++i)
    finish(*inputs[i], result.inputs[i]);
  for (const auto &[name, size] : options.dims)
    if (!used.contains(name) && symbols[name].place == "--dim " + name)
      problems.push_back(
          fmt::format("--dim {}{}: no input of the model has a dimension of that name", name,
                      name.ends_with(":1") ? fmt::format(", or --seq {}=N", name.substr(0, name.size() - 2)) : ""));
  result.sequence = sequence;
  result.fixesSequence = fixesSequence;
  return result;
}

} // namespace

BoundInputs bindDimensions(const ::onnx::GraphProto &graph, const ImportOptions &options, Problems &problems) {
  return Binder(options, problems).bind(graph);
}

} // namespace mt::onnx
