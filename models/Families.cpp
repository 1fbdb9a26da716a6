#include "models/Families.h"

#include <algorithm>
#include <array>
#include <utility>

namespace mt::models {
namespace {

constexpr std::array kFamilies = {
    Family{"gpt2", "decoder with learned positions, LayerNorm, fused QKV, tied head",
           {12, 768, 3072, 12, 0, 50257, 1024}, buildGpt2},
    Family{"llama", "decoder with rotary positions, RMSNorm, grouped-query attention, gated MLP, untied head",
           {16, 2048, 8192, 32, 8, 128256, 0}, buildLlama},
    Family{"gemma", "decoder with every other layer's attention in a window; scaled embedding, capped logits",
           {6, 256, 1024, 4, 1, 256, 64}, buildGemma},
    Family{"t5", "encoder-decoder with cross-attention and a learned relative position bias, tied embeddings",
           {3, 128, 512, 4, 0, 256, 0}, buildEncoderDecoder},
    Family{"mlp", "classifier of --intermediate float features: --hidden wide layers, --vocab classes",
           {3, 64, 16, 0, 0, 5, 0}, buildMlp},
    Family{"skips", "two levels down and up with a skip connection across each: no place carries a single value",
           {2, 64, 16, 0, 0, 5, 0}, buildSkipNet},
};

} // namespace

std::span<const Family> families() { return kFamilies; }

const Family *findFamily(std::string_view name) {
  auto found = std::find_if(kFamilies.begin(), kFamilies.end(), [&](const Family &f) { return f.name == name; });
  return found == kFamilies.end() ? nullptr : &*found;
}

Result<Shape> completeShape(const Family &family, const Shape &given) {
  Shape shape = given;
  for (auto size : {&Shape::layers, &Shape::hidden, &Shape::intermediate, &Shape::heads, &Shape::vocab, &Shape::seq})
    if (shape.*size == 0)
      shape.*size = family.defaults.*size;
  if (shape.kvHeads == 0)
    shape.kvHeads = given.heads == 0 && family.defaults.kvHeads > 0 ? family.defaults.kvHeads : shape.heads;
  if (family.defaults.heads > 0 && shape.hidden % shape.heads != 0)
    return fail("--hidden {} is not a multiple of --heads {}; change one of them", shape.hidden, shape.heads);
  if (family.defaults.heads > 0 && shape.heads % shape.kvHeads != 0)
    return fail("--heads {} is not a multiple of --kv-heads {}; change one of them", shape.heads, shape.kvHeads);
  return shape;
}

} // namespace mt::models
