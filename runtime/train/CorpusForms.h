// The forms of corpora, one constructor each; openCorpus() picks by file name. Internal to runtime/train.
#ifndef MT_RUNTIME_TRAIN_CORPUSFORMS_H
#define MT_RUNTIME_TRAIN_CORPUSFORMS_H

#include "runtime/tokenizer/Tokenizer.h"
#include "runtime/train/Corpus.h"
#include "runtime/train/TextDocuments.h"

#include <vector>

namespace mt::train {

using CorpusPtr = std::unique_ptr<Corpus>;

/// The file, or the files of the folder in name order; hidden ones are passed over, and so is the index.json beside
/// tokens. `flag`: what named the path, for messages.
Result<std::vector<std::string>> corpusFiles(const std::string &path, const std::string &flag = "--data");

/// Arrays named after the inputs; rows are samples.
Result<CorpusPtr> openArrays(const std::string &file, const plan::Plan &plan);
/// One JSON object a line: {"tokens": [...], "labels": [...]}, other keys named after inputs.
Result<CorpusPtr> openJsonLines(const std::string &file, const plan::Plan &plan);
/// Files of tokens, one after the other as one stream, cut to windows of sequence + 1. `end`: what stands behind each
/// document, if that is known.
Result<CorpusPtr> openTokens(const std::vector<std::string> &files, const plan::Plan &plan,
                             std::optional<uint32_t> end = std::nullopt);
/// The same of text, whose bytes are the tokens.
Result<CorpusPtr> openText(const std::vector<std::string> &files, const plan::Plan &plan);
/// The same of text or .jsonl with "text", by the tokenizer at a path; of .jsonl with "prompt" and "completion"
/// samples. The tokens are held in memory.
Result<CorpusPtr> openEncodedText(const std::vector<std::string> &files, const std::string &tokenizer,
                                  const plan::Plan &plan);
/// Documents that are samples, a row each; `name`: of the tokenizer, for messages.
Result<CorpusPtr> openSamples(TextDocuments documents, const tokenizer::Tokenizer &tokenizer, const std::string &name,
                              const plan::Plan &plan);

/// The one input that receives tokens: integers of [batch, sequence]. Errors list what else the model wants and name
/// the forms that can hold it; `form` is what the corpus is, for the message.
Result<size_t> tokenInput(const plan::Plan &plan, const std::string &form, bool othersToo);
/// The labels' input, or none.
std::optional<size_t> labelInput(const plan::Plan &plan);

/// "input_ids int64 [4, 32]; labels int64 [4, 32]": the inputs that data must provide.
std::string describeInputs(const plan::Plan &plan);

/// Looks at a corpus's rows up to some 100 million elements, on all cores: those of whose labels none counts, in order.
/// Errors: a value that the model cannot take.
Result<std::vector<int64_t>> unlabelledRows(const Corpus &corpus, const plan::Plan &plan);

/// Fills a row's elements from `from` on with what padding is: the label that does not count, else zero.
void padRow(const plan::Input &input, std::byte *row, int64_t from);
/// An error where an input's rows are shorter than the model's and what is missing would count.
Status checkPadding(const plan::Input &input, int64_t have);
/// Places by which the model's own loss shifts labels: 1 where labels[s + 1] is the target of logits[s]; usually 0.
int64_t labelShift(const plan::Input &labels);

} // namespace mt::train
#endif
