#include "compiler/onnx/ImportOnnx.h"

#include "compiler/onnx/DrawNumbers.h"
#include "compiler/onnx/GraphImporter.h"
#include "compiler/onnx/MergeExperts.h"
#include "compiler/onnx/RecognizeConstants.h"
#include "compiler/onnx/RetieTensors.h"
#include "compiler/onnx/ValueEvidence.h"
#include "compiler/onnx/WarnMergedTensors.h"
#include "compiler/onnx/WidenTypes.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <fmt/ranges.h>
#include <fnmatch.h>

using namespace mlir;

namespace mt::onnx {
namespace {

constexpr int64_t kOldestOpset = 7, kNewestOpset = 28;
/// Buffers of at most so many elements become constants.
constexpr int64_t kInlineBuffer = 16;

class Importer {
public:
  Importer(MLIRContext &context, const ModelFile &file, const ImportOptions &options, Problems &problems)
      : context(context), file(file), options(options), problems(problems), builder(&context) {}
  FailureOr<ImportedModel> run();
  /// What was found so far, also where run() failed.
  const std::vector<std::string> &warnings() const { return result.warnings; }

private:
  void checkVersions();
  void createFunction();
  void finishFunction(const std::vector<Value> &outputs);
  void eraseDeadOps();
  void decideParameters(std::vector<Candidate> &candidates);
  void applyPatterns(const std::vector<Candidate> &candidates);
  std::vector<std::string> notAsked(const std::vector<Candidate> &candidates, const std::vector<bool> &among) const;
  void warnSinusoids(const std::vector<std::string> &names);
  void warnDetached(const std::vector<std::string> &names);
  void warnConstants(const std::vector<std::string> &names);
  void warnComputed(const std::vector<std::string> &names, bool trained);
  void warnNamedScalars(const std::vector<std::string> &names);
  void warnMergedStatistics(const std::vector<std::string> &names);
  void warnMergedParameters(const std::vector<Candidate> &candidates,
                            const std::map<std::string, std::set<std::string>> &told);
  void warnLeftOut(const std::vector<std::string> &detaches);
  void warnNumbers(const std::vector<Candidate> &candidates, const Folded &folded);
  void warnFolded(const std::vector<Candidate> &candidates, const Folded &folded, const std::vector<bool> &computed);
  bool matches(const std::string &pattern, const Candidate &candidate) const;
  bool isBuffer(size_t candidate) const { return !weight[candidate] && !trainable[candidate]; }
  bool inlineBuffer(const Candidate &candidate);
  void widenStored(const Candidate &candidate);
  void computeAsTrained(const std::vector<Candidate> &candidates);
  void describeArguments(const std::vector<Candidate> &candidates);
  void verify();

  MLIRContext &context;
  const ModelFile &file;
  const ImportOptions &options;
  Problems &problems;
  OpBuilder builder;
  BoundInputs inputs;
  ImportedModel result;
  func::FuncOp function;
  std::vector<bool> trainable;
  std::vector<bool> weight; ///< trained where no pattern says otherwise
};

void Importer::checkVersions() {
  int64_t opset = file.opset();
  if (opset < kOldestOpset)
    problems.push_back(fmt::format("the model uses opset {}: export it again with opset 17 or later, or convert it with "
                                   "onnx.version_converter (oldest supported: {})", opset, kOldestOpset));
  if (opset > kNewestOpset)
    result.warnings.push_back(fmt::format("the model uses opset {}, newer than {}, the newest this version knows: "
                                          "operators are read as of opset {}", opset, kNewestOpset, kNewestOpset));
}

void Importer::createFunction() {
  Location location = FileLineColLoc::get(&context, file.path, 0, 0);
  result.module = ModuleOp::create(location);
  builder.setInsertionPointToEnd(result.module->getBody());
  function = func::FuncOp::create(builder, location, nn::kMainName, builder.getFunctionType({}, {}));
  Block *body = function.addEntryBlock();
  for (const BoundInput &input : inputs.inputs)
    body->addArgument(nn::tensorOf(input.dims, mlirType(&context, input.type)),
                      NameLoc::get(builder.getStringAttr(input.name)));
  builder.setInsertionPointToEnd(body);
}

void Importer::finishFunction(const std::vector<Value> &outputs) {
  func::ReturnOp::create(builder, function.getLoc(), outputs);
  Block &body = function.getBody().front();
  function.setFunctionType(builder.getFunctionType(body.getArgumentTypes(), body.getTerminator()->getOperandTypes()));
  for (int i = 0; i < file.model.graph().output_size(); ++i) {
    result.outputs.push_back(file.model.graph().output(i).name());
    function.setResultAttr(static_cast<unsigned>(i), nn::kOutputAttr, builder.getStringAttr(result.outputs.back()));
  }
}

void Importer::eraseDeadOps() {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.getBody().front())))
    if (isOpTriviallyDead(&op))
      op.erase();
}

//===-- what is trained -----------------------------------------------------------------------------------------===//

bool Importer::matches(const std::string &pattern, const Candidate &candidate) const {
  auto names = [&](const std::string &name) { return !name.empty() && fnmatch(pattern.c_str(), name.c_str(), 0) == 0; };
  return names(candidate.source.name) || names(candidate.origin.name) ||
         llvm::any_of(candidate.aliases, [&](const Alias &alias) { return names(alias.name); });
}

void Importer::applyPatterns(const std::vector<Candidate> &candidates) {
  auto apply = [&](const std::vector<std::string> &patterns, bool train) {
    for (const std::string &pattern : patterns) {
      bool any = false;
      for (size_t i = 0; i < candidates.size(); ++i)
        if (matches(pattern, candidates[i])) {
          any = true;
          trainable[i] = train && isFloat(candidates[i].source.type);
        }
      if (!any)
        problems.push_back(fmt::format("--{} {}: no parameter of the model has such a name",
                                       train ? "train" : "freeze", pattern));
    }
  };
  apply(options.freeze, false);
  apply(options.train, true);
}

// The first few of some names, and how many more there are.
std::string listOf(const std::vector<std::string> &names) {
  constexpr size_t kMost = 6;
  size_t shown = std::min(names.size(), kMost);
  std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<ptrdiff_t>(shown), ", "));
  return shown == names.size() ? text : fmt::format("{} and {} more", text, names.size() - shown);
}

// The names of those that the user's patterns do not speak about.
std::vector<std::string> Importer::notAsked(const std::vector<Candidate> &candidates,
                                            const std::vector<bool> &among) const {
  std::vector<std::string> names;
  for (size_t i = 0; i < candidates.size(); ++i) {
    auto isMeant = [&](const std::string &pattern) { return matches(pattern, candidates[i]); };
    if (among[i] && !llvm::any_of(options.train, isMeant) && !llvm::any_of(options.freeze, isMeant))
      names.push_back(fmt::format("'{}'", candidates[i].source.name));
  }
  return names;
}

// Tables of positions that the exporter may call parameters.
void Importer::warnSinusoids(const std::vector<std::string> &names) {
  if (!names.empty())
    result.warnings.push_back(fmt::format(
        "{} {} sines and cosines of positions: not trained. Models hold such tables fixed, which exporters do not write "
        "down; where this one does not, --train {} trains {}",
        listOf(names), names.size() == 1 ? "holds" : "hold", names[0], names.size() == 1 ? "it" : "the first"));
}

// Parameters behind a detach. PyTorch trains what is added in place to a detached value; its exporter writes the detach
// behind the sum.
void Importer::warnDetached(const std::vector<std::string> &names) {
  if (!names.empty())
    result.warnings.push_back(fmt::format(
        "{} {}, and only detached values depend on {}: not trained. The exporter writes `x += w`, where x is detached, "
        "as if the sum were: write `x = x + w` where w is to be trained",
        listOf(names), names.size() == 1 ? "is a parameter" : "are parameters", names.size() == 1 ? "it" : "them"));
}

// Constants of nodes that are used as weights are, beside weights that are initializers.
void Importer::warnConstants(const std::vector<std::string> &names) {
  if (!names.empty())
    result.warnings.push_back(fmt::format(
        "{} {} of a node, where most weights are initializers: not trained. --train {} trains {}", listOf(names),
        names.size() == 1 ? "is the constant" : "are constants", names[0], names.size() == 1 ? "it" : "the first"));
}

// What the exporter computed of what it did not write down; or of parameters, where it does not name these.
void Importer::warnComputed(const std::vector<std::string> &names, bool trained) {
  if (names.empty())
    return;
  const char *are = names.size() == 1 ? "it is" : "they are", *first = names.size() == 1 ? "it" : "the first";
  result.warnings.push_back(
      trained ? fmt::format(
                    "the exporter computed {}: trained as {}. Where that is of constants alone, --freeze {} holds {}; "
                    "where it is of parameters, export with optimize=False",
                    listOf(names), are, names[0], first)
              : fmt::format(
                    "the exporter computed {}, and no parameter is missing: held as {}. Where that is of a parameter, "
                    "--train {} trains {} beside it; export with optimize=False",
                    listOf(names), are, names[0], first));
}

// Single numbers that only their names tell from those in the model's code.
void Importer::warnNamedScalars(const std::vector<std::string> &names) {
  if (!names.empty())
    result.warnings.push_back(fmt::format(
        "{} {} single {} with {} of the model's own: trained. The file does not say which of these are parameters; "
        "--freeze {} holds {} where it is none",
        listOf(names), names.size() == 1 ? "is a" : "are", names.size() == 1 ? "number" : "numbers",
        names.size() == 1 ? "a name" : "names", names[0], names.size() == 1 ? "it" : "the first"));
}

// Weights that an exporter stored as one tensor with a statistic of the same values, as those of a fresh normalization.
void Importer::warnMergedStatistics(const std::vector<std::string> &names) {
  if (!names.empty())
    result.warnings.push_back(fmt::format(
        "{} {} a weight and a statistic of one normalization: not trained. The exporter stored tensors of equal values "
        "once: export the model with dynamo=True, or with other values in its weights, as after some steps of training",
        listOf(names), names.size() == 1 ? "is both" : "are both"));
}

// Parameters of which notes tell that an optimizer made one initializer of them, as they were equal.
void Importer::warnMergedParameters(const std::vector<Candidate> &candidates,
                                    const std::map<std::string, std::set<std::string>> &told) {
  std::vector<std::string> pairs;
  for (size_t i = 0; i < candidates.size(); ++i)
    if (auto at = told.find(candidates[i].source.name); trainable[i] && at != told.end())
      for (const std::string &name : at->second)
        pairs.push_back(fmt::format("'{}' in '{}'", name, at->first));
  if (!pairs.empty())
    result.warnings.push_back(fmt::format(
        "parameters that were equal when the model was exported are one initializer ({}): each will be "
        "trained as one tensor. If they are separate, export with optimize=False, or after a step of training",
        listOf(pairs)));
}

// What is detached, and is not in the graph.
void Importer::warnLeftOut(const std::vector<std::string> &detaches) {
  if (!detaches.empty())
    result.warnings.push_back(
        fmt::format("the model detaches values ({}), and the exporter left that out: gradients go through them. Export "
                    "with optimize=False",
                    listOf(detaches)));
}

// Single numbers are never trained: of parameters that have uses besides, they are a penalty of weights most likely.
void Importer::warnNumbers(const std::vector<Candidate> &candidates, const Folded &folded) {
  std::vector<std::string> names;
  for (const std::string &name : folded.numbers) {
    auto at = llvm::find_if(candidates, [&](const Candidate &one) { return one.source.name == name; });
    if (folded.isTold && (at == candidates.end() || !trainable[static_cast<size_t>(at - candidates.begin())]))
      names.push_back(fmt::format("'{}'", name));
  }
  if (!names.empty())
    result.warnings.push_back(fmt::format(
        "the exporter computed {}, of one element, and no parameter is missing: held as {}. Where that is "
        "of parameters, as penalties of weights are, no gradient goes through it: export with optimize=False",
        listOf(names), names.size() == 1 ? "it is" : "they are"));
}

void Importer::warnFolded(const std::vector<Candidate> &candidates, const Folded &folded,
                          const std::vector<bool> &computed) {
  if (folded.parameters.empty()) {
    warnComputed(notAsked(candidates, computed), !folded.isTold);
    return warnNumbers(candidates, folded);
  }
  std::vector<std::string> values;
  for (const std::string &value : folded.values) {
    bool trained = false;
    for (size_t i = 0; i < candidates.size(); ++i)
      trained |= trainable[i] && candidates[i].source.name == value;
    values.push_back(fmt::format("'{}' ({})", value, trained ? "trained as it is" : "not trained"));
  }
  result.warnings.push_back(fmt::format(
      "the exporter computed {} from other tensors, and no initializer carries the parameters {}: they are in these "
      "values, or other names of tied ones, or unused. Export with optimize=False to train all of them",
      listOf(values), listOf(folded.parameters)));
}

// Small buffers become constants; larger ones too where they follow a rule (a mask, one value).
bool Importer::inlineBuffer(const Candidate &candidate) {
  if (candidate.source.elements > kEvidenceLimit || candidate.source.generator.kind == "normal")
    return false;
  Result<HostTensor> tensor = readTensor(candidate.source);
  if (!tensor)
    return false;
  builder.setInsertionPointToStart(&function.getBody().front());
  Value constant = candidate.source.elements <= kInlineBuffer
                       ? makeConstant(builder, candidate.argument.getLoc(), *tensor)
                       : recognizeConstant(builder, candidate.argument.getLoc(), *tensor);
  Value argument = candidate.argument;
  if (constant)
    argument.replaceAllUsesWith(constant);
  return static_cast<bool>(constant);
}

void Importer::decideParameters(std::vector<Candidate> &candidates) {
  eraseDeadOps();
  const Folded folded = foldedBy(file.model.graph());
  for (std::string &note : retieTensors(candidates, folded.values))
    result.warnings.push_back(std::move(note));
  Trained decided = decideTrainable(function, candidates);
  trainable = decided.trainable;
  std::vector<bool> computed, detached; // what a detached value is computed of may be trained
  for (size_t i = 0; i < candidates.size(); ++i) {
    const std::string &name = candidates[i].source.name;
    const bool made = llvm::is_contained(folded.made, name);
    detached.push_back(made && stemOf(name) == "detach" && !candidates[i].argument.use_empty());
    computed.push_back(trainable[i] && candidates[i].origin.kind == Origin::Kind::unknown &&
                       llvm::is_contained(folded.values, name));
    trainable[i] = trainable[i] && !made && !(computed[i] && folded.isTold && folded.parameters.empty());
  }
  weight = trainable;
  warnComputed(notAsked(candidates, detached), false);
  applyPatterns(candidates);
  for (size_t i = 0; i < candidates.size(); ++i) // a single number that is held is one of the model's code
    weight[i] = weight[i] && (trainable[i] || !decided.namedScalars[i]);
  warnSinusoids(notAsked(candidates, decided.sinusoids));
  warnDetached(notAsked(candidates, decided.detached));
  warnConstants(notAsked(candidates, decided.constants));
  warnNamedScalars(notAsked(candidates, decided.namedScalars));
  std::vector<bool> merged;
  for (size_t i = 0; i < candidates.size(); ++i)
    merged.push_back(candidates[i].isMerged && !trainable[i]);
  warnMergedStatistics(notAsked(candidates, merged));
  warnFolded(candidates, folded, computed);
  const std::map<std::string, std::set<std::string>> told = mergedInto(file.model.graph());
  warnMergedParameters(candidates, told);
  for (std::string &warning : warnMergedTensors(candidates, trainable, told))
    result.warnings.push_back(std::move(warning));
  for (size_t i = 0; i < candidates.size(); ++i)
    if (isBuffer(i) && isFloat(candidates[i].source.type) && !candidates[i].argument.use_empty())
      inlineBuffer(candidates[i]);
  for (const Candidate &candidate : candidates)
    widenStored(candidate);
  function.setType(builder.getFunctionType(function.getBody().getArgumentTypes(), function.getResultTypes()));
  computeAsTrained(candidates);
  describeArguments(candidates);
  numberDraws(function, result.parameters);
  if (std::string warning = warnIdleDropout(function); !warning.empty())
    result.warnings.push_back(std::move(warning));
}

/// A parameter that the model stores in 16 bits and only computes with in 32 is a 32-bit parameter: loading converts it,
/// and training keeps what 16 bits would lose.
void Importer::widenStored(const Candidate &candidate) {
  Value argument = candidate.argument;
  auto widens = [](Operation *user) { return isa<nn::CastOp>(user) && getElementTypeOrSelf(user->getResult(0).getType()).isF32(); };
  Type stored = getElementTypeOrSelf(argument.getType());
  if (!(stored.isBF16() || stored.isF16()) || argument.use_empty() || !llvm::all_of(argument.getUsers(), widens))
    return;
  argument.setType(nn::tensorOf(nn::shapeOf(argument), builder.getF32Type()));
  for (Operation *cast : SmallVector<Operation *>(argument.getUsers())) {
    cast->getResult(0).replaceAllUsesWith(argument);
    cast->erase();
  }
}

ImportedParameter describe(const Candidate &candidate, bool trainable) {
  const TensorSource &source = candidate.source;
  ImportedParameter parameter;
  parameter.name = source.name;
  parameter.aliases = candidate.aliases;
  parameter.dims = source.dims;
  parameter.storedType = source.type;
  parameter.path = source.bytes.path;
  parameter.offset = source.bytes.offset;
  parameter.length = source.bytes.length;
  parameter.generator = source.generator.kind;
  parameter.seed = source.generator.seed;
  parameter.deviation = source.generator.deviation;
  parameter.value = source.generator.value;
  parameter.trainable = trainable;
  parameter.isRunning = trainable && candidate.isRunning;
  return parameter;
}

/// Optimizers keep 32 bits of every weight: a model that is stored in others and trained is computed in 32 bits, and
/// its weights are written back in its own.
void Importer::computeAsTrained(const std::vector<Candidate> &candidates) {
  for (size_t i = 0; i < candidates.size(); ++i) {
    Type type = getElementTypeOrSelf(candidates[i].argument.getType());
    if (!trainable[i] || candidates[i].argument.use_empty() || !(type.isF16() || type.isF64()))
      continue;
    result.warnings.push_back(
        fmt::format("'{}' is {}, and so may others be: the model is computed in 32 bits, or as --precision "
                    "says; mtrun export writes weights in the types that the model has",
                    candidates[i].source.name, type.isF16() ? "f16" : "f64"));
    return computeIn32Bits(function);
  }
}

void Importer::describeArguments(const std::vector<Candidate> &candidates) {
  std::vector<NamedAttrList> said(function.getNumArguments()); // set at once: every list of them is kept by the context
  for (size_t i = 0; i < inputs.inputs.size(); ++i)
    said[i].set(nn::kInputAttr, builder.getStringAttr(inputs.inputs[i].name));
  llvm::BitVector unused(function.getNumArguments());
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate &candidate = candidates[i];
    unsigned number = candidate.argument.getArgNumber();
    if (candidate.argument.use_empty()) {
      unused.set(number);
      continue;
    }
    said[number].set(nn::kParameterAttr, builder.getStringAttr(candidate.source.name));
    if (trainable[i] || isBuffer(i))
      said[number].set(trainable[i] ? nn::kTrainableAttr : nn::kBufferAttr, builder.getUnitAttr());
    result.parameters.push_back(describe(candidate, trainable[i]));
    if (result.parameters.back().path.empty() && result.parameters.back().generator.empty())
      problems.push_back(fmt::format("initializer '{}' holds its values in a list that cannot be read in place: save the "
                                     "model with raw_data (onnx.numpy_helper does)", candidate.source.name));
  }
  std::vector<DictionaryAttr> attributes;
  for (NamedAttrList &list : said)
    attributes.push_back(list.getDictionary(&context));
  function.setAllArgAttrs(attributes);
  (void)function.eraseArguments(unused);
}

//===-- the whole -----------------------------------------------------------------------------------------------===//

void Importer::verify() {
  ScopedDiagnosticHandler capture(&context, [&](Diagnostic &diagnostic) {
    problems.push_back("the imported graph is not valid: " + diagnostic.str());
    return success();
  });
  if (mlir::failed(mlir::verify(*result.module)) && problems.empty())
    problems.push_back("the imported graph is not valid");
}

FailureOr<ImportedModel> Importer::run() {
  result.warnings = file.warnings;
  checkVersions();
  inputs = bindDimensions(file.model.graph(), options, problems);
  llvm::append_range(result.warnings, inputs.warnings);
  if (!problems.empty() && file.opset() < kOldestOpset)
    return failure();
  createFunction();
  GraphImporter graph(builder, function, file, problems);
  std::vector<Value> outputs = graph.run(inputs);
  if (!problems.empty())
    return failure();
  finishFunction(outputs);
  decideParameters(graph.candidates());
  warnLeftOut(graph.leftOutDetaches());
  mergeExperts(function);
  if (problems.empty())
    verify();
  if (!problems.empty())
    return failure();
  result.inputs = inputs.inputs;
  result.sequence = inputs.sequence;
  result.fixesSequence = inputs.fixesSequence;
  result.digest = digestOf(file);
  return std::move(result);
}

} // namespace

FailureOr<ImportedModel> importOnnx(MLIRContext &context, const ModelFile &file, const std::string &name,
                                    const ImportOptions &options, Problems &problems) {
  context.loadDialect<nn::NnDialect, func::FuncDialect>();
  Importer importer(context, file, options, problems);
  FailureOr<ImportedModel> model = importer.run();
  for (const std::string &warning : mlir::succeeded(model) ? model->warnings : importer.warnings())
    emitWarning(FileLineColLoc::get(&context, name, 0, 0)) << warning;
  return model;
}

FailureOr<ImportedModel> importOnnx(MLIRContext &context, const std::string &path, const ImportOptions &options,
                                    Problems &problems) {
  Result<ModelFile> file = ModelFile::open(path);
  if (file)
    return importOnnx(context, *file, path, options, problems);
  problems.push_back(file.status().message());
  return failure();
}

} // namespace mt::onnx
