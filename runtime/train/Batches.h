// Fills a step's inputs with rows of a corpus in the order of a run and counts the labels that matter. Between the
// corpus and the executor's feed; knows no hyperparameters.
#ifndef MT_RUNTIME_TRAIN_BATCHES_H
#define MT_RUNTIME_TRAIN_BATCHES_H

#include "runtime/train/Corpus.h"
#include "runtime/train/Order.h"

namespace mt::train {

class Batches {
public:
  /// `plan` and `corpus` must outlive it. Of every batch, `rank` has as many rows as every other, in their order.
  Batches(const plan::Plan &plan, const Corpus &corpus, Order order, uint32_t rank = 0)
      : plan(plan), corpus(corpus), order(std::move(order)), rank(rank) {}

  /// Reads and checks `count` rows from `position` on (1 <= count <= batch). Returns the number of their valid labels:
  /// targets that are not ignored, elements of float labels, else rows; of the first labels where a model has several, 0
  /// where any of them has none.
  Result<int64_t> valid(int64_t position, int64_t count) const;
  /// Writes this rank's of the rows into `parts`, as Callbacks::feed gives them, and fills the rest of the batch with
  /// the last row, its labels ignored; numbers the rows where the plan wants that. Scalars' parts are left alone.
  Status fill(int64_t position, int64_t count, std::span<void *const> parts) const;
  /// The error of a step whose rows have no valid label; it names them.
  Status uncounted(int64_t position, int64_t count) const;

  int64_t epoch(int64_t position) const { return order.epoch(position); }

private:
  /// Where the plan wants the numbers of rows: those of this rank begin with `first`.
  void numberRows(int64_t first, std::span<void *const> parts) const;
  std::vector<std::byte *> rowAddresses(int64_t row, std::span<void *const> parts) const;

  const plan::Plan &plan;
  const Corpus &corpus;
  Order order;
  uint32_t rank;
};

/// Whether a batch may be filled up with rows that do not count: labels are integers one of which is ignored, and
/// without labels a row adds nothing to the loss.
bool canPad(const plan::Plan &plan);

/// Checks that the parts of the plan's inputs are its micro-batches: what fill() relies on.
Status checkInputs(const plan::Plan &plan);

} // namespace mt::train
#endif
