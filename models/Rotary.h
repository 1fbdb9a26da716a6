// Rotary positions: which angles a model turns its queries and keys by, and the nodes that do it. Values are [batch,
// heads, seq, headDim]; pairs are (i, i + n/2) of the first n = 2 * frequencies elements, the rest stays as it is.
#ifndef MT_MODELS_ROTARY_H
#define MT_MODELS_ROTARY_H

#include "models/GraphBuilder.h"

namespace mt::models {

struct Rotary {
  std::vector<double> frequencies; ///< radians a position, of each pair
  double amplitude = 1;            ///< of cosine and sine
  int64_t limit = 0;               ///< tokens a row beyond which the next two count; 0: never
  std::vector<double> beyond;      ///< in place of `frequencies` there
  double growth = 0;               ///< the factor by which the base grows there (dynamic scaling); 0: it does not
};

/// Frequencies theta^(-2i/width), i < width/2 (Su et al., RoFormer, arXiv 2104.09864).
Rotary plainRotary(int64_t width, double theta);

struct RotaryTables {
  Value cos, sin;    ///< [batch, seq, pairs] at opset 23, [1 or batch, 1, seq, 2 * pairs] below it
  int64_t width = 0; ///< elements of a head that turn
};
/// Of the positions of `tokens` [batch, seq]: [seq], in packed graphs [batch, seq].
RotaryTables rotaryTables(GraphBuilder &b, const Value &tokens, const Value &positions, const Rotary &rotary);
Value rotate(GraphBuilder &b, const Value &x, const RotaryTables &tables, int64_t headDim);

} // namespace mt::models
#endif
