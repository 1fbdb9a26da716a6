#include "runtime/tokenizer/SentencePiece.h"

#include "runtime/base/MappedFile.h"
#include "runtime/base/Utf8.h"
#include "runtime/tokenizer/Cuts.h"
#include "runtime/tokenizer/Model.h"
#include "runtime/tokenizer/ScratchPool.h"
#include "runtime/tokenizer/SentencePieceMerging.h"
#include "runtime/tokenizer/SentencePieceRules.h"
#include "runtime/tokenizer/Unicode.h"
#include "runtime/tokenizer/Viterbi.h"
#include "runtime/tokenizer/sentencepiece.pb.h"

#include <array>
#include <limits>

namespace mt::tokenizer {
namespace {

enum PieceKind { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };
constexpr float kUnknownPenalty = 10;
/// Bytes after which sums of scores begin anew at the next word: in 32 bits they would lose what tells pieces apart.
constexpr size_t kStretch = 1 << 16;
constexpr size_t kLongestPiece = 1024; ///< bytes

/// Of what users defined, in Unigram: above every likelihood, more for longer texts (version 0.2.3).
double userScore(std::string_view text) {
  return static_cast<double>(static_cast<float>(0.1 * static_cast<double>(text.size() - 1)));
}

class SentencePiece : public Tokenizer {
public:
  Status read(const sentencepiece::Model &file) {
    const sentencepiece::Trainer &trainer = file.trainer();
    if (trainer.kind() != 1 && trainer.kind() != 2)
      return fail("models of {} are not supported: Unigram and BPE are", trainer.kind() == 3   ? "words"
                                                                         : trainer.kind() == 4 ? "characters"
                                                                                               : "a kind of their own");
    unigram = trainer.kind() == 1;
    MT_TRY(readPieces(file));
    MT_TRY(readRules(file));
    unknownText = trainer.unknown_text();
    auto named = [&](int32_t id) {
      bool there = id >= 0 && id < file.pieces_size() && file.pieces(id).kind() == kControl;
      return there ? std::optional(static_cast<uint32_t>(id)) : std::nullopt;
    };
    specialTokens.begin = named(trainer.begin());
    specialTokens.end = named(trainer.end());
    specialTokens.padding = named(trainer.padding());
    return Status();
  }

  Status encodeLocating(std::string_view, std::span<const size_t>, std::vector<uint32_t> &,
                        std::vector<size_t> &) const override {
    return fail("which of a .model's tokens are whose is not known: chats need the model's tokenizer.json");
  }

  Status encode(std::string_view text, bool addSpecial, std::vector<uint32_t> &ids) const override {
    std::string normal = rules.apply(text);
    if (normal.size() >= UINT32_MAX)
      return fail("{} bytes of text in one document are too many", normal.size());
    if (addSpecial && specialTokens.begin)
      ids.push_back(*specialTokens.begin);
    std::unique_ptr<Scratch> scratch = pool.take(0);
    Writer writer{*this, ids};
    unigram ? encodeUnigram(normal, *scratch, writer) : encodeBpe(normal, *scratch, writer);
    pool.giveBack(std::move(scratch));
    if (addSpecial && specialTokens.end)
      ids.push_back(*specialTokens.end);
    return Status();
  }

  std::string decode(std::span<const uint32_t> ids, bool skipSpecial) const override {
    std::string text, bytes;
    bool first = true;
    auto flush = [&] {
      text += repaired(bytes);
      bytes.clear();
    };
    for (uint32_t id : ids) {
      const std::string *piece = pieces.token(id);
      if (!piece || kinds[id] == kControl) {
        if (piece && !skipSpecial)
          text += *piece;
        continue;
      }
      if (kinds[id] == kByte) {
        bytes += static_cast<char>(*byteOf(*piece));
        first = false;
        continue;
      }
      flush();
      if (kinds[id] == kUnknown) {
        text += unknownText;
      } else {
        std::string_view rest = *piece;
        if (first && rules.spaceFirst && rest.starts_with(kSpaceMark))
          rest.remove_prefix(kSpaceMark.size());
        putSpaces(rest, text);
      }
      first = false;
    }
    flush();
    return text;
  }

  uint32_t vocabularySize() const override { return pieces.end(); }
  std::optional<uint32_t> find(std::string_view token) const override { return pieces.find(token); }

private:
  Vocabulary pieces;
  std::vector<uint8_t> kinds; ///< PieceKind, by id
  std::array<uint32_t, 256> bytes = {};
  bool unigram = true, byteFallback = false;
  SentencePieceRules rules;
  Viterbi viterbi;
  Cuts cuts;
  SentencePieceMerging merging;
  std::string unknownText;
  mutable ScratchPool pool;

  /// Ids in order: pieces, unknown ones next to each other as one, or their bytes.
  struct Writer {
    const SentencePiece &model;
    std::vector<uint32_t> &ids;
    bool afterUnknown = false;

    void put(std::string_view text, uint32_t id) {
      bool unknown = model.kinds[id] == kUnknown;
      if (unknown && model.byteFallback)
        for (char byte : text)
          ids.push_back(model.bytes[static_cast<uint8_t>(byte)]);
      else if (!unknown || !afterUnknown)
        ids.push_back(id);
      afterUnknown = unknown;
    }
  };

  Status readPieces(const sentencepiece::Model &file) {
    byteFallback = file.trainer().byte_fallback();
    bytes.fill(UINT32_MAX);
    for (const sentencepiece::Piece &piece : file.pieces()) {
      uint32_t id = pieces.end();
      if (piece.text().empty() || !isUtf8(piece.text()))
        return fail("piece {} is empty or not UTF-8", id);
      if (piece.kind() < kNormal || piece.kind() > kByte)
        return fail("piece {} is of the kind {}, which is not supported", id, piece.kind());
      if (piece.text().size() > kLongestPiece)
        return fail("piece {} has {} bytes: {} are supported", id, piece.text().size(), kLongestPiece);
      if (piece.kind() == kUnused && !unigram)
        return fail("piece {}, \"{}\", is of the kind \"unused\", which is not supported with BPE", id, piece.text());
      if (pieces.find(piece.text()))
        return fail("piece {}, \"{}\", is there twice", id, piece.text());
      MT_TRY(pieces.add(piece.text(), id));
      kinds.push_back(static_cast<uint8_t>(piece.kind()));
      if (piece.kind() == kUnknown && specialTokens.unknown)
        return fail("pieces {} and {} are both the unknown one", *specialTokens.unknown, id);
      if (piece.kind() == kUnknown)
        specialTokens.unknown = id;
      std::optional<uint8_t> byte = piece.kind() == kByte ? byteOf(piece.text()) : std::nullopt;
      if (piece.kind() == kByte && !byte)
        return fail("piece {}, \"{}\", is of the kind of bytes and names none", id, piece.text());
      if (byte)
        bytes[*byte] = id;
    }
    if (!specialTokens.unknown)
      return fail("no piece is the unknown one");
    for (size_t byte = 0; byte < bytes.size() && byteFallback; ++byte)
      if (bytes[byte] == UINT32_MAX)
        return fail("characters fall back to bytes, and \"{}\" is no piece", byteToken(static_cast<uint8_t>(byte)));
    return readScores(file);
  }

  Status readScores(const sentencepiece::Model &file) {
    std::vector<SentencePieceMerging::Piece> joined;
    float least = std::numeric_limits<float>::max();
    for (const sentencepiece::Piece &piece : file.pieces())
      if (piece.kind() == kNormal)
        least = std::min(least, piece.score());
    viterbi.single = true;
    viterbi.unknownId = *specialTokens.unknown;
    viterbi.unknownScore = static_cast<double>(least - kUnknownPenalty);
    for (uint32_t id = 0; id < pieces.end(); ++id) {
      const std::string &text = *pieces.token(id);
      float score = file.pieces(static_cast<int>(id)).score();
      viterbi.scores.push_back(kinds[id] == kUserDefined ? userScore(text) : score);
      if (kinds[id] == kUserDefined)
        rules.fixed.add(text, id);
      bool ordinary = kinds[id] == kNormal || kinds[id] == kUserDefined;
      if (unigram && ordinary)
        viterbi.pieces.add(text, id);
      if (!unigram && ordinary)
        joined.push_back({text, id, score});
    }
    cuts.learn(pieces);
    return merging.build(std::move(joined));
  }

  Status readRules(const sentencepiece::Model &file) {
    const sentencepiece::Rules &own = file.rules();
    if (!own.charsmap().empty()) {
      MT_ASSIGN(rules.map, Charsmap::read(own.charsmap()));
    }
    rules.spaceFirst = own.space_first();
    rules.singleSpaces = own.single_spaces();
    rules.markSpaces = own.mark_spaces();
    rules.spacesBehind = file.trainer().spaces_behind();
    return Status();
  }

  void encodeUnigram(std::string_view text, Scratch &scratch, Writer &writer) const {
    while (!text.empty()) {
      std::string_view stretch = text.substr(0, stretchOf(text));
      viterbi.run(stretch, 0, scratch);
      viterbi.each(stretch, scratch,
                   [&](size_t begin, size_t end, uint32_t id) { writer.put(stretch.substr(begin, end - begin), id); });
      text.remove_prefix(stretch.size());
    }
  }

  /// Bytes up to the first place to cut behind kStretch.
  size_t stretchOf(std::string_view text) const {
    size_t bytes = 0;
    while (bytes < text.size() && bytes < kStretch)
      bytes += cuts.first(text.substr(bytes), pieces);
    return bytes;
  }

  /// What users defined stands for itself and joins nothing.
  void encodeBpe(std::string_view text, Scratch &scratch, Writer &writer) const {
    size_t done = 0;
    for (size_t at = 0; at < text.size() && !rules.fixed.empty();) {
      size_t length = rules.fixed.begins(text[at]) ? longestOf(rules.fixed, text.substr(at)) : 0;
      if (length == 0) {
        at += lengthOf(text[at]);
        continue;
      }
      encodeWords(text.substr(done, at - done), scratch, writer);
      writer.put(text.substr(at, length), *pieces.find(text.substr(at, length)));
      at += length;
      done = at;
    }
    encodeWords(text.substr(done), scratch, writer);
  }

  void encodeWords(std::string_view text, Scratch &scratch, Writer &writer) const {
    while (!text.empty()) {
      std::string_view word = text.substr(0, cuts.first(text, pieces));
      encodeWord(word, scratch, writer);
      text.remove_prefix(word.size());
    }
  }

  /// A word with unknown characters depends on what stands before it, and is not kept.
  void encodeWord(std::string_view word, Scratch &scratch, Writer &writer) const {
    uint64_t hash = hashOf(word);
    if (std::optional<std::span<const uint32_t>> known = scratch.words.find(word, hash)) {
      writer.ids.insert(writer.ids.end(), known->begin(), known->end());
      writer.afterUnknown = false;
      return;
    }
    size_t begin = writer.ids.size();
    bool unknown = false;
    merging.run(word, scratch, [&](std::string_view piece, uint32_t id) {
      unknown |= id == SentencePieceMerging::kNone;
      writer.put(piece, id == SentencePieceMerging::kNone ? *specialTokens.unknown : id);
    });
    if (!unknown)
      scratch.words.put(word, hash, std::span(writer.ids).subspan(begin));
  }

  static void putSpaces(std::string_view piece, std::string &text) {
    while (!piece.empty()) {
      size_t mark = std::min(piece.find(kSpaceMark), piece.size());
      text += piece.substr(0, mark);
      if (mark == piece.size())
        return;
      text += ' ';
      piece.remove_prefix(mark + kSpaceMark.size());
    }
  }
};

} // namespace

Result<std::unique_ptr<Tokenizer>> openSentencePiece(const std::string &path) {
  MT_ASSIGN(MappedFile file, MappedFile::open(path));
  sentencepiece::Model model;
  bool parsed =
      file.size() < (uint64_t(1) << 30) && model.ParseFromArray(file.bytes().data(), static_cast<int>(file.size()));
  if (!parsed || model.pieces_size() == 0)
    return fail("{}: it is no SentencePiece model: cut short, or something else", path);
  auto tokenizer = std::make_unique<SentencePiece>();
  MT_TRY(tokenizer->read(model).within(path));
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

} // namespace mt::tokenizer
