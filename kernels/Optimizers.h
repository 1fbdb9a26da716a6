// Optimizers as data: what each keeps of a parameter, which kernels of the catalogue update by it, and by which numbers.
// Everything but kernels/ asks here and names none: a new one is its kernels and an entry of the table.
#ifndef MT_KERNELS_OPTIMIZERS_H
#define MT_KERNELS_OPTIMIZERS_H

#include "kernels/Catalogue.h"
#include "kernels/Shares.h"

#include <numeric>

namespace mt::kernels {

/// A part of a trained parameter that updates alone use. It begins as zeros, but for kAverage.
struct StatePart {
  std::string_view name;    ///< in plans, and of a checkpoint's file
  DType type = DType::f32;
  int64_t elements = 1;     ///< of the parameter for one of the part: 1, or as many as a block that has a scale
  int64_t undo = 0;         ///< bytes of an entry in an undo; 0: as it is
};

/// A number that users choose and updates go by.
struct Hyperparameter {
  std::string_view name; ///< of the option, in groups, and in stored recipes
  double usual = 0;      ///< unless it is said
  bool isShare = false;  ///< below 1; none is negative
  int place = 0;         ///< among the scalars
  int correction = -1;   ///< place of 1 - value^step, if updates read that
};

/// An optimizer. The kernel `whole` updates masters that are whole, `split` those in two halves (kernels/Bf16.h): its
/// operands are gradient, squared norm, scalars => weight, [remainder,] the state in order.
struct OptimizerSpec {
  std::string_view name, whole, split;
  std::vector<StatePart> state;
  std::vector<Hyperparameter> hyperparameters;
  int64_t weightUndo = 0; ///< as StatePart::undo, of the weight
  double usualDecay = 0; ///< of weights, unless it is said
  /// A call may be for elements of a parameter that begin at a multiple of so many; 0: only for all of them.
  int64_t granularity = 1;
  /// False: what comes as the gradient is the new value, of running statistics; it is no part of the gradient's norm,
  /// and no user chooses it.
  bool learns = true;
  /// Of one that learns, the name of the entry beside it that does the same and keeps an average of the weights, too,
  /// its last part and last hyperparameter: users choose it for all parameters at once.
  std::string_view averaging = {};
  bool averages = false; ///< it is such an entry

  const Hyperparameter *find(std::string_view hyperparameter) const;
};

/// The exponential moving average of a parameter's 32-bit master, which it begins as: a part, and the name of its file.
inline constexpr std::string_view kAverage = "average";
/// What a step keeps of it, of (0, 1).
inline constexpr std::string_view kAverageDecay = "ema-decay";

/// Operands of every update, before what it writes.
enum UpdateOperand : size_t { kUpdateGradient = 0, kUpdateNorm = 1, kUpdateScalars = 2, kUpdateUndo = 3 };

/// Exact clipping scales every update by the norm of the whole gradient, which is known when backward ends. A
/// speculative update begins before: as if nothing was clipped, and it writes what takes it back to one more operand,
/// `undo`, behind the others. It ends when the norm is known: where the gradient is clipped it is taken back and
/// repeated, where the step is skipped taken back, and else nothing is left to do. Whichever it is, the bits are those
/// of an update that waited for the norm. After Lian et al., SuperOffload, arXiv 2509.21271: speculation, then
/// validation.
///
/// What the update left, the gradient and the scalars tell nearly what it replaced: an undo has by how many patterns of
/// bits that is off, an integer of one or two bytes. Elements of which that is more - a moment next to which the
/// gradient is vast - are left as they were, with their neighbours, and updated at the end.
enum class Speculation : uint8_t { none, begins, ends };
/// Of an update's operands: one that begins writes `undo`, its last, one that ends reads it, at kUpdateUndo.
Speculation speculationOf(const Signature &update);
/// An undo: the scalars that an update began by, for each kUndoBlock elements a byte, of whose bits each stands for
/// kUndoRun elements that are left as they were, and then for each block, also the last one, one after another, what it
/// has of the weight, of the state in order and of the average.
inline constexpr int64_t kUndoBlock = 512, kUndoRun = kUndoBlock / 8;
struct Undo {
  std::vector<int64_t> parts; ///< bytes an element of each
  int64_t elements;

  int64_t blockBytes() const { return kUndoBlock * std::accumulate(parts.begin(), parts.end(), int64_t{0}); }
  static constexpr int64_t leftAt() { return Scalars::kCount * static_cast<int64_t>(sizeof(double)); }
  int64_t blocksAt() const;
  int64_t bytes() const;
};
Undo undoOf(const OptimizerSpec &optimizer, int64_t elements);
/// Of an update, speculative or not.
Undo undoOf(const Signature &update);

/// What updates running statistics: values that a step computes, and that no gradient descends.
inline constexpr std::string_view kReplace = "replace";

const std::vector<OptimizerSpec> &optimizers();
/// Whether a kernel is that of an optimizer: what it is given first is the gradient of its attribute `parameter`.
bool isUpdate(std::string_view kernel);
/// Null: there is none of that name.
const OptimizerSpec *findOptimizer(std::string_view name);
/// The name of the entry that does what `name` does, and averages; `name` itself, if there is none.
std::string averagingName(const std::string &name);
/// Of those that users choose among.
std::vector<std::string> optimizerNames();
/// "adamw, sgd or lion", for messages.
std::string optimizerList();
/// Null: no optimizer reads a number of that name. Where several do, it is in the same range for all.
const Hyperparameter *findHyperparameter(std::string_view name);
/// "adamw or lion": whose a hyperparameter is; "plans with --ema" of that of averages.
std::string ownersOf(std::string_view hyperparameter, std::string_view conjunction = "or");
/// Every hyperparameter's name, once.
std::vector<std::string_view> hyperparameterNames();
/// Every part's name that some optimizer keeps, once.
std::vector<std::string_view> statePartNames();

/// Of a part with one entry for so many elements of a parameter of these dimensions: these, or how many entries.
Dims partDims(int64_t elements, const Dims &dims);
/// How ranks share a parameter that an optimizer updates, and its state.
Shares sharesOf(const OptimizerSpec &optimizer, int64_t elements, int64_t ranks);
/// The scalars' row that the update of a parameter reads, which is also how many rows so many parameters need.
constexpr int64_t scalarRow(int64_t parameter) { return 1 + parameter; }
/// The update of a parameter of these dimensions, whose master is whole or in two halves.
Signature updateCall(const OptimizerSpec &optimizer, bool split, const Dims &dims,
                     Speculation speculation = Speculation::none);

} // namespace mt::kernels
#endif
