#include "models/Rotary.h"

#include "models/Blocks.h"

#include <cmath>

namespace mt::models {
namespace {

std::vector<float> narrowed(const std::vector<double> &values) { return {values.begin(), values.end()}; }

Value asFloat(GraphBuilder &b, const Value &x) {
  return b.node("Cast", {x}, {{"to", int64_t(onnx::TensorProto::FLOAT)}});
}

/// Tokens a row, as int64 [1].
Value length(GraphBuilder &b, const Value &tokens) {
  return b.node("Shape", {tokens}, {{"start", int64_t(1)}, {"end", int64_t(2)}});
}

/// With the base theta (g n / limit - (g - 1))^(d / (d - 2)) for rows of n > limit tokens: dynamic NTK scaling, as
/// transformers computes it.
Value grown(GraphBuilder &b, const Value &frequencies, const Value &tokens, const Rotary &rotary) {
  const double width = 2 * double(rotary.frequencies.size());
  std::vector<float> exponents;
  for (size_t i = 0; i < rotary.frequencies.size(); ++i)
    exponents.push_back(static_cast<float>(-2.0 * double(i) / (width - 2)));
  Value longest = b.node("Max", {asFloat(b, length(b, tokens)), b.real(double(rotary.limit))});
  Value ratio = b.node("Mul", {longest, b.real(rotary.growth / double(rotary.limit))});
  ratio = b.node("Sub", {ratio, b.real(rotary.growth - 1)});
  return b.node("Mul", {frequencies, b.node("Pow", {ratio, b.reals("exponents", exponents)})});
}

Value frequenciesOf(GraphBuilder &b, const Value &tokens, const Rotary &rotary) {
  Value frequencies = b.reals("inv_freq", narrowed(rotary.frequencies));
  if (rotary.limit == 0)
    return frequencies;
  if (rotary.growth > 0)
    return grown(b, frequencies, tokens, rotary);
  Value isLong = b.node("Greater", {length(b, tokens), b.integer(rotary.limit)});
  return b.node("Where", {isLong, b.reals("inv_freq", narrowed(rotary.beyond)), frequencies});
}

} // namespace

Rotary plainRotary(int64_t width, double theta) {
  Rotary rotary;
  for (int64_t i = 0; i < width / 2; ++i)
    rotary.frequencies.push_back(std::pow(theta, -2.0 * double(i) / double(width)));
  return rotary;
}

RotaryTables rotaryTables(GraphBuilder &b, const Value &tokens, const Value &positions, const Rotary &rotary) {
  GraphBuilder::Scope scope(b, "rotary_emb");
  const int64_t width = 2 * int64_t(rotary.frequencies.size());
  Value column = asFloat(b, b.node("Unsqueeze", {positions, b.isPacked() ? b.ints({2}) : b.ints({0, 2})}));
  Value angles = b.node("Mul", {column, frequenciesOf(b, tokens, rotary)});
  if (!isFused(b)) {
    angles = b.node("Concat", {angles, angles}, {{"axis", int64_t(-1)}});
    angles = b.node("Unsqueeze", {angles, b.ints({1})});
    Value cos = b.node("Cos", {angles}), sin = b.node("Sin", {angles});
    return {scaled(b, cos, rotary.amplitude), scaled(b, sin, rotary.amplitude), width};
  }
  if (b.isPacked()) {
    Value cos = b.node("Cos", {angles}), sin = b.node("Sin", {angles});
    return {scaled(b, cos, rotary.amplitude), scaled(b, sin, rotary.amplitude), width};
  }
  Value batch = b.node("Shape", {tokens}, {{"start", int64_t(0)}, {"end", int64_t(1)}});
  Value shape = b.node("Concat", {batch, b.ints({1, 1})}, {{"axis", int64_t(0)}});
  Value cos = b.node("Expand", {scaled(b, b.node("Cos", {angles}), rotary.amplitude), shape});
  Value sin = b.node("Expand", {scaled(b, b.node("Sin", {angles}), rotary.amplitude), shape});
  return {cos, sin, width};
}

Value rotate(GraphBuilder &b, const Value &x, const RotaryTables &tables, int64_t headDim) {
  const bool whole = tables.width == headDim;
  if (isFused(b)) {
    std::vector<Attribute> attributes = {{"interleaved", int64_t(0)}};
    if (!whole)
      attributes.push_back({"rotary_embedding_dim", tables.width});
    return b.node("RotaryEmbedding", {x, tables.cos, tables.sin}, attributes);
  }
  Value half = b.ints({tables.width / 2}), axis = b.ints({3}), step = b.ints({1});
  auto slice = [&](const Value &from, const Value &begin, const Value &end) {
    return b.node("Slice", {from, begin, end, axis, step});
  };
  Value front = whole ? x : slice(x, b.ints({0}), b.ints({tables.width}));
  Value low = slice(front, b.ints({0}), half);
  Value high = slice(front, half, b.ints({INT64_MAX}));
  Value turned = b.node("Concat", {b.node("Neg", {high}), low}, {{"axis", int64_t(-1)}});
  turned = b.node("Add", {b.node("Mul", {front, tables.cos}), b.node("Mul", {turned, tables.sin})});
  if (whole)
    return turned;
  Value rest = slice(x, b.ints({tables.width}), b.ints({INT64_MAX}));
  return b.node("Concat", {turned, rest}, {{"axis", int64_t(-1)}});
}

} // namespace mt::models
