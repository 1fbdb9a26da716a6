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

/// `table` has the functions under the names of the kernels, or of the activations.
Result<Run> prepareWith(const Signature &call, Operation operation, size_t reads, std::span<const Named> table,
                        std::string_view name) {
  Elementwise made;
  made.function = table.empty() ? Function::select : functionOf(table, name);
  made.code = elementwiseCode(operation, call.operands[reads - 1].type);
  MT_TRY(made.build(call, reads));
  return Run(std::move(made));
}

Result<Run> prepareUnary(const Signature &call, Library &) {
  return prepareWith(call, Operation::unary, 1, kUnary, functionName(call));
}
Result<Run> prepareBinary(const Signature &call, Library &) {
  return prepareWith(call, Operation::binary, 2, kBinary, functionName(call));
}
Result<Run> prepareSelect(const Signature &call, Library &) { return prepareWith(call, Operation::select, 3, {}, ""); }
template <Operation operation, size_t reads> Result<Run> prepareActivation(const Signature &call, Library &) {
  return prepareWith(call, operation, reads, kActivations, call.text("activation"));
}

std::vector<Entry> makeEntries() {
  std::vector<Entry> entries = {{"select", prepareSelect},
                                {"activation_grad", prepareActivation<Operation::slope, 2>},
                                {"gated_product", prepareActivation<Operation::gate, 2>},
                                {"gated_product_grad", prepareActivation<Operation::gateGrad, 3>}};
  auto append = [&](std::span<const Named> functions, Prepare prepare) {
    for (const Named &named : functions) {
      std::string_view kernel = named.name.substr(0, named.name.find('.'));
      if (std::ranges::find(entries, kernel, &Entry::kernel) == entries.end())
        entries.push_back({kernel, prepare});
    }
  };
  append(kUnary, prepareUnary);
  append(kBinary, prepareBinary);
  return entries;
}

} // namespace

std::span<const Entry> elementwiseEntries() {
  static const std::vector<Entry> entries = makeEntries();
  return entries;
}

} // namespace mt::kernels::cuda
