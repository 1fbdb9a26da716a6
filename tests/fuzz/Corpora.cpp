#include "tests/fuzz/Corpora.h"

#include "runtime/train/Packs.h"

namespace mt::fuzz {

using kernels::DType;

plan::Plan chosenPlan(Bytes &bytes) {
  constexpr DType kTypes[] = {DType::i64, DType::i32, DType::i16, DType::u8, DType::boolean, DType::f32, DType::bf16};
  constexpr int64_t kVocabularies[] = {256, 0, 1, 70000}, kSequences[] = {4, 1, 7, 600};
  uint8_t sizes = bytes.one(), types = bytes.one(), others = bytes.one();
  plan::Plan plan;
  int64_t sequence = kSequences[sizes % 4], vocabulary = kVocabularies[sizes / 4 % 4];
  plan.settings.batch = 2;
  plan.settings.microBatch = 1;
  plan.settings.sequence = sequence;
  plan.model.vocabulary = vocabulary;
  std::vector<plan::Span> parts(2, {0, 0, 0});
  plan.inputs.push_back({plan::InputKind::data, "input_ids", kTypes[types % 4], {2, sequence}, parts, vocabulary});
  if (others & 1)
    plan.inputs.push_back({plan::InputKind::labels, "labels", kTypes[types / 16 % 7], {2, sequence}, parts, vocabulary});
  if (others & 2)
    plan.inputs.push_back({plan::InputKind::data, "mask", kTypes[others / 16 % 7], {2, sequence}, parts, 0});
  if (others & 4)
    plan.inputs.push_back({plan::InputKind::data, "pixels", DType::f32, {2, 3, 2}, parts, 0});
  if (others & 8)
    for (const char *name : {"position_ids", "segment_ids"})
      plan.inputs.push_back({plan::InputKind::data, name, kTypes[types % 4], {2, sequence}, parts, 0});
  plan.inputs.push_back({plan::InputKind::scalars, "scalars", DType::f64, {1, 16}, {{0, 0, 128}}, 0});
  return plan;
}

namespace {

void readRows(const train::Corpus &corpus, const plan::Plan &plan) {
  constexpr int64_t kMostRows = 4096;
  std::vector<std::vector<std::byte>> buffers;
  std::vector<std::byte *> destinations;
  for (const plan::Input &input : plan.inputs) {
    bool data = input.kind != plan::InputKind::scalars;
    buffers.emplace_back(data ? static_cast<size_t>(train::rowBytes(input)) : 0);
    destinations.push_back(data ? buffers.back().data() : nullptr);
  }
  for (int64_t row = 0; row < std::min(corpus.rows(), kMostRows); ++row)
    for (uint64_t shift : {uint64_t(0), ~uint64_t(row)})
      if (!train::readRow(corpus, plan, {row, shift}, destinations))
        return;
}

} // namespace

void readAll(Result<train::CorpusPtr> corpus, const plan::Plan &plan) {
  if (!corpus.ok())
    return;
  const train::SharedCorpus samples = std::move(*corpus);
  readRows(*samples, plan);
  train::Packing packing;
  if (Result<train::SharedCorpus> packs = train::packed(samples, "samples", plan, packing))
    readRows(**packs, plan);
}

} // namespace mt::fuzz
