// What becomes of a text's parts where a pattern occurs: "removed", "isolated", "merged with previous" and so on, as
// tokenizer.json names them. Parts come in order, and go on as soon as no other can join them.
#ifndef MT_RUNTIME_TOKENIZER_SPLITS_H
#define MT_RUNTIME_TOKENIZER_SPLITS_H

#include "runtime/tokenizer/PreTokenizer.h"

namespace mt::tokenizer {

enum class SplitBehaviour { removed, isolated, contiguous, withPrevious, withNext };

/// Of the field "behavior", or `usual` where it may be missing.
Result<SplitBehaviour> readBehaviour(const Fields &fields, std::optional<SplitBehaviour> usual = std::nullopt);

class Splits {
public:
  Splits(TextPiece piece, SplitBehaviour behaviour, bool invert, const Sink &sink)
      : piece(piece), behaviour(behaviour), invert(invert), sink(sink) {}

  /// The pattern occurs at [begin, end), behind all earlier ones.
  bool match(size_t begin, size_t end) {
    bool on = begin == done || part(done, begin, invert);
    on = on && part(begin, end, !invert);
    done = end;
    return on;
  }
  /// No more occurrences.
  bool finish() {
    bool on = done == piece.text.size() || part(done, piece.text.size(), invert);
    return on && (!waits || emit());
  }

private:
  bool part(size_t begin, size_t end, bool match);
  bool hold(size_t begin, size_t end) {
    waits = true;
    from = begin;
    to = end;
    return true;
  }
  bool emit() {
    waits = false;
    return sink({piece.text.substr(from, to - from), piece.first && from == 0});
  }
  bool emit(size_t begin, size_t end) {
    from = begin;
    to = end;
    return emit();
  }

  TextPiece piece;
  SplitBehaviour behaviour;
  bool invert;
  const Sink &sink;
  size_t done = 0;
  bool waits = false, before = false; ///< a part that another may join; whether the part before was a match
  size_t from = 0, to = 0;            ///< of it
};

} // namespace mt::tokenizer
#endif
