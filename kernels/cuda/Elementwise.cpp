// Elementwise kernels, prepared: which function, and how the operands broadcast.
#include "kernels/cuda/Elementwise.h"

#include "kernels/cuda/Launching.h"

#include <algorithm>
#include <array>

namespace mt::kernels::cuda {
namespace {

struct Named {
  std::string_view name; ///< the kernel's, then "." and its attribute's value where it has one
  Function function;
};
constexpr Named kUnary[] = {{"neg", Function::neg},
                            {"abs", Function::abs},
                            {"sign", Function::sign},
                            {"exp", Function::exp},
                            {"log", Function::log},
                            {"sqrt", Function::sqrt},
                            {"rsqrt", Function::rsqrt},
                            {"tanh", Function::tanh},
                            {"reciprocal", Function::reciprocal},
                            {"erf", Function::erf},
                            {"sin", Function::sin},
                            {"cos", Function::cos},
                            {"atan", Function::atan},
                            {"floor", Function::floor},
                            {"ceil", Function::ceil},
                            {"round", Function::round},
                            {"is_nan", Function::isNan},
                            {"not", Function::invert},
                            {"relu", Function::relu},
                            {"silu", Function::silu},
                            {"gelu.erf", Function::geluErf},
                            {"gelu.tanh", Function::geluTanh},
                            {"softplus", Function::softplus},
                            {"sigmoid", Function::sigmoid},
                            {"gelu.sigmoid", Function::geluSigmoid}};
constexpr Named kBinary[] = {{"add", Function::add},
                             {"sub", Function::sub},
                             {"mul", Function::mul},
                             {"div", Function::div},
                             {"pow", Function::pow},
                             {"maximum", Function::maximum},
                             {"minimum", Function::minimum},
                             {"mod", Function::mod},
                             {"and", Function::bitAnd},
                             {"or", Function::bitOr},
                             {"xor", Function::bitXor},
                             {"compare.eq", Function::equal},
                             {"compare.ne", Function::notEqual},
                             {"compare.lt", Function::less},
                             {"compare.le", Function::lessEqual},
                             {"compare.gt", Function::greater},
                             {"compare.ge", Function::greaterEqual}};
constexpr Named kActivations[] = {{"relu", Function::relu},
                                  {"silu", Function::silu},
                                  {"gelu_erf", Function::geluErf},
                                  {"gelu_tanh", Function::geluTanh},
                                  {"gelu_sigmoid", Function::geluSigmoid},
                                  {"softplus", Function::softplus},
                                  {"sigmoid", Function::sigmoid}};

std::string functionName(const Signature &call) {
  for (std::string_view attribute : {"predicate", "form"})
    if (std::string value = call.text(attribute); !value.empty())
      return call.kernel + "." + value;
  return call.kernel == "gelu" ? "gelu.erf" : call.kernel;
}

Function functionOf(std::span<const Named> table, std::string_view name) {
  return std::ranges::find(table, name, &Named::name)->function; // names come from the catalogue, checked
}

/// Dimensions of the reads, broadcast together.
Dims resultDims(const Signature &call, size_t reads) {
  Dims dims;
  for (size_t i = 0; i < reads; ++i) {
    const Dims &own = call.operands[i].dims;
    if (own.size() > dims.size())
      dims.insert(dims.begin(), own.size() - dims.size(), 1);
    for (size_t j = 0; j < own.size(); ++j) {
      int64_t &dim = dims[dims.size() - own.size() + j];
      dim = std::max(dim, own[j]);
    }
  }
  return dims;
}

struct Elementwise {
  ElementwiseCode code = nullptr;
  Function function = {};
  Views<kMostIn> views;
  std::vector<Bound> reads, writes;
  int64_t total = 1;
  bool packs = true; ///< as far as strides go

  Status build(const Signature &call, size_t readCount);
  Status operator()(const Launch &launch) const;
};

Status Elementwise::build(const Signature &call, size_t readCount) {
  Dims dims = resultDims(call, readCount);
  std::array<Dims, kMostIn> strides;
  for (size_t i = 0; i < strides.size(); ++i)
    strides[i] = i < readCount ? broadcastStrides(call.operands[i].dims, dims) : Dims(dims.size(), 0);
  for (size_t d = 0; d < dims.size(); ++d) {
    if (!views.add(dims[d], {strides[0][d], strides[1][d], strides[2][d]}))
      return fail("{}: the operands' broadcast has more than {} dimensions that do not merge", call.kernel, kMaxDims);
    total *= dims[d];
  }
  for (size_t i = 0; i < call.operands.size(); ++i)
    (i < readCount ? reads : writes).push_back(Bound(call, i));
  packs = views.rank <= 1 || views.inner() % kOctet == 0;
  return {};
}

Status Elementwise::operator()(const Launch &launch) const {
  ElementwiseArguments arguments = {function, total, packs, views, {}, {}};
  for (size_t i = 0; i < reads.size(); ++i) {
    arguments.in[i] = reads[i].in(launch);
    arguments.packed = arguments.packed && (views.innerStride(static_cast<int>(i)) == 0 || reads[i].aligned(launch));
  }
  for (size_t i = 0; i < writes.size(); ++i) {
    arguments.out[i] = writes[i].out(launch);
    arguments.packed = arguments.packed && writes[i].aligned(launch);
  }
  return start(launch.stream, ceilDivide(total, kThreads * kOctet), kThreads, code, arguments);
}

constexpr std::pair<std::string_view, Operation> kOfActivations[] = {
    {"activation_grad", Operation::slope}, {"gated_product", Operation::gate}, {"gated_product_grad", Operation::gateGrad}};

Result<Run> prepareOne(const Signature &call, Library &) {
  const auto reads = static_cast<size_t>(find(call.kernel)->reads);
  const Chosen chosen = chosenOf(call);
  Elementwise made;
  made.function = chosen.function;
  made.code = elementwiseCode(chosen.operation, call.operands[reads - 1].type);
  MT_TRY(made.build(call, reads));
  return Run(std::move(made));
}

std::vector<Entry> makeEntries() {
  std::vector<Entry> entries = {{"select", prepareOne}};
  for (const auto &[kernel, operation] : kOfActivations)
    entries.push_back({kernel, prepareOne});
  for (std::span<const Named> functions : {std::span<const Named>(kUnary), std::span<const Named>(kBinary)})
    for (const Named &named : functions) {
      std::string_view kernel = named.name.substr(0, named.name.find('.'));
      if (std::ranges::find(entries, kernel, &Entry::kernel) == entries.end())
        entries.push_back({kernel, prepareOne});
    }
  return entries;
}

} // namespace

Chosen chosenOf(const Signature &call) {
  if (call.kernel == "select")
    return {Operation::select, Function::select};
  for (const auto &[kernel, operation] : kOfActivations)
    if (call.kernel == kernel)
      return {operation, functionOf(kActivations, call.text("activation"))};
  const std::string name = functionName(call);
  if (std::ranges::find(kUnary, name, &Named::name) != std::end(kUnary))
    return {Operation::unary, functionOf(kUnary, name)};
  return {Operation::binary, functionOf(kBinary, name)};
}

std::span<const Entry> elementwiseEntries() {
  static const std::vector<Entry> entries = makeEntries();
  return entries;
}

} // namespace mt::kernels::cuda
