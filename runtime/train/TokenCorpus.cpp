// Windows out of a stream of tokens: files of uint16 or uint32, the bytes of text, or what a tokenizer made of it.
// Window w covers tokens [w (sequence + 1), (w + 1)(sequence + 1)), or as many tokens later as an epoch shifts them:
// all but the last are the input, all but the first the labels. What remains at the end of the stream is not used; a
// last window that is shifted beyond it goes on at the beginning, so that every epoch has as many.
#include "runtime/base/MappedFile.h"
#include "runtime/base/Utf8.h"
#include "runtime/train/CorpusForms.h"
#include "runtime/train/Elements.h"
#include "runtime/train/EncodeDocuments.h"
#include "runtime/train/StoredTokens.h"
#include "runtime/train/TokenHeader.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

namespace mt::train {
namespace {

/// A run of tokens of one width inside the bytes of a file.
struct Segment {
  std::string path;
  std::span<const std::byte> bytes;
  int64_t begin = 0, count = 0; ///< in tokens of the whole stream
  int width = 1;                ///< bytes of a token: 1, 2 or 4

  /// Tokens from `first` of the segment on.
  void read(int64_t first, std::span<int64_t> tokens) const {
    const std::byte *from = bytes.data() + first * width;
    width == 1 ? widen<uint8_t>(from, tokens) : width == 2 ? widen<uint16_t>(from, tokens) : widen<uint32_t>(from, tokens);
  }

private:
  template <typename T> static void widen(const std::byte *from, std::span<int64_t> tokens) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      T value;
      std::memcpy(&value, from + i * sizeof(T), sizeof(T)); // files and machines are little-endian
      tokens[i] = value;
    }
  }
};

class TokenCorpus : public Corpus {
public:
  TokenCorpus(const plan::Plan &plan, size_t tokens, std::optional<size_t> labels, std::optional<uint32_t> end)
      : plan(plan), tokens(tokens), labels(labels), end(end), length(plan.inputs[tokens].dims[1]),
        shift(labels ? labelShift(plan.inputs[*labels]) : 0) {}

  /// Adds a segment; `file` is what its bytes are in.
  void append(Segment segment, MappedFile file) {
    append(std::move(segment));
    files.push_back(std::move(file));
  }
  /// The same of tokens in memory.
  void append(Segment segment, std::vector<std::byte> bytes) {
    segment.bytes = bytes;
    append(std::move(segment));
    encoded.push_back(std::move(bytes)); // stays where it is
  }

  int64_t rows() const override { return total / (length + 1); }
  std::optional<int64_t> documentEnd() const override { return end; }
  int64_t tokenCount() const { return total; }

  Status read(RowPlace place, std::span<std::byte *const> destinations) const override {
    MT_TRY(readInto(place, tokens, 0, destinations[tokens]));
    return labels ? readInto(place, *labels, 1 - shift, destinations[*labels]) : Status();
  }

  std::string where(RowPlace place, size_t input, int64_t element) const override {
    const int64_t token = tokenAt(place, element + (labels && input == *labels ? 1 - shift : 0));
    const Segment &segment = segments[segmentOf(token)];
    return fmt::format("{}, {} {}", segment.path, segment.width == 1 ? "byte" : "token", token - segment.begin);
  }

private:
  void append(Segment segment) {
    segment.begin = total;
    total += segment.count;
    if (segment.count > 0)
      segments.push_back(std::move(segment));
  }

  /// The token of the stream that is the `index`-th of a window; at the end of the stream it goes on at the beginning.
  int64_t tokenAt(RowPlace place, int64_t index) const {
    const auto later = static_cast<int64_t>(place.shift % static_cast<uint64_t>(length + 1));
    return (place.row * (length + 1) + later + index) % total;
  }

  size_t segmentOf(int64_t token) const {
    auto after = std::upper_bound(segments.begin(), segments.end(), token,
                                  [](int64_t value, const Segment &segment) { return value < segment.begin; });
    return static_cast<size_t>(after - segments.begin() - 1);
  }

  /// `length` tokens of the row's window from its token `skipped` on, in the type of `input`.
  Status readInto(RowPlace place, size_t input, int64_t skipped, std::byte *to) const {
    int64_t at = tokenAt(place, skipped), buffer[512];
    size_t segment = segmentOf(at);
    for (int64_t i = 0, count = 0; i < length; i += count, at += count) {
      if (at == total)
        at = 0, segment = 0;
      while (at >= segments[segment].begin + segments[segment].count)
        ++segment;
      int64_t inside = at - segments[segment].begin;
      count = std::min({length - i, segments[segment].count - inside, int64_t(std::size(buffer))});
      std::span<int64_t> values(buffer, static_cast<size_t>(count));
      segments[segment].read(inside, values);
      MT_TRY(put(place, input, i, values, to));
    }
    return Status();
  }

  /// Elements from `index` on of an input's row.
  Status put(RowPlace place, size_t input, int64_t index, std::span<const int64_t> values, std::byte *to) const {
    DType type = plan.inputs[input].type;
    auto size = static_cast<int64_t>(byteSize(type));
    if (convert(DType::i64, std::as_bytes(values).data(), type, to + index * size, static_cast<int64_t>(values.size())))
      return Status();
    for (size_t i = 0; i < values.size(); ++i)
      if (Status one = convert(DType::i64, std::as_bytes(values.subspan(i)).data(), type, to + index * size, 1); !one)
        return fail("{}: token {} does not fit the model's {}", where(place, input, index + static_cast<int64_t>(i)),
                    values[i], name(type));
    return Status();
  }

  const plan::Plan &plan;
  size_t tokens;
  std::optional<size_t> labels;
  std::optional<int64_t> end;
  int64_t length, shift, total = 0; ///< shift: 1 where the model looks for each token's successor itself
  std::vector<Segment> segments;
  std::vector<MappedFile> files;
  std::vector<std::vector<std::byte>> encoded;
};

/// `end`: what stands behind each document, if that is known.
Result<std::unique_ptr<TokenCorpus>> makeCorpus(const std::string &form, const plan::Plan &plan,
                                                std::optional<uint32_t> end) {
  MT_ASSIGN(size_t tokens, tokenInput(plan, form, false));
  std::optional<size_t> labels = labelInput(plan);
  if (labels && (plan.inputs[*labels].dims != plan.inputs[tokens].dims || labelShift(plan.inputs[*labels]) > 1))
    return fail("{} holds tokens, and this model's labels are {}: use an .npz with arrays of these names ({})", form,
                text(plan.inputs[*labels].dims), describeInputs(plan));
  return std::make_unique<TokenCorpus>(plan, tokens, labels, end);
}

Result<CorpusPtr> finish(std::unique_ptr<TokenCorpus> corpus, const std::string &form, const plan::Plan &plan) {
  if (corpus->rows() == 0)
    return fail("{} is too short: {} tokens, and a window takes {} ({} of the sequence and its last target); give more "
                "data, or compile with a smaller --seq",
                form, corpus->tokenCount(), plan.settings.sequence + 1, plan.settings.sequence);
  return CorpusPtr(std::move(corpus));
}

constexpr int64_t kTokensSeen = 65536; ///< of a file without a header, to judge by

/// Tokens that take more bytes than they are read with: every second one is zero then, others are not.
bool areWider(const Segment &segment) {
  constexpr int64_t kFewest = 64;
  std::vector<int64_t> tokens(static_cast<size_t>(std::min(segment.count, kTokensSeen)));
  segment.read(0, tokens);
  bool isZero[2] = {true, true};
  for (size_t i = 0; i < tokens.size(); ++i)
    isZero[i % 2] = isZero[i % 2] && tokens[i] == 0;
  return segment.count >= kFewest && isZero[1] && !isZero[0];
}

/// With llm.c's header or without.
Result<Segment> tokensOf(const MappedFile &file, int64_t vocabulary) {
  Segment segment{file.path(), file.bytes(), 0, 0, tokenWidth(vocabulary)};
  int32_t header[3] = {};
  if (file.size() >= kTokenHeaderBytes)
    std::memcpy(header, file.bytes().data(), sizeof(header));
  bool known = header[0] == kMagic16 || header[0] == kMagic32;
  if (known) {
    segment.width = header[0] == kMagic16 ? 2 : 4;
    segment.bytes = file.bytes().subspan(kTokenHeaderBytes);
    if (segment.bytes.size() != static_cast<uint64_t>(segment.width) * static_cast<uint32_t>(header[2]))
      return fail("{}: its header says {} tokens, its length {}: the file is damaged or cut short", file.path(),
                  header[2], segment.bytes.size() / static_cast<uint64_t>(segment.width));
  }
  if (segment.bytes.size() % static_cast<uint64_t>(segment.width) != 0)
    return fail("{}: {} bytes are no whole number of {}-bit tokens (of a vocabulary of {})", file.path(),
                segment.bytes.size(), 8 * segment.width, vocabulary);
  segment.count = static_cast<int64_t>(segment.bytes.size()) / segment.width;
  if (!known && areWider(segment))
    return fail(
        "{}: every second one of its first {} tokens is 0, as where wider integers are read as the uint{} that a "
        "vocabulary of {} takes; write them again as those, with numpy's astype(numpy.uint{}), or with llm.c's header "
        "where they are meant so",
        file.path(), std::min(segment.count, kTokensSeen), 8 * segment.width, vocabulary, 8 * segment.width);
  return segment;
}

std::string formName(const std::vector<std::string> &files) {
  return files.size() == 1 ? files.front()
                           : fmt::format("{} ({} files)", std::filesystem::path(files.front()).parent_path().string(),
                                         files.size());
}

} // namespace

Result<CorpusPtr> openTokens(const std::vector<std::string> &files, const plan::Plan &plan,
                             std::optional<uint32_t> end) {
  std::string form = formName(files);
  MT_ASSIGN(std::unique_ptr<TokenCorpus> corpus, makeCorpus(form, plan, end));
  MT_ASSIGN(size_t input, tokenInput(plan, form, false));
  for (const std::string &path : files) {
    MT_ASSIGN(MappedFile file, MappedFile::open(path));
    MT_ASSIGN(Segment segment, tokensOf(file, plan.inputs[input].vocabulary));
    corpus->append(std::move(segment), std::move(file));
  }
  return finish(std::move(corpus), form, plan);
}

Result<CorpusPtr> openText(const std::vector<std::string> &files, const plan::Plan &plan) {
  std::string form = formName(files);
  MT_ASSIGN(std::unique_ptr<TokenCorpus> corpus, makeCorpus(form, plan, std::nullopt));
  for (const std::string &path : files) {
    MT_ASSIGN(MappedFile file, MappedFile::open(path));
    std::string_view text(reinterpret_cast<const char *>(file.bytes().data()), file.size());
    MT_TRY(checkText(file, path == files.front()));
    if (std::optional<size_t> bad = firstBadByte(text))
      return fail("{}: byte {} is not UTF-8 text; other data go into files named .npz, .bin or .jsonl", path, *bad);
    Segment segment{path, file.bytes(), 0, static_cast<int64_t>(file.size()), 1};
    corpus->append(std::move(segment), std::move(file));
  }
  return finish(std::move(corpus), form, plan);
}

Result<CorpusPtr> openEncodedText(const std::vector<std::string> &files, const std::string &tokenizerPath,
                                  const plan::Plan &plan) {
  std::string form = formName(files);
  MT_ASSIGN(std::unique_ptr<tokenizer::Tokenizer> tokenizer, tokenizer::openTokenizer(tokenizerPath));
  MT_ASSIGN(TextDocuments documents, TextDocuments::open(files, tokenizerPath));
  if (documents.areSamples())
    return openSamples(std::move(documents), *tokenizer, tokenizerPath, plan);
  MT_ASSIGN(std::unique_ptr<TokenCorpus> corpus, makeCorpus(form, plan, tokenizer->special().end));
  MT_ASSIGN(size_t input, tokenInput(plan, form, false));
  std::vector<StoredTokens> tokens(files.size(), StoredTokens(tokenizer->vocabularySize()));
  MT_TRY(encodeDocuments(documents, *tokenizer, 0, [&](size_t document, const EncodedDocument &encoded) {
    MT_TRY(checkVocabulary(encoded.tokens, plan.inputs[input].vocabulary, tokenizerPath)
               .within(documents.where(document)));
    tokens[documents.file(document)].append(encoded.tokens);
    return Status();
  }));
  for (size_t i = 0; i < files.size(); ++i) {
    tokens[i].bytes.shrink_to_fit();
    const int64_t count = tokens[i].count(); // before the bytes move
    corpus->append(Segment{files[i], {}, 0, count, tokens[i].width}, std::move(tokens[i].bytes));
  }
  return finish(std::move(corpus), form, plan);
}

} // namespace mt::train
