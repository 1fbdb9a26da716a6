// Attention written out, from its softmax back to the product of queries and keys: scales, soft cap, masks and views in
// between. Only looks; RecoverAttention.cpp builds what it finds, RemarkAttention.cpp tells what it did not.
#ifndef MT_PASSES_NN_MATCHSCORES_H
#define MT_PASSES_NN_MATCHSCORES_H
#include "compiler/nn/Nn.h"

namespace mt::passes {

/// What lies between the product of queries and keys and the softmax.
struct Scores {
  nn::MatmulOp product;
  double scale = 1, cap = 0;
  struct Mask { ///< an added term, or a condition that chooses scores
    mlir::Value added, condition;
    bool hides = false; ///< the condition holds where scores are hidden
    double factor = 1;
    llvm::SmallVector<int64_t> scores; ///< the shape of those that it broadcasts to
  };
  llvm::SmallVector<Mask> masks;
  struct Factor { ///< of all scores of a query or a head, [.., queries or 1, 1]: the query may have it instead
    mlir::Value value;
    bool divides = false;
    llvm::SmallVector<int64_t> scores; ///< as of a mask
  };
  llvm::SmallVector<Factor> factors;
  mlir::Value sink; ///< [.., .., .., 1], a score that takes part in the softmax and weighs no value; may be null
  std::optional<std::pair<int64_t, int64_t>> split; ///< batch and heads, where scores of rank 4 or more were seen

  /// Learns the split from scores of this shape; false where it contradicts what was seen.
  bool sees(llvm::ArrayRef<int64_t> shape);
};

/// A constant that hides a score to which it is added.
bool isVeryNegative(mlir::Value value);
/// Whether `a` and `b` are scores of the same heads: [batch * heads, ..], [batch, heads, ..], or with the batch in
/// several dimensions, as windows of pictures have it.
bool splitsHeads(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b);
/// The terms of a bias. A number that all scores have in common is left out, for softmax does not see it, unless it is
/// so large that it would round the scores away, or there is a sink, which has it not.
llvm::SmallVector<mlir::Value> termsOf(mlir::Value bias, bool hasSink);
/// The scores whose probabilities `product` multiplies with values. None if it is not attention that nn.attention can
/// do, with the reason in `why`.
std::optional<Scores> matchScores(nn::MatmulOp product, std::string &why);

} // namespace mt::passes
#endif
