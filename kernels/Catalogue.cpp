#include "kernels/Catalogue.h"

#include "kernels/catalogue/Checker.h"
#include "kernels/catalogue/Entry.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace mt::kernels {
namespace {

constexpr std::array<std::string_view, 10> kTypeNames = {"f32", "bf16", "f16", "f64", "i64",
                                                         "i32", "i16",  "i8",  "u8",  "bool"};
constexpr std::array<uint64_t, 10> kTypeBytes = {4, 2, 2, 8, 8, 4, 2, 1, 1, 1};
constexpr size_t kMaxRank = 12;
constexpr int64_t kMaxBytes = int64_t{1} << 60;

std::vector<Kernel> collect() {
  std::vector<Kernel> kernels;
  for (auto family : {elementwiseKernels(), expressionKernels(), structureKernels(), indexingKernels(), productKernels(), windowKernels(),
                      normalizationKernels(), recurrenceKernels(), attentionKernels(), lossKernels(), randomKernels(), stepKernels()})
    kernels.insert(kernels.end(), family.begin(), family.end());
  std::ranges::sort(kernels, {}, &Kernel::name);
  return kernels;
}

/// Calls `visit` with every name of an operands line that stands left (or right) of the arrow.
template <typename Visit> void eachOperand(std::string_view line, bool right, Visit visit) {
  bool after = false;
  while (!line.empty()) {
    size_t end = std::min(line.find(' '), line.size());
    std::string_view word = line.substr(0, end);
    line.remove_prefix(std::min(end + 1, line.size()));
    if (word == "->" || word == "=>")
      after = true;
    else if (!word.empty() && after == right)
      visit(word);
  }
}

std::string checkDims(const Signature &call, int operand) {
  const OperandType &type = call.operands[static_cast<size_t>(operand)];
  if (static_cast<size_t>(type.type) >= kTypeNames.size())
    return fmt::format("{} has an unknown element type", operandName(call, operand));
  if (type.dims.size() > kMaxRank)
    return fmt::format("{} has {} dimensions, at most {} are possible", operandName(call, operand), type.dims.size(),
                       kMaxRank);
  int64_t elements = 1;
  for (int64_t dim : type.dims) {
    if (dim < 1)
      return fmt::format("{} is {}: every dimension must be at least 1", operandName(call, operand), text(type.dims));
    if (__builtin_mul_overflow(elements, dim, &elements) || elements > kMaxBytes / 8)
      return fmt::format("{} is {}: too many elements", operandName(call, operand), text(type.dims));
  }
  return "";
}

std::string checkAttribute(const AttributeSpec &spec, const Attribute &value) {
  using Kind = AttributeSpec::Kind;
  const int64_t *integer = std::get_if<int64_t>(&value);
  const std::string *choice = std::get_if<std::string>(&value);
  if (spec.kind == Kind::flag && (!integer || *integer < 0 || *integer > 1))
    return fmt::format("attribute {} must be 0 or 1", spec.name);
  if (spec.kind == Kind::integer && !integer)
    return fmt::format("attribute {} must be an integer", spec.name);
  if (spec.kind == Kind::real && !std::holds_alternative<double>(value))
    return fmt::format("attribute {} must be a real number", spec.name);
  if (spec.kind == Kind::integers && !std::holds_alternative<std::vector<int64_t>>(value))
    return fmt::format("attribute {} must be a list of integers", spec.name);
  if (spec.kind == Kind::values && choice)
    return fmt::format("attribute {} must be a number or a list of numbers", spec.name);
  if (spec.kind == Kind::expression && !choice)
    return fmt::format("attribute {} must be text", spec.name);
  bool known = choice && !choice->empty() && choice->find('|') == std::string::npos &&
               fmt::format("|{}|", spec.choices).find("|" + *choice + "|") != std::string::npos;
  if (spec.kind == Kind::choice && !known)
    return fmt::format("attribute {} must be one of {}", spec.name, spec.choices);
  return "";
}

std::string checkAttributes(const Kernel &kernel, const Signature &call) {
  for (const auto &[name, value] : call.attributes) {
    auto spec = std::ranges::find(kernel.attributes, std::string_view(name), &AttributeSpec::name);
    if (spec == kernel.attributes.end())
      return fmt::format("unknown attribute {}", name);
    if (std::string problem = checkAttribute(*spec, value); !problem.empty())
      return problem;
  }
  for (const AttributeSpec &spec : kernel.attributes)
    if (spec.required && !call.attributes.contains(spec.name))
      return fmt::format("attribute {} is missing", spec.name);
  return "";
}

bool hasScratch(const Signature &call) {
  return !call.operands.empty() && call.operands.back().effect == Effect::scratch;
}

/// How many operands of a call are read: the others come behind them. Where there may be any number of both, its
/// effects tell.
int readsOf(const Kernel &kernel, const Signature &call) {
  const int count = static_cast<int>(call.operands.size()) - (hasScratch(call) ? 1 : 0);
  if (kernel.writes >= 0)
    return count - kernel.writes;
  if (kernel.reads >= 0)
    return kernel.reads;
  return static_cast<int>(
      std::ranges::find_if(call.operands, [](const OperandType &operand) { return operand.effect != Effect::read; }) -
      call.operands.begin());
}

std::string checkOperands(const Kernel &kernel, const Signature &call) {
  int count = static_cast<int>(call.operands.size()) - (hasScratch(call) ? 1 : 0);
  int fewest = std::max(kernel.reads, 0) + std::max(kernel.writes, 0);
  bool any = kernel.reads < 0 || kernel.writes < 0;
  if (any ? count < fewest + 1 : count != fewest)
    return fmt::format("{} operands, want {}{}", count, any ? "at least " : "", any ? fewest + 1 : fewest);
  const int reads = readsOf(kernel, call);
  const bool mayWrite = kernel.reads < 0 && kernel.writes < 0; // in place of an update
  for (int i = 0; i < static_cast<int>(call.operands.size()); ++i) {
    const OperandType &operand = call.operands[static_cast<size_t>(i)];
    Effect wanted = i < reads    ? Effect::read
                    : i >= count ? Effect::scratch
                                 : (kernel.updates ? Effect::update : Effect::write);
    if (operand.effect != wanted && !(wanted == Effect::update && mayWrite && operand.effect == Effect::write))
      return fmt::format("{} has the wrong effect", operandName(call, i));
    bool mayMiss = i < reads ? i < 32 && (kernel.optional >> i & 1) != 0 : i < count && !kernel.updates;
    if (!operand.present && !mayMiss)
      return fmt::format("{} is missing", operandName(call, i));
    if (std::string problem = checkDims(call, i); operand.present && !problem.empty())
      return problem;
  }
  return "";
}

std::string checkScratch(const Signature &call) {
  if (hasScratch(call) && (call.operands.back().type != DType::u8 || call.operands.back().dims.size() != 1))
    return "scratch must be u8 of one dimension";
  return "";
}

} // namespace

uint64_t byteSize(DType type) {
  return static_cast<size_t>(type) < kTypeBytes.size() ? kTypeBytes[static_cast<size_t>(type)] : 1;
}

std::string_view name(DType type) {
  return static_cast<size_t>(type) < kTypeNames.size() ? kTypeNames[static_cast<size_t>(type)] : "unknown";
}

std::optional<DType> dtypeFromName(std::string_view name) {
  auto found = std::ranges::find(kTypeNames, name);
  if (found == kTypeNames.end())
    return std::nullopt;
  return static_cast<DType>(found - kTypeNames.begin());
}

bool isFloat(DType type) {
  return type == DType::f32 || type == DType::bf16 || type == DType::f16 || type == DType::f64;
}

bool isInteger(DType type) { return !isFloat(type) && type != DType::boolean; }

int64_t OperandType::elements() const {
  int64_t product = 1;
  for (int64_t dim : dims)
    product *= dim;
  return product;
}

template <typename T> static T lookUp(const Attributes &attributes, std::string_view name, T otherwise) {
  auto found = attributes.find(name);
  const T *value = found == attributes.end() ? nullptr : std::get_if<T>(&found->second);
  return value ? *value : otherwise;
}

int64_t Signature::integer(std::string_view name, int64_t otherwise) const {
  return lookUp(attributes, name, otherwise);
}
double Signature::real(std::string_view name, double otherwise) const { return lookUp(attributes, name, otherwise); }
std::string Signature::text(std::string_view name, std::string_view otherwise) const {
  return lookUp(attributes, name, std::string(otherwise));
}
std::vector<int64_t> Signature::integers(std::string_view name) const {
  return lookUp(attributes, name, std::vector<int64_t>());
}
std::vector<double> Signature::reals(std::string_view name) const {
  auto found = attributes.find(name);
  if (found == attributes.end())
    return {};
  if (const auto *whole = std::get_if<std::vector<int64_t>>(&found->second))
    return {whole->begin(), whole->end()};
  if (const auto *one = std::get_if<int64_t>(&found->second))
    return {static_cast<double>(*one)};
  if (const auto *one = std::get_if<double>(&found->second))
    return {*one};
  return lookUp(attributes, name, std::vector<double>());
}

Kernel entry(std::string_view name, std::string_view operands, std::string_view summary, std::string_view formula,
             double (*flops)(const Signature &), std::string (*check)(const Signature &), Extra extra) {
  Kernel kernel{.name = name, .summary = summary, .formula = formula};
  kernel.reads = kernel.writes = 0;
  eachOperand(operands, false, [&](std::string_view word) {
    kernel.optional |= word.back() == '?' ? 1u << kernel.reads : 0;
    kernel.reads = word.back() == '*' ? -1 : kernel.reads + 1;
  });
  eachOperand(operands, true, [&](std::string_view word) {
    const bool any = word.find('*') != word.npos;
    kernel.accumulates |= word.back() != '+' ? 0 : any ? ~0U << kernel.writes : 1U << kernel.writes;
    kernel.writes = any ? -1 : kernel.writes + 1;
  });
  kernel.operands = operands;
  kernel.updates = operands.find("=>") != std::string_view::npos;
  kernel.flops = flops;
  kernel.check = check;
  kernel.attributes = extra.attributes;
  kernel.workspace = {extra.workspace, extra.cudaWorkspace ? extra.cudaWorkspace : extra.workspace};
  kernel.traffic = extra.traffic;
  kernel.extents = extra.extents;
  kernel.pieces = extra.pieces;
  return kernel;
}

std::string operandName(const Signature &call, int operand) {
  int count = static_cast<int>(call.operands.size()) - (hasScratch(call) ? 1 : 0);
  if (operand >= count)
    return "scratch";
  const Kernel *kernel = find(call.kernel);
  std::vector<std::string_view> reads, writes;
  if (kernel) {
    eachOperand(kernel->operands, false, [&](std::string_view word) { reads.push_back(word); });
    eachOperand(kernel->operands, true, [&](std::string_view word) { writes.push_back(word); });
  }
  const int first = kernel ? readsOf(*kernel, call) : 0;
  const auto &side = operand >= first ? writes : reads;
  if (side.empty())
    return fmt::format("operand {}", operand);
  size_t place = static_cast<size_t>(operand >= first ? operand - first : operand);
  std::string_view word = side[std::min(place, side.size() - 1)];
  return fmt::format("operand {} ({})", operand, word.substr(0, word.find_last_not_of("?*+") + 1));
}

double noFlops(const Signature &) { return 0; }

double flopsPerResult(const Signature &call) {
  size_t last = call.operands.size() - (hasScratch(call) ? 2 : 1);
  return static_cast<double>(call.operands[last].elements());
}

std::span<const Kernel> all() {
  static const std::vector<Kernel> kernels = collect();
  return kernels;
}

const Kernel *find(std::string_view name) {
  auto found = std::ranges::lower_bound(all(), name, {}, &Kernel::name);
  return found != all().end() && found->name == name ? &*found : nullptr;
}

double flops(const Signature &call) {
  const Kernel *kernel = find(call.kernel);
  return kernel && !call.operands.empty() ? kernel->flops(call) : 0;
}

double traffic(const Signature &call) {
  const Kernel *kernel = find(call.kernel);
  if (kernel && kernel->traffic)
    return kernel->traffic(call);
  double bytes = 0;
  for (const OperandType &operand : call.operands)
    if (operand.effect != Effect::scratch)
      bytes += static_cast<double>(operand.bytes()) * (operand.effect == Effect::update ? 2 : 1);
  return bytes;
}

std::vector<Piece> piecesOf(const Signature &call) {
  const Kernel *kernel = find(call.kernel);
  return kernel && kernel->pieces ? kernel->pieces(call) : std::vector<Piece>{{call, 1}};
}

std::vector<double> extentsOf(const Signature &call) {
  const Kernel *kernel = find(call.kernel);
  return kernel && kernel->extents ? kernel->extents(call) : std::vector<double>{std::max(traffic(call), 1.0)};
}

uint64_t workspaceBytes(const Signature &call, Backend backend) {
  const Kernel *kernel = find(call.kernel);
  auto workspace = kernel ? kernel->workspace[static_cast<size_t>(backend)] : nullptr;
  return workspace ? workspace(call) : 0;
}

std::string check(const Signature &call) {
  const Kernel *kernel = find(call.kernel);
  if (!kernel)
    return fmt::format("unknown kernel \"{}\"", call.kernel);
  std::string problem = checkAttributes(*kernel, call);
  if (problem.empty())
    problem = checkOperands(*kernel, call);
  if (problem.empty())
    problem = kernel->check(call);
  if (problem.empty())
    problem = checkScratch(call);
  return problem.empty() ? "" : fmt::format("{}: {}", call.kernel, problem);
}

std::string checkWorkspace(const Signature &call, Backend backend) {
  uint64_t needed = workspaceBytes(call, backend), there = hasScratch(call) ? call.operands.back().bytes() : 0;
  if (there >= needed)
    return "";
  if (!hasScratch(call))
    return fmt::format("{}: no scratch operand, want one of {} bytes", call.kernel, needed);
  return fmt::format("{}: scratch has {} bytes, want {}", call.kernel, there, needed);
}

} // namespace mt::kernels
