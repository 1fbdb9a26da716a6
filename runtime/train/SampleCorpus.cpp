// Samples of text, a row each: prompts whose tokens are no targets, and completions whose tokens are. Longer ones lose
// their ends, shorter ones are filled up.
#include "runtime/base/Log.h"
#include "runtime/train/CorpusForms.h"
#include "runtime/train/Elements.h"
#include "runtime/train/EncodeDocuments.h"
#include "runtime/train/StoredTokens.h"

namespace mt::train {
namespace {

class SampleCorpus : public Corpus {
public:
  SampleCorpus(TextDocuments documents, uint32_t vocabulary, const plan::Plan &plan, size_t tokens, size_t labels)
      : documents(std::move(documents)), plan(plan), tokens(tokens), labels(labels), stored(vocabulary),
        length(plan.inputs[tokens].dims[1]), shift(labelShift(plan.inputs[labels])) {}

  void append(const EncodedDocument &sample) {
    stored.append(sample.tokens);
    counts.insert(counts.end(), sample.counts.begin(), sample.counts.end());
    begins.push_back(stored.count());
    longer += static_cast<int64_t>(sample.tokens.size()) > length + 1 - shift ? 1 : 0;
  }

  int64_t rows() const override { return static_cast<int64_t>(begins.size()) - 1; }

  /// The last token is a target alone, unless the model looks for successors itself.
  std::optional<int64_t> filled(int64_t row) const override {
    const int64_t tokens = begins[static_cast<size_t>(row) + 1] - begins[static_cast<size_t>(row)];
    return std::clamp<int64_t>(tokens - 1 + shift, 0, length);
  }

  Status read(RowPlace place, std::span<std::byte *const> destinations) const override {
    const int64_t first = begins[static_cast<size_t>(place.row)];
    const int64_t inputs = *filled(place.row), later = 1 - shift;
    std::vector<int64_t> values(static_cast<size_t>(inputs));
    for (int64_t i = 0; i < inputs; ++i)
      values[static_cast<size_t>(i)] = stored[first + i];
    MT_TRY(put(tokens, values, destinations[tokens]));
    for (int64_t i = 0; i < inputs; ++i)
      values[static_cast<size_t>(i)] =
          counts[static_cast<size_t>(first + i + later)] ? stored[first + i + later] : kIgnored;
    return put(labels, values, destinations[labels]);
  }

  std::string where(RowPlace place, size_t input, int64_t element) const override {
    return fmt::format("{}, token {}", documents.where(static_cast<size_t>(place.row)),
                       element + (input == labels ? 1 - shift : 0));
  }

  const TextDocuments documents;
  int64_t longer = 0; ///< samples than a row

private:
  const plan::Plan &plan;
  size_t tokens, labels;
  StoredTokens stored;
  std::vector<bool> counts;          ///< of all tokens
  std::vector<int64_t> begins = {0}; ///< of samples, and the end of the last
  int64_t length, shift;

  Status put(size_t input, std::span<const int64_t> values, std::byte *to) const {
    MT_TRY(convert(DType::i64, std::as_bytes(values).data(), plan.inputs[input].type, to,
                   static_cast<int64_t>(values.size())));
    padRow(plan.inputs[input], to, static_cast<int64_t>(values.size()));
    return {};
  }
};

} // namespace

Result<CorpusPtr> openSamples(TextDocuments documents, const tokenizer::Tokenizer &tokenizer, const std::string &name,
                              const plan::Plan &plan) {
  const std::string form = documents.where(0);
  MT_ASSIGN(const size_t tokens, tokenInput(plan, form, false));
  const std::optional<size_t> labels = labelInput(plan);
  if (!labels || plan.inputs[*labels].dims != plan.inputs[tokens].dims || labelShift(plan.inputs[*labels]) > 1)
    return fail("{}: prompts and completions are for models with a target for each token; this one wants {}", form,
                describeInputs(plan));
  MT_TRY(checkPadding(plan.inputs[*labels], 0).within(form));
  auto corpus = std::make_unique<SampleCorpus>(std::move(documents), tokenizer.vocabularySize(), plan, tokens, *labels);
  const TextDocuments &all = corpus->documents;
  MT_TRY(encodeDocuments(all, tokenizer, 0, [&](size_t document, const EncodedDocument &encoded) {
    MT_TRY(checkVocabulary(encoded.tokens, plan.inputs[tokens].vocabulary, name).within(all.where(document)));
    corpus->append(encoded);
    return Status();
  }));
  if (corpus->longer > 0)
    log().warn("{} of {} samples are longer than the sequence of {} tokens and lose their ends: compile with a larger "
               "--seq to "
               "train all of them",
               corpus->longer, corpus->rows(), plan.inputs[tokens].dims[1]);
  return CorpusPtr(std::move(corpus));
}

} // namespace mt::train
