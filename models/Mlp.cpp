// A classifier of float features: linear layers with GELU, Tanh and ReLU in turn between them.
#include "models/Blocks.h"
#include "models/Families.h"

#include <cmath>

namespace mt::models {

Status buildMlp(GraphBuilder &b, const Shape &shape) {
  Value x = b.features("input", shape.intermediate);
  int64_t width = shape.intermediate;
  for (int64_t i = 0; i < shape.layers; ++i) {
    x = linear(b, x, fmt::format("layers.{}", i), width, shape.hidden, true, normal(1 / std::sqrt(double(width))));
    x = i % 3 == 0 ? gelu(b, x) : b.node(i % 3 == 1 ? "Tanh" : "Relu", {x});
    width = shape.hidden;
  }
  Value weight = b.parameter("head.weight", {shape.vocab, width}, normal(1 / std::sqrt(double(width))));
  b.output(headProduct(b, x, weight, "logits"), {"batch", shape.vocab});
  return {};
}

} // namespace mt::models
