#include "runtime/train/CorpusForms.h"

#include "runtime/base/Threads.h"
#include "runtime/train/CorpusViews.h"
#include "runtime/train/Elements.h"
#include "runtime/train/TokenFolder.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <limits>
#include <mutex>

namespace mt::train {
namespace {

namespace fs = std::filesystem;

/// Elements that are looked at before training starts; a second or so.
constexpr int64_t kScannedElements = int64_t(1) << 27;

enum class Form { arrays, tokens, jsonLines, text };

Form formOf(const std::string &file) {
  std::string extension = endingOf(file);
  if (extension == ".npz")
    return Form::arrays;
  if (extension == ".bin")
    return Form::tokens;
  return extension == ".jsonl" ? Form::jsonLines : Form::text;
}

Result<CorpusPtr> openFiles(const std::vector<std::string> &files, const std::string &tokenizer, const plan::Plan &plan,
                            std::optional<uint32_t> end) {
  Form form = formOf(files.front());
  for (const std::string &file : files)
    if (formOf(file) != form)
      return fail("{} and {} are data of different forms: keep one form in a folder", files.front(), file);
  if (!tokenizer.empty() && form != Form::text && form != Form::jsonLines)
    return fail("--tokenizer is for text: {} needs none", files.front());
  if (!tokenizer.empty())
    return openEncodedText(files, tokenizer, plan);
  if (form == Form::tokens)
    return openTokens(files, plan, end);
  if (form == Form::text)
    return openText(files, plan);
  auto open = form == Form::arrays ? openArrays : openJsonLines;
  if (files.size() == 1)
    return open(files.front(), plan);
  std::vector<SharedCorpus> all;
  for (const std::string &file : files) {
    MT_ASSIGN(SharedCorpus part, open(file, plan));
    all.push_back(std::move(part));
  }
  return concatenate(std::move(all));
}

/// Reads rows and checks their values, on all cores; collects those without a label.
class Scan {
public:
  Scan(const Corpus &corpus, const plan::Plan &plan) : corpus(corpus), plan(plan) {
    int64_t elements = 1;
    for (const plan::Input &input : plan.inputs)
      elements += input.isOfData() ? rowElements(input) : 0;
    rows = std::min(corpus.rows(), std::max<int64_t>(1, kScannedElements / elements));
    piece = std::max<int64_t>(1, kPieceElements / elements);
  }

  /// The error of the first row that has one.
  Status run() {
    onThreads(std::min(coreCount(), static_cast<uint64_t>((rows + piece - 1) / piece)), [this] { work(); });
    std::ranges::sort(unlabelled);
    return failure;
  }
  std::vector<int64_t> unlabelled; ///< rows, in order; the first million that were found

private:
  static constexpr int64_t kPieceElements = 1 << 16;
  static constexpr size_t kMostUnlabelled = 1 << 20;
  const Corpus &corpus;
  const plan::Plan &plan;
  int64_t rows = 0, piece = 1;
  std::atomic<int64_t> next = 0;
  std::mutex mutex;
  int64_t failed = std::numeric_limits<int64_t>::max(); ///< row of `failure`
  Status failure;

  void work() {
    RowBuffer buffer(plan);
    for (int64_t at = next.fetch_add(piece); at < rows; at = next.fetch_add(piece))
      for (int64_t row = at; row < std::min(rows, at + piece); ++row) {
        if (Status status = readRow(corpus, plan, row, buffer.destinations); !status)
          return stop(row, std::move(status));
        if (!isLabelled(buffer))
          note(row);
      }
  }

  bool isLabelled(const RowBuffer &buffer) const {
    for (size_t n = 0; n < plan.inputs.size(); ++n)
      if (plan.inputs[n].kind == plan::InputKind::labels && validLabels(plan.inputs[n], buffer.destinations[n], 1) == 0)
        return false;
    return true;
  }

  void note(int64_t row) {
    std::lock_guard lock(mutex);
    if (unlabelled.size() < kMostUnlabelled)
      unlabelled.push_back(row);
  }

  /// What others have begun may come before `row`, what they have not begun comes after it.
  void stop(int64_t row, Status status) {
    next = rows;
    std::lock_guard lock(mutex);
    if (row < failed) {
      failed = row;
      failure = std::move(status);
    }
  }
};

} // namespace

Result<std::vector<std::string>> corpusFiles(const std::string &path, const std::string &flag) {
  std::error_code error;
  if (!fs::exists(path, error))
    return fail("{} {}: no such file or folder", flag, path);
  if (!fs::is_directory(path, error))
    return std::vector<std::string>{path};
  std::vector<std::string> files;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error))
    if (at->is_regular_file(error) && !at->path().filename().string().starts_with('.'))
      files.push_back(at->path().string());
  if (error)
    return fail("{} {}: {}", flag, path, error.message());
  if (std::ranges::any_of(files, [](const std::string &file) { return formOf(file) == Form::tokens; }))
    std::erase(files, (fs::path(path) / kTokenIndex).string());
  if (files.empty())
    return fail("{} {}: the folder has no files", flag, path);
  std::sort(files.begin(), files.end());
  return files;
}

Result<bool> isText(const std::string &path, bool withTokenizer, const std::string &flag) {
  MT_ASSIGN(std::vector<std::string> files, corpusFiles(path, flag));
  const Form form = formOf(files.front());
  return form == Form::text || (form == Form::jsonLines && withTokenizer);
}

Result<std::unique_ptr<Corpus>> openCorpus(const std::string &path, const std::string &tokenizer,
                                           const plan::Plan &plan) {
  MT_ASSIGN(std::vector<std::string> files, corpusFiles(path));
  std::error_code error;
  std::optional<uint32_t> end;
  if (fs::is_directory(path, error) && formOf(files.front()) == Form::tokens) {
    MT_ASSIGN(end, readTokenIndex(path, files));
  }
  MT_ASSIGN(CorpusPtr corpus, openFiles(files, tokenizer, plan, end));
  MT_ASSIGN(corpus->unlabelled, unlabelledRows(*corpus, plan));
  return corpus;
}

Result<std::vector<int64_t>> unlabelledRows(const Corpus &corpus, const plan::Plan &plan) {
  Scan scan(corpus, plan);
  MT_TRY(scan.run());
  return std::move(scan.unlabelled);
}

namespace {

bool isOfTokens(const plan::Input &input, std::string_view name) {
  return input.kind == plan::InputKind::data && input.name == name && input.dims.size() == 2 && !isFloat(input.type) &&
         byteSize(input.type) >= 4;
}

void putInteger(const plan::Input &input, std::byte *row, int64_t index, int64_t value) {
  auto size = static_cast<int64_t>(byteSize(input.type));
  std::memcpy(row + index * size, &value, static_cast<size_t>(size)); // little-endian: the low bytes come first
}

} // namespace

bool isPositions(const plan::Input &input) { return isOfTokens(input, "position_ids"); }
bool isSegments(const plan::Input &input) { return isOfTokens(input, "segment_ids") && input.vocabulary == 0; }

bool saysPlaces(const plan::Plan &plan, const plan::Input &input) {
  return isSegments(input) || (isPositions(input) && std::ranges::any_of(plan.inputs, isSegments));
}

void putPlaces(const plan::Input &input, std::byte *row, int64_t first, int64_t length, int64_t segment) {
  const bool positions = isPositions(input);
  for (int64_t i = 0; i < length; ++i)
    putInteger(input, row, first + i, positions ? i : segment);
}

int64_t rowElements(const plan::Input &input) {
  int64_t count = 1;
  for (size_t i = 1; i < input.dims.size(); ++i)
    count *= input.dims[i];
  return count;
}

int64_t rowBytes(const plan::Input &input) { return rowElements(input) * static_cast<int64_t>(byteSize(input.type)); }

namespace {

void renameIgnored(const plan::Input &input, std::byte *row) {
  if (input.kind != plan::InputKind::labels || isFloat(input.type) || !input.ignored || *input.ignored == kIgnored)
    return;
  for (int64_t i = 0, count = rowElements(input); i < count; ++i)
    if (integerAt(input.type, row, i) == kIgnored)
      putInteger(input, row, i, *input.ignored);
}

Status checkRow(const Corpus &corpus, const plan::Plan &plan, RowPlace place, std::span<std::byte *const> values) {
  for (size_t n = 0; n < plan.inputs.size(); ++n) {
    const plan::Input &input = plan.inputs[n];
    bool label = input.kind == plan::InputKind::labels;
    if (!values[n] || isFloat(input.type) || (!label && input.vocabulary == 0))
      continue;
    int64_t limit = input.vocabulary == 0 ? std::numeric_limits<int64_t>::max() : input.vocabulary;
    int64_t count = rowElements(input);
    int64_t bad = firstOutside(input.type, values[n], count, limit, label ? input.ignored : std::nullopt);
    if (bad < count && isPositions(input))
      return fail(
          "{}: position {} is beyond the {} that the model has: give shorter sequences, or compile with a smaller "
          "--seq",
          corpus.where(place, n, bad), integerAt(input.type, values[n], bad), input.vocabulary);
    if (bad < count)
      return fail("{}: {} {} is outside the model's vocabulary of {}{}", corpus.where(place, n, bad),
                  label ? "label" : "token", integerAt(input.type, values[n], bad), input.vocabulary,
                  label && !input.ignored ? ", and in the model's loss every label counts: it has no ignore index"
                                          : "");
  }
  return Status();
}

} // namespace

Status readRow(const Corpus &corpus, const plan::Plan &plan, RowPlace place, std::span<std::byte *const> destinations) {
  for (size_t n = 0; n < plan.inputs.size(); ++n)
    if (const plan::Input &input = plan.inputs[n]; destinations[n] && saysPlaces(plan, input)) {
      const int64_t all = rowElements(input);
      padRow(input, destinations[n], 0);
      putPlaces(input, destinations[n], 0, std::min(all, corpus.filled(place.row).value_or(all)), 1);
    }
  MT_TRY(corpus.read(place, destinations));
  for (size_t n = 0; n < plan.inputs.size(); ++n)
    if (destinations[n])
      renameIgnored(plan.inputs[n], destinations[n]);
  return checkRow(corpus, plan, place, destinations);
}

RowBuffer::RowBuffer(const plan::Plan &plan) {
  for (const plan::Input &input : plan.inputs) {
    bool data = input.isOfData();
    bytes.emplace_back(data ? rowBytes(input) : 0);
    destinations.push_back(data ? bytes.back().data() : nullptr);
  }
}

int64_t validLabels(const plan::Input &labels, const std::byte *row, int64_t enough) {
  int64_t valid = 0, elements = rowElements(labels);
  if (isFloat(labels.type))
    return elements;
  for (int64_t i = 0; i < elements && valid < enough; ++i) {
    bool inside = true;
    int64_t place = i;
    for (size_t d = labels.dims.size(); !labels.targets.empty() && d-- > 1; place /= labels.dims[d]) {
      int64_t at = place % labels.dims[d];
      inside &= at >= labels.targets[2 * d - 2] && at < labels.targets[2 * d - 1];
    }
    valid += inside && (!labels.ignored || integerAt(labels.type, row, i) != *labels.ignored);
  }
  return valid;
}

Result<size_t> tokenInput(const plan::Plan &plan, const std::string &form, bool othersToo) {
  std::vector<size_t> found;
  std::string others;
  for (size_t n = 0; n < plan.inputs.size(); ++n) {
    const plan::Input &input = plan.inputs[n];
    if (input.kind == plan::InputKind::data && input.dims.size() == 2 && !isFloat(input.type) &&
        !saysPlaces(plan, input))
      found.push_back(n);
  }
  if (found.size() > 1)
    std::erase_if(found, [&](size_t n) { return plan.inputs[n].vocabulary == 0; });
  if (found.size() != 1)
    return fail("{} holds tokens, and this model has not one input of tokens ({}): use an .npz with arrays of these "
                "names",
                form, describeInputs(plan));
  for (size_t n = 0; n < plan.inputs.size(); ++n)
    if (plan.inputs[n].kind == plan::InputKind::data && n != found.front() && !saysPlaces(plan, plan.inputs[n]))
      others += fmt::format("{}'{}'", others.empty() ? "" : ", ", plan.inputs[n].name);
  if (!othersToo && !others.empty())
    return fail("{} holds tokens only, and this model also wants {}: use .npz or .jsonl", form, others);
  return found.front();
}

std::optional<size_t> labelInput(const plan::Plan &plan) {
  for (size_t n = 0; n < plan.inputs.size(); ++n)
    if (plan.inputs[n].kind == plan::InputKind::labels)
      return n;
  return std::nullopt;
}

std::string describeInputs(const plan::Plan &plan) {
  std::string all;
  for (const plan::Input &input : plan.inputs)
    if (input.isOfData())
      all += fmt::format("{}{} {} {}", all.empty() ? "" : "; ", input.name, name(input.type), text(input.dims));
  return all;
}

void padRow(const plan::Input &input, std::byte *row, int64_t from) {
  auto size = static_cast<int64_t>(byteSize(input.type));
  int64_t count = rowElements(input);
  bool label = input.kind == plan::InputKind::labels && !isFloat(input.type);
  if (!label)
    std::memset(row + from * size, 0, static_cast<size_t>((count - from) * size));
  for (int64_t i = from; label && i < count; ++i)
    putInteger(input, row, i, input.ignored.value_or(kIgnored));
}

Status checkPadding(const plan::Input &input, int64_t have) {
  bool counts = input.kind == plan::InputKind::labels && (isFloat(input.type) || !input.ignored);
  if (have == rowElements(input) || !counts)
    return Status();
  return fail("'{}' has rows of {} of {} labels, and in the model's loss every label counts: {}", input.name, have,
              rowElements(input), isFloat(input.type) ? "give full rows, or compile with a smaller --seq"
                                                      : "it has no ignore index; give full rows, or export the loss with one");
}

int64_t labelShift(const plan::Input &labels) {
  return labels.dims.size() == 2 && !labels.targets.empty() ? labels.targets[0] : 0;
}

} // namespace mt::train
