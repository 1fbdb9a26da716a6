// One pass of the `evaluate` program over a corpus, in order: the mean loss over its valid labels. Part of training
// (--eval-data) and of `mtrun eval`.
#ifndef MT_RUNTIME_TRAIN_EVALUATION_H
#define MT_RUNTIME_TRAIN_EVALUATION_H

#include "runtime/train/Session.h"

namespace mt::train {

class Evaluation {
public:
  /// `plan` and `corpus` must outlive it.
  Evaluation(const plan::Plan &plan, const Corpus &corpus, uint32_t rank)
      : plan(plan), corpus(corpus), batches(plan, corpus, Order(corpus.rows(), false, 0), rank) {}

  /// Settles the session, then evaluates every row (where the last batch cannot be padded: every whole batch). `step`
  /// is the one it follows. Weights and moments stay as they are, to the bit.
  Status run(Session &session, int64_t step);
  /// To be called with every evaluation job that is done. Losses of batches count by their labels; those that are no
  /// means over labels by their rows, of which a sum over a batch has all, counted or not.
  void add(const Job &job, float loss);

  /// Whether every row was evaluated: an interrupt ends it early.
  bool complete() const { return whole; }
  double loss() const { return sum / static_cast<double>(weight); }
  int64_t tokens() const { return valid; }

private:
  const plan::Plan &plan;
  const Corpus &corpus;
  Batches batches;
  double sum = 0;
  int64_t weight = 0, valid = 0;
  bool whole = false;
};

/// The exponential of a mean over labels that are classes, behind `before`; nothing of another loss, of which it means
/// nothing.
std::string perplexityText(std::string_view before, double loss, const plan::Plan &plan);

} // namespace mt::train
#endif
