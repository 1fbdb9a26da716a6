#include "kernels/Samples.h"

#include "kernels/Optimizers.h"
#include "kernels/SignatureText.h"

#include <algorithm>
#include <set>

namespace mt::kernels {
namespace {

using Sizes = std::vector<std::vector<int64_t>>;

/// A call as SignatureText writes it, with a letter behind $ for each size of a row of `sizes`, and $T for the type.
struct Pattern {
  std::string_view text, letters;
  Sizes sizes;
};

/// Every choice of so many of the values.
Sizes grid(size_t count, std::initializer_list<int64_t> values) {
  Sizes made = {{}};
  for (size_t i = 0; i < count; ++i) {
    Sizes longer;
    for (const std::vector<int64_t> &row : made)
      for (int64_t value : values) {
        longer.push_back(row);
        longer.back().push_back(value);
      }
    made = std::move(longer);
  }
  return made;
}

const Sizes kRows = {{64, 256}, {512, 512}, {1024, 4096}, {8192, 4096}};
const Sizes kElements = {{1 << 12}, {1 << 16}, {1 << 20}, {1 << 23}};

std::vector<Pattern> patterns() {
  const Sizes products = grid(3, {64, 512, 2048, 8192});
  const Sizes batched = {{16, 128, 128, 64}, {16, 128, 64, 128}, {64, 512, 512, 64}, {64, 512, 64, 512}};
  const Sizes scores = {{8, 128, 64}, {64, 128, 64},  {8, 512, 64},   {64, 512, 64},  {8, 2048, 64},
                        {8, 512, 128}, {32, 2048, 128}, {32, 8192, 128}, {8, 512, 32}};
  const Sizes halves = {{64, 256, 512}, {512, 512, 1024}, {1024, 4096, 8192}, {8192, 4096, 8192}};
  const Sizes tables = {{128, 1024, 256}, {2048, 8192, 1024}, {8192, 32768, 4096}};
  const Sizes heads = {{1, 64, 4}, {4, 512, 8}, {8, 2048, 32}};
  const Sizes classes = {{64, 512}, {512, 8192}, {512, 65536}};
  const Sizes layers = {{32, 4, 128, 512}, {64, 32, 256, 1024}, {128, 32, 1024, 4096}};
  return {
      {"matmul $T[$M,$K] $T[$K,$N] - -> $T[$M,$N]", "MNK", products},
      {"matmul{transposeRhs=1} $T[$M,$K] $T[$N,$K] - -> $T[$M,$N]", "MNK", products},
      {"matmul{transposeLhs=1} $T[$K,$M] $T[$K,$N] - -> f32[$M,$N]", "MNK", products},
      {"matmul $T[$B,$M,$K] $T[$B,$K,$N] - -> $T[$B,$M,$N]", "BMNK", batched},
      {"matmul{transposeRhs=1} $T[$B,$M,$K] $T[$B,$N,$K] - -> $T[$B,$M,$N]", "BMNK", batched},
      {"attention{minDistance=0; scale=0.125} $T[1,$Q,$H,$W] $T[1,$Q,$H,$W] $T[1,$Q,$H,$W] - - - - - - - -> "
       "$T[1,$Q,$H,$W] f32[1,$H,$Q]",
       "HQW", scores},
      {"attention{scale=0.125} $T[1,$Q,$H,$W] $T[1,$Q,$H,$W] $T[1,$Q,$H,$W] - - - - - - - -> "
       "$T[1,$Q,$H,$W] f32[1,$H,$Q]",
       "HQW", scores},
      {"attention_grad{minDistance=0; scale=0.125} $T[1,$Q,$H,$W] $T[1,$Q,$H,$W] $T[1,$Q,$H,$W] $T[1,$Q,$H,$W] "
       "- - - - - - - $T[1,$Q,$H,$W] f32[1,$H,$Q] -> $T[1,$Q,$H,$W] $T[1,$Q,$H,$W] $T[1,$Q,$H,$W] - -",
       "HQW", scores},
      {"attention_grad{scale=0.125} $T[1,$Q,$H,$W] $T[1,$Q,$H,$W] $T[1,$Q,$H,$W] $T[1,$Q,$H,$W] "
       "- - - - - - - $T[1,$Q,$H,$W] f32[1,$H,$Q] -> $T[1,$Q,$H,$W] $T[1,$Q,$H,$W] $T[1,$Q,$H,$W] - -",
       "HQW", scores},
      {"rotary $T[$B,$R,$H,64] $T[1,$R,32] $T[1,$R,32] -> $T[$B,$R,$H,64]", "BRH", heads},
      {"transpose{permutation=[0, 2, 1, 3]} $T[$B,$R,$H,64] -> $T[$B,$H,$R,64]", "BRH", heads},
      {"transpose{permutation=[1, 0]} $T[$R,$C] -> $T[$C,$R]", "RC", kRows},
      {"layer_norm{epsilon=1e-05} $T[$R,$C] f32[$C] f32[$C] -> $T[$R,$C] f32[$R] f32[$R]", "RC", kRows},
      {"layer_norm_grad $T[$R,$C] $T[$R,$C] f32[$R] f32[$R] f32[$C] - -> $T[$R,$C] f32[$C] f32[$C]", "RC", kRows},
      {"rms_norm{epsilon=1e-05} $T[$R,$C] f32[$C] -> $T[$R,$C] f32[$R]", "RC", kRows},
      {"rms_norm_grad $T[$R,$C] $T[$R,$C] f32[$R] f32[$C] - -> $T[$R,$C] f32[$C]", "RC", kRows},
      {"recurrence{kind=lstm} $T[$S,$B,$G] $T[$G,$H] - - - - - -> f32[$S,$B,$H] f32[$S,$B,$H]", "SBHG", layers},
      {"recurrence_grad{kind=lstm} f32[$S,$B,$H] - $T[$S,$B,$G] f32[$S,$B,$G] $T[$G,$H] f32[$S,$B,$H] f32[$S,$B,$H] - "
       "- -> "
       "$T[$S,$B,$G] $T[$S,$B,$G] - -",
       "SBHG", layers},
      {"softmax $T[$R,$C] -> $T[$R,$C]", "RC", kRows},
      {"softmax_grad $T[$R,$C] $T[$R,$C] -> $T[$R,$C]", "RC", kRows},
      {"log_softmax $T[$R,$C] -> $T[$R,$C]", "RC", kRows},
      {"reduce{axes=[0]; keepDims=0; kind=sum} $T[$R,$C] -> f32[$C]", "RC", kRows},
      {"reduce{axes=[1]; keepDims=0; kind=sum} $T[$R,$C] -> f32[$R]", "RC", kRows},
      {"broadcast $T[1,$C] -> $T[$R,$C]", "RC", kRows},
      {"slice{sizes=[$R, $C]; starts=[0, 0]; strides=[1, 1]} $T[$R,$D] -> $T[$R,$C]", "RCD", halves},
      {"pad{high=[0, $C]; interior=[0, 0]; low=[0, 0]} $T[$R,$C] -> $T[$R,$D]", "RCD", halves},
      {"concat{axis=1} $T[$R,$C] $T[$R,$C] -> $T[$R,$D]", "RCD", halves},
      {"embedding $T[$V,$C] i64[$R] -> $T[$R,$C]", "RVC", tables},
      {"embedding_grad i64[$R] $T[$R,$C] -> f32[$V,$C]", "RVC", tables},
      {"gather{axis=0} $T[$V,$C] i64[$R] -> $T[$R,$C]", "RVC", tables},
      {"cross_entropy $T[$R,$C] i64[$R] f64[16] -> f32[]", "RC", classes},
      {"cross_entropy_grad $T[$R,$C] i64[$R] f64[16] -> f32[] $T[$R,$C]", "RC", classes},
      {"elementwise{expression=mul 0 1:$T, add 2 0:$T -> 3} $T[$N] $T[$N] -> $T[$N]", "N", kElements},
      {"elementwise{expression=mul 0 1:$T, tanh 2:$T, mul 3 0:$T, exp 4:$T, add 5 1:$T -> 6} $T[$N] $T[$N] -> $T[$N]",
       "N", kElements},
      {"elementwise{expression=mul 0 1:$T, add 2 0:$T, sub 3 1:$T, mul 4 4:$T, neg 5:$T, maximum 6 0:$T, mul 7 2:$T, "
       "add 8 3:$T, "
       "abs 9:$T, sub 10 4:$T, mul 11 1:$T, add 12 0:$T -> 13} $T[$N] $T[$N] -> $T[$N]",
       "N", kElements},
      {"elementwise{expression=exp 0:$T, sigmoid 1:$T, mul 0 2:$T, tanh 3:$T, silu 4:$T, add 5 0:$T, erf 6:$T, mul 7 "
       "1:$T, log 8:$T, "
       "gelu.tanh 9:$T -> 10} $T[$N] -> $T[$N]",
       "N", kElements},
      {"elementwise_sums{axes=[0]; expression=mul 0 1:$T, sub 0 1:$T -> 2 3; kind=sum; sums=2} $T[$R,$C] $T[$R,$C] -> "
       "f32[$C] f32[$C]",
       "RC", kRows},
      {"elementwise_sums{axes=[1]; expression=mul 0 1:$T, sub 0 1:$T -> 2 3; kind=sum; sums=2} $T[$R,$C] $T[$R,$C] -> "
       "f32[$R] f32[$R]",
       "RC", kRows},
      {"select bool[$N] $T[$N] $T[$N] -> $T[$N]", "N", kElements},
      {"cast f32[$N] -> bf16[$N]", "N", kElements},
      {"cast bf16[$N] -> f32[$N]", "N", kElements},
      {"copy $T[$N] -> f32[$N]", "N", kElements},
      {"dropout{ratio=0.1} $T[$N] - f64[16] i64[] -> $T[$N]", "N", kElements},
      {"random{kind=normal} - f64[16] i64[] -> $T[$N]", "N", kElements},
      {"squared_norm $T[$N] -> f64[1]", "N", kElements},
  };
}

std::string fill(const Pattern &pattern, const std::vector<int64_t> &sizes, DType type) {
  std::string text;
  for (size_t i = 0; i < pattern.text.size(); ++i) {
    if (pattern.text[i] != '$') {
      text += pattern.text[i];
      continue;
    }
    const char letter = pattern.text[++i];
    const size_t place = pattern.letters.find(letter);
    text += place < sizes.size() ? std::to_string(sizes[place]) : std::string(name(type));
  }
  return text;
}

/// A call of an elementwise kernel: all operands of one shape and type, every choice the one of that number.
Signature elementwise(const Kernel &kernel, int64_t elements, DType type, size_t choice) {
  Signature call{std::string(kernel.name), {}, {}};
  for (const AttributeSpec &spec : kernel.attributes)
    if (spec.kind == AttributeSpec::choice) {
      std::string_view left = spec.choices;
      for (size_t i = 0; i < choice; ++i)
        left.remove_prefix(std::min(left.find('|') + 1, left.size()));
      call.attributes[std::string(spec.name)] = std::string(left.substr(0, left.find('|')));
    }
  for (int i = 0; i < kernel.reads + kernel.writes; ++i)
    call.operands.push_back({type, {elements}, i < kernel.reads ? Effect::read : Effect::write});
  return call;
}

size_t choicesOf(const Kernel &kernel) {
  size_t most = 1;
  for (const AttributeSpec &spec : kernel.attributes)
    if (spec.kind == AttributeSpec::choice)
      most = std::max(most, static_cast<size_t>(std::ranges::count(spec.choices, '|')) + 1);
  return most;
}

class Samples {
public:
  Samples(double mostFlops, double mostBytes) : mostFlops(mostFlops), mostBytes(mostBytes) {}

  void add(std::string_view text) {
    Signature call;
    if (parse(text, call).empty())
      add(std::move(call));
  }
  void add(Signature call) {
    if (check(call).empty() && flops(call) <= mostFlops && traffic(call) <= mostBytes && known.insert(print(call)).second)
      calls.push_back(std::move(call));
  }

  std::vector<Signature> calls;

private:
  double mostFlops, mostBytes;
  std::set<std::string> known;
};

} // namespace

std::vector<Signature> sampleCalls(double mostFlops, double mostBytes) {
  Samples samples(mostFlops, mostBytes);
  std::set<std::string_view> patterned;
  for (const Pattern &pattern : patterns()) {
    patterned.insert(pattern.text.substr(0, pattern.text.find_first_of(" {")));
    for (DType type : {DType::f32, DType::bf16})
      for (const std::vector<int64_t> &sizes : pattern.sizes)
        samples.add(fill(pattern, sizes, type));
  }
  for (const Kernel &kernel : all())
    if (!patterned.contains(kernel.name) && kernel.reads > 0 && kernel.writes > 0 && !kernel.updates)
      for (DType type : {DType::f32, DType::bf16})
        for (const std::vector<int64_t> &sizes : kElements)
          for (size_t choice = 0; choice < choicesOf(kernel); ++choice)
            samples.add(elementwise(kernel, sizes[0], type, choice));
  return std::move(samples.calls);
}

std::vector<Signature> sampleUpdates(double mostBytes) {
  Samples samples(1e30, mostBytes);
  for (const OptimizerSpec &optimizer : optimizers())
    for (bool split : {false, true})
      for (const std::vector<int64_t> &sizes : kElements)
        for (Speculation speculation : {Speculation::none, Speculation::begins})
          samples.add(updateCall(optimizer, split, {sizes[0] * 2}, speculation));
  return std::move(samples.calls);
}

} // namespace mt::kernels
