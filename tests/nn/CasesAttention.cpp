// Cases of attention, every combination of its flags, and of rotary embedding.
#include "tests/nn/GradientCheck.h"

using namespace mlir;

namespace mt::nn::test {
namespace {

constexpr int64_t kBatch = 2, kQueries = 3, kHeads = 4, kKeys = 4;

SmallVector<Value> one(Value value) { return {value}; }
std::string flag(bool set, const char *name) { return set ? std::string(" ") + name : ""; }

Value places(Graph g, ArrayRef<int64_t> values) {
  auto type = RankedTensorType::get({int64_t(values.size())}, g.builder.getI64Type());
  return g.make<ConstantOp>(DenseIntElementsAttr::get(type, values));
}

struct Flags {
  int64_t groups;
  bool masked, segmented, causal, windowed, offset, prefix, chunked, capped;
  bool sunk = false, placed = false, dilated = false, softSegments = false;
  std::string name() const {
    return std::to_string(groups) + " groups" + flag(masked, "keyMask") + flag(segmented, "segments") +
           flag(causal, "minDistance") + flag(windowed, "maxDistance") + flag(offset, "offset") +
           flag(prefix, "prefix") + flag(chunked, "chunk") + flag(capped, "softCap") + flag(sunk, "sink") +
           flag(placed, "places") + flag(dilated, "dilation") + flag(softSegments, "segmentBias");
  }
};

Case attentionCase(const Flags &flags, const std::optional<Index> &bias, int64_t width, int64_t valueWidth) {
  Case made;
  made.name = flags.name() + " widths " + std::to_string(width) + " and " + std::to_string(valueWidth);
  made.inputs = {real({kBatch, kQueries, kHeads, width}), real({kBatch, kKeys, flags.groups, width}),
                 real({kBatch, kKeys, flags.groups, valueWidth})};
  if (bias)
    made.inputs.push_back(real(*bias));
  if (flags.masked)
    made.inputs.push_back(booleans({kBatch, kKeys}));
  if (flags.segmented)
    made.inputs.insert(made.inputs.end(), {integers({kBatch, kQueries}, 0, 2), integers({kBatch, kKeys}, 0, 2)});
  if (flags.sunk)
    made.inputs.push_back(real({kHeads}));
  made.mayVanish = true; // of a query that sees one key, or none
  made.body = [=](Graph g) {
    size_t next = 3;
    Value added = bias ? g.in[next++] : Value(), mask = flags.masked ? g.in[next++] : Value();
    Value querySegment = flags.segmented ? g.in[next++] : Value(),
          keySegment = flags.segmented ? g.in[next++] : Value();
    Value sink = flags.sunk ? g.in[next++] : Value();
    Value queryPlace = flags.placed ? places(g, {5, 0, 2}) : Value(), // of a grid with a token before it
        keyPlace = flags.placed ? places(g, {7, 5, 11, 6}) : Value();
    return one(g.make<AttentionOp>(g.in[0], g.in[1], g.in[2], added, mask, querySegment, keySegment, queryPlace,
                                   keyPlace, sink, APFloat(0.7), flags.causal ? int64_t(0) : INT64_MIN,
                                   flags.windowed ? int64_t(1) : INT64_MAX, int64_t(flags.offset),
                                   int64_t(flags.prefix ? 2 : 0), int64_t(flags.chunked ? 2 : 0),
                                   int64_t(flags.dilated ? 2 : 1), APFloat(flags.softSegments ? -1.25 : 0.0),
                                   APFloat(flags.capped ? 1.5 : 0.0))
                   .getResult());
  };
  return made;
}

void addAttention(Cases &cases) {
  const std::vector<std::pair<std::string, std::optional<Index>>> biases = {
      {"attention", std::nullopt}, {"attention.bias", Index{kBatch, kHeads, kQueries, kKeys}}};
  for (const auto &[group, bias] : biases)
    for (unsigned bits = 0; bits < 1u << 9; ++bits) {
      auto bit = [bits](unsigned i) { return bits >> i & 1; };
      Flags flags{bit(0) ? 4 : 2, bool(bit(1)), bool(bit(2)), bool(bit(3)), bool(bit(4)),
                  bool(bit(5)),   bool(bit(6)), bool(bit(7)), bool(bit(8))};
      cases[group + (bit(8) ? ".cap" : "")].push_back(attentionCase(flags, bias, 2, bit(3) ? 3 : 2));
    }
  // Every way in which a bias broadcasts.
  for (int64_t batch : {int64_t(1), kBatch})
    for (int64_t heads : {int64_t(1), kHeads})
      for (int64_t queries : {int64_t(1), kQueries})
        for (int64_t groups : {1, 2, 4}) {
          Case made = attentionCase({groups, false, false, true, false, true, false, false, false},
                                    Index{batch, heads, queries, kKeys}, 3, 2);
          made.name +=
              " bias of " + std::to_string(batch) + ", " + std::to_string(heads) + ", " + std::to_string(queries);
          cases["attention.bias"].push_back(made);
        }
  for (int64_t batch : {int64_t(1), kBatch})
    for (int64_t heads : {int64_t(1), kHeads}) {
      Case made = attentionCase({2, true, false, true, false, false, false, false, false},
                                Index{batch, heads, 1, kQueries + kKeys - 1}, 3, 2);
      made.name += " bias by distance of " + std::to_string(batch) + ", " + std::to_string(heads);
      cases["attention.bias"].push_back(made);
    }
}

/// What the flags above do not say: sinks, biases by place, dilation, segments that are only less seen.
void addOtherAttention(Cases &cases) {
  for (unsigned bits = 0; bits < 1u << 7; ++bits) {
    auto bit = [bits](unsigned i) { return bool(bits >> i & 1); };
    Flags flags{bit(0) ? 4 : 2, bit(1), bit(2), bit(3), false, bit(4), false, false, false};
    flags.sunk = bit(5), flags.dilated = bit(6), flags.softSegments = bit(2) && bit(1);
    flags.placed = !bit(4);
    std::optional<Index> bias;
    if (flags.placed)
      bias = Index{bit(1) ? 1 : kBatch, bit(3) ? 1 : kHeads, 1, 12};
    cases[flags.sunk     ? "attention.sink"
          : flags.placed ? "attention.bias"
                         : "attention"]
        .push_back(attentionCase(flags, bias, 2, 3));
  }
}

void addRotary(Cases &cases) {
  for (bool interleaved : {false, true})
    for (bool inverse : {false, true})
      for (int64_t tables : {1, 2})
        for (int64_t pairs : {1, 2, 3})
          cases["rotary"].push_back(
              {std::to_string(pairs) + " pairs of 6, " + std::to_string(tables) + " tables" +
                   flag(interleaved, "interleaved") + flag(inverse, "inverse"),
               {real({2, 3, 2, 6}), fixed({tables, 3, pairs}), fixed({tables, 3, pairs})},
               [=](Graph g) { return one(g.make<RotaryOp>(g.in[0], g.in[1], g.in[2], interleaved, inverse)); }});
}

} // namespace

void addAttentionCases(Cases &cases) {
  addAttention(cases);
  addOtherAttention(cases);
  addRotary(cases);
}

} // namespace mt::nn::test
