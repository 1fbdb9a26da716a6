// A toy with two skip connections, as a U-Net has: what the way down leaves is joined on the way up, so that between
// the two no place in the graph carries a single value.
#include "models/Blocks.h"
#include "models/Families.h"

#include <cmath>

namespace mt::models {
namespace {

Value level(GraphBuilder &b, const Value &x, const std::string &name, int64_t in, int64_t out) {
  return gelu(b, linear(b, x, name, in, out, true, normal(1 / std::sqrt(double(in)))));
}

Value join(GraphBuilder &b, const Value &x, const Value &skip) {
  return b.node("Concat", {x, skip}, {{"axis", int64_t(1)}});
}

} // namespace

Status buildSkipNet(GraphBuilder &b, const Shape &shape) {
  const int64_t wide = shape.hidden, narrow = shape.hidden / 2;
  Value first = level(b, b.features("input", shape.intermediate), "down.0", shape.intermediate, wide);
  Value second = level(b, first, "down.1", wide, narrow);
  Value x = second;
  for (int64_t i = 0; i < shape.layers; ++i)
    x = b.node("Add", {x, level(b, x, fmt::format("middle.{}", i), narrow, narrow)});
  x = level(b, join(b, x, second), "up.1", 2 * narrow, wide);
  x = level(b, join(b, x, first), "up.0", 2 * wide, wide);
  Value weight = b.parameter("head.weight", {shape.vocab, wide}, normal(1 / std::sqrt(double(wide))));
  b.output(headProduct(b, x, weight, "logits"), {"batch", shape.vocab});
  return {};
}

} // namespace mt::models
