// Training data as rows: one row holds one sample of every data and label input of a plan. Forms: .npz, text, .bin
// tokens, .jsonl; a file, or a folder of files of one form in name order. Knows no batches and no order: Batches.h.
#ifndef MT_RUNTIME_TRAIN_CORPUS_H
#define MT_RUNTIME_TRAIN_CORPUS_H

#include "runtime/base/Status.h"
#include "runtime/plan/Program.h"
#include "runtime/train/RowPlace.h"

#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mt::train {

/// What data write for a label that does not count. The model's own loss may call it otherwise (plan::Input::ignored).
constexpr int64_t kIgnored = -100;

class Corpus {
public:
  virtual ~Corpus() = default;

  virtual int64_t rows() const = 0;
  /// Writes the row of every input in the plan's type: destinations[n] receives rowBytes(plan.inputs[n]), and is
  /// null where the input is none of data (the scalars, say). Several threads may read at once. Errors name file and
  /// position.
  virtual Status read(RowPlace place, std::span<std::byte *const> destinations) const = 0;
  /// Where an element of an input's row comes from, for messages: "tokens.bin, token 1234".
  virtual std::string where(RowPlace place, size_t input, int64_t element) const = 0;

  /// Of samples that may be shorter than a row: how many places of the sequence one fills, from the first on. Nothing
  /// where rows are full.
  virtual std::optional<int64_t> filled(int64_t /*row*/) const { return std::nullopt; }

  /// Of windows of a stream: the token that stands behind each document, if that is known.
  virtual std::optional<int64_t> documentEnd() const { return std::nullopt; }

  /// Rows of which openCorpus() saw that of some labels none counts, in order; perhaps not all of them.
  std::vector<int64_t> unlabelled;
};

/// Opens `path` for the inputs of `plan`, which must outlive the corpus. `tokenizer` is a file or empty. Looks at the
/// whole corpus up to some 100 million elements, so that bad values are reported before training starts.
Result<std::unique_ptr<Corpus>> openCorpus(const std::string &path, const std::string &tokenizer,
                                           const plan::Plan &plan);

/// Whether `path` holds what a tokenizer reads: text, or .jsonl with a tokenizer. `flag`: what named it, for messages.
Result<bool> isText(const std::string &path, bool withTokenizer, const std::string &flag);

/// The number of a sequence among those of a row, from 1 on, for each token: the input `segment_ids`, unless the model
/// looks something up by it, as by the types of tokens that others call so.
bool isSegments(const plan::Input &input);
/// The position of each token in its sequence: the input `position_ids`.
bool isPositions(const plan::Input &input);
/// Whether an input of the plan is one of these that data need not give: positions beside segments alone, as models
/// without may count from elsewhere than 0.
bool saysPlaces(const plan::Plan &plan, const plan::Input &input);
/// Writes what such an input has for `length` tokens from `first` on that are a sequence, the row's `segment`-th.
void putPlaces(const plan::Input &input, std::byte *row, int64_t first, int64_t length, int64_t segment);

/// Elements and bytes of one row of an input.
int64_t rowElements(const plan::Input &input);
int64_t rowBytes(const plan::Input &input);

/// Reads a row - a sequence of its own, where data do not say otherwise -, gives labels of -100 the value that does not
/// count in the model's loss, and checks that all values lie in their vocabularies. Errors name the place.
Status readRow(const Corpus &corpus, const plan::Plan &plan, RowPlace place, std::span<std::byte *const> destinations);

/// Room for a row of every data and label input.
struct RowBuffer {
  explicit RowBuffer(const plan::Plan &plan);
  std::vector<std::vector<std::byte>> bytes;
  std::vector<std::byte *> destinations; ///< as readRow() takes them
};

/// Targets of a row of labels that count: those in the box that the model takes them from. Stops where there are enough.
int64_t validLabels(const plan::Input &labels, const std::byte *row,
                    int64_t enough = std::numeric_limits<int64_t>::max());

} // namespace mt::train
#endif
