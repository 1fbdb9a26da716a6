// What changes a text before it is split: normal forms, case, replacements. Text in, text out; no places are kept.
#ifndef MT_RUNTIME_TOKENIZER_NORMALIZER_H
#define MT_RUNTIME_TOKENIZER_NORMALIZER_H

#include "runtime/tokenizer/Fields.h"
#include "runtime/tokenizer/Scratch.h"

#include <memory>

namespace mt::tokenizer {

class Normalizer {
public:
  virtual ~Normalizer() = default;
  /// Appends the normalized text to `to`. Valid UTF-8 gives valid UTF-8. The result is whether the text still begins
  /// where it began: false where characters at its head went.
  virtual Result<bool> run(std::string_view text, RegexMemory &memory, std::string &to) const = 0;
};

using NormalizerPtr = std::unique_ptr<Normalizer>;

/// The "normalizer" of a tokenizer.json, of which a Sequence becomes several. Errors name what is wrong or not
/// supported.
Status readNormalizers(const Fields &fields, std::vector<NormalizerPtr> &all);

/// Runs them one after the other. The result views `text`, or memory of `scratch` until it is used again; `whole`
/// becomes false where the head went.
Result<std::string_view> normalize(const std::vector<NormalizerPtr> &all, std::string_view text, Scratch &scratch,
                                   bool &whole);

} // namespace mt::tokenizer
#endif
