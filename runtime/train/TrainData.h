// The data of a run or an evaluation: the corpora that --data and --eval-data name, opened, and how a recipe arranges
// them: which rows are trained on, in which order, and which are evaluated. Between the forms of corpora (Corpus.h) and
// the runs.
#ifndef MT_RUNTIME_TRAIN_TRAINDATA_H
#define MT_RUNTIME_TRAIN_TRAINDATA_H

#include "runtime/train/CorpusViews.h"
#include "runtime/train/Options.h"
#include "runtime/train/Order.h"

namespace mt::train {

/// The corpora that one flag names.
struct OpenedData {
  std::string name; ///< "--data a.txt, b.bin", for messages
  std::vector<std::string> paths;
  std::vector<SharedCorpus> parts;
  std::string fingerprint; ///< of all their files

  bool empty() const { return parts.empty(); }
};

/// Opens what --data and --eval-data name, the second of which may name nothing. The tokenizer is for what is text
/// among them; what is not may be tokens that mtrun tokenize made of some. `plan` must outlive the corpora.
struct TrainData {
  OpenedData data, evalData;
  static Result<TrainData> open(const DataOptions &options, const std::vector<std::string> &evalPaths,
                                const plan::Plan &plan);

  /// What a run goes by, once its recipe is known.
  SharedCorpus corpus, evalCorpus; ///< the second may be null
  std::optional<Order> order;      ///< of the first
  std::string evalName;            ///< of the second, for messages
  bool heldBack = false;           ///< rows of the data are, and never in the first
  /// Fingerprint of the second: of the data's own where rows of those are held back.
  const std::string &evaluated() const { return heldBack && evalData.empty() ? data.fingerprint : evalData.fingerprint; }
  std::string note;                ///< what became of samples that share rows, for people; may be empty

  /// Arranges them as `recipe`, which must be complete, says. Errors: it does not suit the data, or they are too few.
  Status arrange(const RecipeOptions &recipe, const plan::Plan &plan);

private:
  Status shareRows(std::vector<SharedCorpus> &parts, std::vector<SharedCorpus> &evaluated, const plan::Plan &plan);
};

/// Has the short samples of corpora share rows (Packs.h), which full ones keep; tells people how many did. `name`: as
/// of OpenedData. Errors: none has samples.
Result<std::string> packAll(std::vector<SharedCorpus> &parts, const std::string &name, const plan::Plan &plan);

/// Parts as one corpus.
SharedCorpus asOne(const std::vector<SharedCorpus> &parts);

/// An error where nothing of evaluation data could be evaluated; `name`: as of OpenedData.
Status checkEvaluable(const Corpus &corpus, const std::string &name, const plan::Plan &plan);

} // namespace mt::train
#endif
