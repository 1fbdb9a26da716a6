// Where a graph is cut into layers: an algorithm on a list of operations in topological order, free of MLIR.
// mt-partition-layers describes its graph in these terms and outlines what comes back.
#ifndef MT_PASSES_LAYERS_PARTITION_H
#define MT_PASSES_LAYERS_PARTITION_H

#include <cstdint>
#include <string>
#include <vector>

namespace mt::passes {

/// An operation on the main path: it depends on inputs and on weights, trained or not.
struct PartitionOp {
  std::string name, types;       ///< of the operation and of its results; attribute values do not count
  std::vector<int32_t> operands; ///< indices of the main-path values it reads, as numbered by PartitionGraph
  std::vector<std::string> others;  ///< descriptions of its other operands: dependence and types
  std::vector<std::string> weights; ///< types of the weights among them; empty: computed from weights alone
  int64_t parameterBytes = 0;    ///< of the weights that it reads, or of what is computed from weights alone
  bool readsMatrix = false;      ///< one of those weights, not computed, has two dimensions or more
  bool isView = false;           ///< computes nothing: the same elements under another shape
};
struct PartitionValue {
  int32_t producer = 0; ///< index of the operation that makes it
  int64_t bytes = 0;
};
struct PartitionGraph {
  std::vector<PartitionOp> ops;
  std::vector<PartitionValue> values;
};

/// One layer: operations [begin, end).
struct LayerRange {
  int32_t begin = 0, end = 0;
  bool operator==(const LayerRange &) const = default;
};

/// Ranges that cover all operations in order. A cut lies after an operation where exactly one value is carried to the
/// rest, values that several later stretches use (encoder output, position bias) being shared and not counted. Atoms
/// lie between cuts, each with a parameter, and those that read such weights in such operations are of one kind. A
/// period of kinds is a layer, whatever else its repetitions do: only equal ones will share a template. Where kinds
/// with matrices recur within the period at one distance (three blocks of one kind and one of another, attention before
/// feed-forwards and experts in turn), that many atoms are a layer. What lies between periods is in pieces of no more
/// parameters than an atom usually has; without any period, of structures whatever their sizes neither, every atom is a
/// layer. Where no place carries one value, and more than twice the usual parameters, in number and in bytes, lie
/// together, cuts lie where the fewest bytes are carried.
std::vector<LayerRange> partition(const PartitionGraph &graph);

/// The best repetition in a sequence: `count` >= 2 equal stretches of `period` symbols from `begin`. Covers the most
/// weight; of equal coverage the shortest period, then the latest begin. count is 0 if nothing repeats.
struct Repetition {
  int32_t begin = 0, period = 0, count = 0;
};
Repetition findRepetition(const std::vector<int32_t> &symbols, int32_t begin, int32_t end, const std::vector<int32_t> &weights);

} // namespace mt::passes
#endif
