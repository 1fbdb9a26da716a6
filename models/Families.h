// The families of models that mtmodel writes, as a table: name, what it is, default sizes, and the function that builds
// its graph. A new family is one file with a build function and one row in Families.cpp.
#ifndef MT_MODELS_FAMILIES_H
#define MT_MODELS_FAMILIES_H

#include "models/GraphBuilder.h"

#include <span>
#include <string>
#include <string_view>

namespace mt::models {

/// Sizes of a model; what a family does not have it ignores.
struct Shape {
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t intermediate = 0; ///< inner width of the MLP
  int64_t heads = 0;
  int64_t kvHeads = 0;      ///< 0: as many as heads
  int64_t vocab = 0;        ///< tokens, or classes
  int64_t seq = 0;          ///< learned positions, where the family has them
};

struct Family {
  std::string_view name, summary;
  Shape defaults;
  Status (*build)(GraphBuilder &, const Shape &);
};

std::span<const Family> families();
/// The family of that name, or null.
const Family *findFamily(std::string_view name);
/// `given` with every size that is zero taken from the family's defaults; an error that names an impossible one.
Result<Shape> completeShape(const Family &family, const Shape &given);

Status buildGpt2(GraphBuilder &b, const Shape &shape);
Status buildLlama(GraphBuilder &b, const Shape &shape);
Status buildMlp(GraphBuilder &b, const Shape &shape);
Status buildEncoderDecoder(GraphBuilder &b, const Shape &shape);
Status buildGemma(GraphBuilder &b, const Shape &shape);
Status buildSkipNet(GraphBuilder &b, const Shape &shape);

} // namespace mt::models
#endif
