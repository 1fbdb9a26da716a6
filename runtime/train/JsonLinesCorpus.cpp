// Rows out of .jsonl: one object a line. "tokens" (or the input's own name) are the token input; "labels" the targets,
// without which the tokens' successors are; every other key is named after an input. Short rows are padded.
#include "runtime/base/Json.h"
#include "runtime/base/MappedFile.h"
#include "runtime/train/CorpusForms.h"
#include "runtime/train/Elements.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>

namespace mt::train {
namespace {

using nlohmann::json;

class JsonLinesCorpus : public Corpus {
public:
  JsonLinesCorpus(MappedFile file, const plan::Plan &plan, size_t tokens)
      : file(std::move(file)), plan(plan), tokens(tokens), labels(labelInput(plan)) {
    indexLines();
  }

  int64_t rows() const override { return static_cast<int64_t>(lines.size()); }

  Status read(int64_t row, std::span<std::byte *const> destinations) const override {
    std::string place = lineName(row);
    Result<json> parsed = parseJson(lineText(row));
    if (!parsed || !parsed->is_object())
      return fail("{}: not a JSON object on one line{}", place, parsed ? "" : ": " + parsed.status().message());
    const json &object = *parsed;
    MT_TRY(checkKeys(object).within(place));
    const json *values = find(object, plan.inputs[tokens], "tokens");
    if (!values)
      return fail("{}: no \"tokens\"", place);
    json shifted; // tokens without the last, where that is only a target
    const json *target = labels ? find(object, plan.inputs[*labels], "labels") : nullptr;
    if (labels && !target) {
      MT_TRY(shift(*values, shifted, destinations).within(place));
      values = &shifted;
    } else if (target && target->is_array() && values->is_array() && target->size() != values->size() &&
               plan.inputs[*labels].dims == plan.inputs[tokens].dims) {
      return fail("{}: {} tokens and {} labels", place, values->size(), target->size());
    }
    MT_TRY(put(tokens, *values, destinations).within(place));
    for (size_t n = 0; n < plan.inputs.size(); ++n)
      if (destinations[n] && n != tokens && !(labels && n == *labels && !target))
        MT_TRY(putNamed(n, object, destinations).within(place));
    return Status();
  }

  std::string where(int64_t row, size_t input, int64_t element) const override {
    return fmt::format("{}: '{}', element {}", lineName(row), plan.inputs[input].name, element);
  }

private:
  void indexLines() {
    std::string_view text(reinterpret_cast<const char *>(file.bytes().data()), file.size());
    int64_t number = 0;
    for (size_t at = 0; at < text.size();) {
      size_t end = std::min(text.find('\n', at), text.size());
      ++number;
      if (text.substr(at, end - at).find_first_not_of(" \t\r") != std::string_view::npos)
        lines.push_back({at, end - at, number});
      at = end + 1;
    }
  }
  std::string_view lineText(int64_t row) const {
    const Line &line = lines[static_cast<size_t>(row)];
    return {reinterpret_cast<const char *>(file.bytes().data()) + line.begin, line.length};
  }
  std::string lineName(int64_t row) const {
    return fmt::format("{}:{}", file.path(), lines[static_cast<size_t>(row)].number);
  }

  static const json *find(const json &object, const plan::Input &input, const char *otherName) {
    auto at = object.find(input.name);
    if (at == object.end())
      at = object.find(otherName);
    return at == object.end() ? nullptr : &*at;
  }

  Status checkKeys(const json &object) const {
    for (const auto &[key, value] : object.items()) {
      bool known = key == "tokens" || key == "labels";
      for (const plan::Input &input : plan.inputs)
        known |= input.kind != plan::InputKind::scalars && input.name == key;
      if (!known)
        return fail("\"{}\" belongs to no input of the model, which wants {}", key, describeInputs(plan));
    }
    return Status();
  }

  Status putNamed(size_t n, const json &object, std::span<std::byte *const> destinations) const {
    bool label = labels && n == *labels;
    const json *value = find(object, plan.inputs[n], label ? "labels" : plan.inputs[n].name.c_str());
    if (!value)
      return fail("no \"{}\": the model wants {}", plan.inputs[n].name, describeInputs(plan));
    return put(n, *value, destinations);
  }

  /// Tokens alone: the first up to sequence are the input, their successors the labels.
  Status shift(const json &values, json &shifted, std::span<std::byte *const> destinations) const {
    if (plan.inputs[*labels].dims != plan.inputs[tokens].dims || labelShift(plan.inputs[*labels]) > 1)
      return fail("no \"labels\": the model wants {}", describeInputs(plan));
    if (!values.is_array() || values.size() < 2)
      return fail("\"tokens\" must be a list of two or more where there are no \"labels\"");
    if (labelShift(plan.inputs[*labels]) == 1) { // the model looks for each token's successor itself
      bool oneMore = static_cast<int64_t>(values.size()) == rowElements(plan.inputs[*labels]) + 1; // as of other models
      shifted = json(values.begin(), values.end() - (oneMore ? 1 : 0));
      return put(*labels, shifted, destinations);
    }
    shifted = json(values.begin(), values.end() - 1);
    return put(*labels, json(values.begin() + 1, values.end()), destinations);
  }

  /// A number, or a list of at most the row's elements, into input `n`.
  Status put(size_t n, const json &value, std::span<std::byte *const> destinations) const {
    const plan::Input &input = plan.inputs[n];
    int64_t room = rowElements(input), count = 0;
    if (Status put = putNumbers(input, value, destinations[n], room, count); !put)
      return put.within(fmt::format("\"{}\"", input.name));
    bool sequence = input.dims.size() == 2 && input.dims[1] == plan.settings.sequence;
    if (count > room || count == 0 || (count < room && !sequence))
      return fail("\"{}\" has {} elements, and the model wants rows of {} (cut longer rows, or compile with a larger "
                  "--seq)",
                  input.name, count, room);
    MT_TRY(checkPadding(input, count));
    padRow(input, destinations[n], count);
    return Status();
  }

  /// The numbers of nested lists one after another, from element `count` on, which moves on; as many as there is room
  /// for. No deeper than JSON may nest.
  static Status putNumbers(const plan::Input &input, const json &value, std::byte *row, int64_t room, int64_t &count) {
    if (value.is_array()) {
      for (const json &element : value)
        MT_TRY(putNumbers(input, element, row, room, count));
      return Status();
    }
    if (!value.is_number() && !value.is_boolean())
      return fail("must hold numbers");
    int64_t index = count++;
    if (index >= room)
      return Status();
    Status put = putNumber(input.type, row + index * static_cast<int64_t>(byteSize(input.type)), value);
    return put ? put : put.within(fmt::format("element {}", index));
  }

  static Status putNumber(DType type, std::byte *to, const json &value) {
    if (value.is_number_float()) {
      auto number = value.get<double>();
      return convert(DType::f64, reinterpret_cast<const std::byte *>(&number), type, to, 1);
    }
    if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t(std::numeric_limits<int64_t>::max()))
      return fail("{} does not fit 64 bits", value.get<uint64_t>());
    int64_t number = value.is_boolean() ? value.get<bool>() : value.get<int64_t>();
    return convert(DType::i64, reinterpret_cast<const std::byte *>(&number), type, to, 1);
  }

  struct Line {
    size_t begin, length;
    int64_t number; ///< counted from 1
  };
  MappedFile file;
  const plan::Plan &plan;
  size_t tokens;
  std::optional<size_t> labels;
  std::vector<Line> lines;
};

} // namespace

Result<CorpusPtr> openJsonLines(const std::string &path, const plan::Plan &plan) {
  MT_ASSIGN(size_t tokens, tokenInput(plan, path, true));
  MT_ASSIGN(MappedFile file, MappedFile::open(path));
  auto corpus = std::make_unique<JsonLinesCorpus>(std::move(file), plan, tokens);
  if (corpus->rows() == 0)
    return fail("{}: it has no rows", path);
  return CorpusPtr(std::move(corpus));
}

} // namespace mt::train
