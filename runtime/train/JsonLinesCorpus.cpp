// Rows out of .jsonl: one object a line. "tokens" (or the input's own name) are the token input; "labels" the targets,
// without which the tokens' successors are; every other key is named after an input. Short rows are padded.
#include "runtime/base/MappedFile.h"
#include "runtime/train/CorpusForms.h"
#include "runtime/train/Elements.h"
#include "runtime/train/JsonLine.h"

#include <fmt/ranges.h>
#include <simdjson.h>

#include <cstring>
#include <limits>
#include <optional>

namespace mt::train {
namespace {

namespace dom = simdjson::dom;

/// A number or a list, of which only the elements from `begin` to `end` are meant.
struct Values {
  dom::element value;
  size_t begin = 0, end = std::numeric_limits<size_t>::max();
};

/// Elements of a list, where simdjson's own count saturates.
size_t sizeOf(const dom::array &list) {
  return static_cast<size_t>(std::distance(list.begin(), list.end()));
}

class JsonLinesCorpus : public Corpus {
public:
  JsonLinesCorpus(MappedFile file, const plan::Plan &plan, std::optional<size_t> tokens)
      : file(std::move(file)), plan(plan), tokens(tokens), labels(labelInput(plan)),
        lines(jsonLines({reinterpret_cast<const char *>(this->file.bytes().data()), this->file.size()})) {}

  int64_t rows() const override { return static_cast<int64_t>(lines.size()); }

  Status read(RowPlace place, std::span<std::byte *const> destinations) const override {
    Status status = readLine(lineText(place.row), destinations);
    return status ? status : status.within(lineName(place.row));
  }

  std::string where(RowPlace place, size_t input, int64_t element) const override {
    return fmt::format("{}: '{}', element {}", lineName(place.row), plan.inputs[input].name, element);
  }

  /// As many as there are tokens that are no target alone; all, where the line is none that read() takes.
  std::optional<int64_t> filled(int64_t row) const override {
    const int64_t all = rowElements(plan.inputs[tokens.value_or(0)]);
    Result<dom::object> object = parseJsonLine(lineText(row));
    auto fields = object ? fieldsOf(*object) : object.status();
    if (!fields || !tokens || !(*fields)[*tokens] || !(*fields)[*tokens]->is_array())
      return all;
    const dom::array ids((*fields)[*tokens]->get_array().value_unsafe());
    if (std::any_of(ids.begin(), ids.end(), [](dom::element each) { return each.is_array(); }))
      return all;
    const bool shifted = labels && !(*fields)[*labels] && labelShift(plan.inputs[*labels]) == 0;
    return std::clamp<int64_t>(static_cast<int64_t>(sizeOf(ids)) - (shifted ? 1 : 0), 0, all);
  }

private:
  std::string_view lineText(int64_t row) const {
    const JsonLine &line = lines[static_cast<size_t>(row)];
    return {reinterpret_cast<const char *>(file.bytes().data()) + line.begin, line.length};
  }
  std::string lineName(int64_t row) const {
    return fmt::format("{}:{}", file.path(), lines[static_cast<size_t>(row)].number);
  }

  Status readLine(std::string_view text, std::span<std::byte *const> destinations) const {
    MT_ASSIGN(const dom::object object, parseJsonLine(text));
    MT_ASSIGN(auto fields, fieldsOf(object));
    if (tokens)
      MT_TRY(readTokens(fields, destinations));
    for (size_t n = 0; n < plan.inputs.size(); ++n) {
      if (!destinations[n] || n == tokens || (tokens && n == labels && !fields[n]))
        continue;
      if (!fields[n] && saysPlaces(plan, plan.inputs[n]))
        continue;
      if (!fields[n])
        return fail("no \"{}\": the model wants {}", plan.inputs[n].name, describeInputs(plan));
      MT_TRY(put(n, {*fields[n]}, destinations));
    }
    return Status();
  }

  /// The tokens, and the labels where these are their successors.
  Status readTokens(const std::vector<std::optional<dom::element>> &fields,
                    std::span<std::byte *const> destinations) const {
    if (!fields[*tokens])
      return fail("no \"tokens\"");
    Values ids = {*fields[*tokens]};
    if (labels && !fields[*labels])
      MT_TRY(shift(ids, destinations));
    else if (labels && fields[*labels]->is_array() && ids.value.is_array() &&
             plan.inputs[*labels].dims == plan.inputs[*tokens].dims)
      if (size_t own = sizeOf(ids.value), targets = sizeOf(*fields[*labels]); own != targets)
        return fail("{} tokens and {} labels", own, targets);
    return put(*tokens, ids, destinations);
  }

  /// The value of every input that has one: under its name, or as "tokens" and "labels".
  Result<std::vector<std::optional<dom::element>>> fieldsOf(const dom::object &object) const {
    std::vector<std::optional<dom::element>> fields(plan.inputs.size());
    for (const auto &[key, value] : object) {
      std::optional<size_t> n = inputOf(key);
      if (!n && key == "labels") // of a model that has none
        continue;
      if (!n && (key == "text" || key == "prompt" || key == "messages"))
        return fail("\"{}\" is text, and no tokens: say which --tokenizer makes some of it", key);
      if (!n)
        return fail("\"{}\" belongs to no input of the model, which wants {}", key, describeInputs(plan));
      if (fields[*n])
        return fail("\"{}\" is there twice", key);
      fields[*n] = value;
    }
    return fields;
  }

  std::optional<size_t> inputOf(std::string_view key) const {
    for (size_t n = 0; n < plan.inputs.size(); ++n)
      if (plan.inputs[n].isOfData() && plan.inputs[n].name == key)
        return n;
    return key == "tokens" ? tokens : key == "labels" ? labels : std::nullopt;
  }

  /// Tokens alone: their successors become the labels, and `ids` loses the last where that is only a target.
  Status shift(Values &ids, std::span<std::byte *const> destinations) const {
    if (plan.inputs[*labels].dims != plan.inputs[*tokens].dims || labelShift(plan.inputs[*labels]) > 1)
      return fail("no \"labels\": the model wants {}", describeInputs(plan));
    size_t size = ids.value.is_array() ? sizeOf(ids.value) : 0;
    if (size < 2)
      return fail("\"tokens\" must be a list of two or more where there are no \"labels\"");
    if (labelShift(plan.inputs[*labels]) == 1) { // the model looks for each token's successor itself
      bool oneMore = static_cast<int64_t>(size) == rowElements(plan.inputs[*labels]) + 1; // as of other models
      ids.end = size - (oneMore ? 1 : 0);
      return put(*labels, ids, destinations);
    }
    ids.end = size - 1;
    return put(*labels, {ids.value, 1}, destinations);
  }

  /// A number, or a list of at most the row's elements, into input `n`.
  Status put(size_t n, const Values &values, std::span<std::byte *const> destinations) const {
    const plan::Input &input = plan.inputs[n];
    int64_t room = rowElements(input), count = 0;
    if (Status put = putNumbers(input, values, destinations[n], room, count); !put)
      return put.within(fmt::format("\"{}\"", input.name));
    bool sequence = input.dims.size() == 2 && input.dims[1] == plan.settings.sequence;
    if (count > room || count == 0 || (count < room && !sequence))
      return fail("\"{}\" has {} elements, and the model wants rows of {} ({})", input.name, count, room,
                  count > room ? "cut longer rows, or compile with a larger --seq"
                               : "fill shorter ones up: only rows of one number for each token are padded");
    MT_TRY(checkPadding(input, count));
    padRow(input, destinations[n], count);
    return Status();
  }

  /// The numbers of nested lists one after another, from element `count` on, which moves on; as many as there is room
  /// for. Lists of lists are as long as the input's dimension of that level. No deeper than simdjson parses.
  static Status putNumbers(const plan::Input &input, const Values &values, std::byte *row, int64_t room, int64_t &count,
                           size_t level = 1) {
    if (values.value.is_array()) {
      size_t at = 0, lists = 0;
      for (dom::element element : dom::array(values.value)) {
        lists += element.is_array() ? 1 : 0;
        bool meant = at >= values.begin && at < values.end;
        if (meant && count < room && input.type == DType::i64 && element.type() == dom::element_type::INT64) { // as most are
          int64_t number = element.get_int64().value_unsafe();
          std::memcpy(row + count++ * static_cast<int64_t>(sizeof(number)), &number, sizeof(number));
        } else if (meant) {
          MT_TRY(putNumbers(input, {element}, row, room, count, level + 1));
        }
        ++at;
      }
      return lists > 0 || level > 1 ? checkLevel(input, level, at, lists) : Status();
    }
    if (!values.value.is_number() && !values.value.is_bool())
      return fail("must hold numbers");
    int64_t index = count++;
    if (index >= room)
      return Status();
    Status put = putNumber(input.type, row + index * static_cast<int64_t>(byteSize(input.type)), values.value);
    return put ? put : put.within(fmt::format("element {}", index));
  }

  /// Whether a list within a row of several dimensions is as long as they say: of lists, or of all numbers from that
  /// level on.
  static Status checkLevel(const plan::Input &input, size_t level, size_t size, size_t lists) {
    if (input.dims.size() < 3 || level >= input.dims.size())
      return Status();
    int64_t wanted = 1;
    for (size_t i = level; i < (lists > 0 ? level + 1 : input.dims.size()); ++i)
      wanted *= input.dims[i];
    if (static_cast<int64_t>(size) == wanted && (lists == 0 || lists == size))
      return Status();
    const char *what = lists == 0 ? "numbers" : lists == size ? "lists" : "numbers and lists";
    return fail("has a list of {} {} where the model, whose rows are [{}], wants one of {} {}", size, what,
                fmt::join(input.dims.begin() + 1, input.dims.end(), ", "), wanted, lists > 0 ? "lists" : "numbers");
  }

  static Status putNumber(DType type, std::byte *to, dom::element value) {
    dom::element_type kind = value.type();
    if (kind == dom::element_type::DOUBLE) {
      double number = value.get_double();
      return convert(DType::f64, reinterpret_cast<const std::byte *>(&number), type, to, 1);
    }
    if (kind == dom::element_type::UINT64) // above what INT64 holds
      return fail("{} does not fit 64 bits", uint64_t(value));
    int64_t number = kind == dom::element_type::BOOL ? int64_t(bool(value)) : int64_t(value);
    return convert(DType::i64, reinterpret_cast<const std::byte *>(&number), type, to, 1);
  }

  MappedFile file;
  const plan::Plan &plan;
  std::optional<size_t> tokens; ///< the one input of them, if there is one: others go by their names
  std::optional<size_t> labels;
  std::vector<JsonLine> lines;
};

} // namespace

Result<CorpusPtr> openJsonLines(const std::string &path, const plan::Plan &plan) {
  const Result<size_t> found = tokenInput(plan, path, true);
  const std::optional<size_t> tokens = found ? std::optional(*found) : std::nullopt;
  MT_ASSIGN(MappedFile file, MappedFile::open(path));
  auto corpus = std::make_unique<JsonLinesCorpus>(std::move(file), plan, tokens);
  if (corpus->rows() == 0)
    return fail("{}: it has no rows", path);
  return CorpusPtr(std::move(corpus));
}

} // namespace mt::train
