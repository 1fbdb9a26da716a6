#include "kernels/SignatureText.h"

#include "kernels/TextParts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace mt::kernels {
namespace {

constexpr std::string_view kArrow = "->", kAbsent = "-";
constexpr size_t kLongest = 4096; ///< characters of a call

std::string printAttribute(const Attribute &value) {
  return std::visit([](const auto &held) { return fmt::format("{}", held); }, value);
}

/// "[1, 2]", spaces or not.
template <typename Number> bool readList(std::string_view text, std::vector<Number> &into) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']')
    return false;
  text = text.substr(1, text.size() - 2);
  for (bool more = !text.empty(); more;) {
    more = text.find(',') != text.npos;
    std::string_view number = upTo(",", text);
    number.remove_prefix(std::min(number.find_first_not_of(' '), number.size()));
    if (!readNumber(number, into.emplace_back()))
      return false;
  }
  return true;
}

template <typename Value> bool readInto(std::string_view text, Attribute &into) {
  Value value{};
  bool read;
  if constexpr (std::is_arithmetic_v<Value>)
    read = readNumber(text, value);
  else
    read = readList(text, value);
  into = std::move(value);
  return read;
}

bool readAttribute(std::string_view text, AttributeSpec::Kind kind, Attribute &into) {
  using Kind = AttributeSpec::Kind;
  switch (kind) {
  case Kind::flag:
  case Kind::integer:
    return readInto<int64_t>(text, into);
  case Kind::real:
    return readInto<double>(text, into);
  case Kind::integers:
    return readInto<std::vector<int64_t>>(text, into);
  case Kind::choice:
  case Kind::expression:
    into = std::string(text);
    return true;
  case Kind::values: // whole numbers where they are written so
    return readInto<int64_t>(text, into) || readInto<double>(text, into) || readInto<std::vector<int64_t>>(text, into) ||
           readInto<std::vector<double>>(text, into);
  }
  return false;
}

std::string readAttributes(std::string_view text, const Kernel &kernel, Attributes &into) {
  while (!text.empty()) {
    std::string_view value = upTo("; ", text);
    const std::string name(upTo("=", value));
    auto spec = std::ranges::find(kernel.attributes, std::string_view(name), &AttributeSpec::name);
    if (spec == kernel.attributes.end())
      return fmt::format("{}: unknown attribute {}", kernel.name, name);
    if (!readAttribute(value, spec->kind, into[name]))
      return fmt::format("{}: attribute {} cannot be '{}'", kernel.name, name, value);
  }
  return "";
}

bool readOperand(std::string_view word, OperandType &into) {
  if (word == kAbsent) {
    into.present = false;
    return true;
  }
  const size_t bracket = std::min(word.find('['), word.size());
  const std::optional<DType> type = dtypeFromName(word.substr(0, bracket));
  if (!type)
    return false;
  into.type = *type;
  return readList(word.substr(bracket), into.dims);
}

} // namespace

std::string print(const Signature &call) {
  std::vector<std::string> attributes;
  for (const auto &[name, value] : call.attributes)
    attributes.push_back(fmt::format("{}={}", name, printAttribute(value)));
  std::string text = call.kernel;
  if (!attributes.empty())
    text += fmt::format("{{{}}}", fmt::join(attributes, "; "));
  bool written = false, undo = false;
  auto arrow = [&] { text += fmt::format(" {}", kArrow), written = true; };
  const Kernel *kernel = find(call.kernel);
  for (const OperandType &operand : call.operands) {
    if (operand.effect == Effect::scratch)
      continue;
    const bool begins = kernel && kernel->updates && written && !undo && operand.effect == Effect::write;
    if ((operand.effect != Effect::read && !written) || begins)
      arrow(), undo = begins;
    text += operand.present ? fmt::format(" {}[{}]", name(operand.type), fmt::join(operand.dims, ",")) : fmt::format(" {}", kAbsent);
  }
  if (!written)
    arrow();
  return text;
}

std::string printWork(Signature call) {
  call.attributes.erase("parameter"), call.attributes.erase("first");
  return print(call);
}

std::string parse(std::string_view text, Signature &call) {
  if (text.size() > kLongest)
    return fmt::format("a call of {} characters; {} are the most", text.size(), kLongest);
  call = {};
  const size_t end = std::min(text.find_first_of(" {"), text.size());
  call.kernel = std::string(text.substr(0, end));
  const Kernel *kernel = find(call.kernel);
  if (!kernel)
    return fmt::format("unknown kernel \"{}\"", call.kernel);
  text.remove_prefix(end);
  if (text.starts_with("{")) {
    std::string_view attributes = upTo("}", text).substr(1);
    if (std::string problem = readAttributes(attributes, *kernel, call.attributes); !problem.empty())
      return problem;
  }
  Effect effect = Effect::read;
  while (!text.empty()) {
    const std::string_view word = upTo(" ", text);
    if (word == kArrow)
      effect = kernel->updates && effect == Effect::read ? Effect::update : Effect::write;
    else if (!word.empty()) {
      call.operands.push_back({DType::f32, {}, effect});
      if (!readOperand(word, call.operands.back()))
        return fmt::format("{}: '{}' is no operand; one is written as f32[2,3]", call.kernel, word);
    }
  }
  return check(call);
}

} // namespace mt::kernels
