#include "runtime/train/Batches.h"

#include "kernels/Optimizers.h"
#include "runtime/train/CorpusForms.h"
#include "runtime/train/Elements.h"

#include <algorithm>
#include <numeric>

namespace mt::train {

Result<int64_t> Batches::valid(int64_t position, int64_t count) const {
  RowBuffer buffer(plan);
  std::vector<int64_t> found(plan.inputs.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    MT_TRY(readRow(corpus, plan, order.at(position + i), buffer.destinations));
    for (size_t n = 0; n < plan.inputs.size(); ++n)
      if (plan.inputs[n].kind == plan::InputKind::labels)
        found[n] += validLabels(plan.inputs[n], buffer.destinations[n]);
  }
  for (size_t n = 0; n < plan.inputs.size(); ++n)
    if (plan.inputs[n].kind == plan::InputKind::labels && found[n] == 0)
      return 0;
  std::optional<size_t> labels = labelInput(plan);
  return labels ? found[*labels] : count;
}

Status Batches::fill(int64_t position, int64_t count, std::span<void *const> parts) const {
  const int64_t rows = plan.settings.batch / plan.ranks, before = rank * rows;
  for (int64_t i = 0; i < rows; ++i) {
    const std::vector<std::byte *> addresses = rowAddresses(i, parts);
    MT_TRY(readRow(corpus, plan, order.at(position + std::min(before + i, count - 1)), addresses));
    for (size_t n = 0; n < plan.inputs.size() && before + i >= count; ++n)
      if (plan.inputs[n].kind == plan::InputKind::labels)
        padRow(plan.inputs[n], addresses[n], 0);
  }
  numberRows(before, parts);
  return Status();
}

void Batches::numberRows(int64_t first, std::span<void *const> parts) const {
  size_t part = 0;
  for (const plan::Input &input : plan.inputs) {
    for (size_t i = 0; input.kind == plan::InputKind::rows && i < input.parts.size();
         ++i, first += plan.settings.microBatch) {
      auto *numbers = static_cast<int64_t *>(parts[part + i]);
      std::iota(numbers, numbers + plan.settings.microBatch, first);
    }
    part += input.parts.size();
  }
}

Status Batches::uncounted(int64_t position, int64_t count) const {
  size_t n = labelInput(plan).value_or(0);
  return fail(
      "no label of the {} rows from {} to {} counts (all are {}): a loss over none is undefined; leave such rows "
      "out, or use a larger batch",
      count, corpus.where(order.at(position), n, 0), corpus.where(order.at(position + count - 1), n, 0),
      plan.inputs[n].ignored.value_or(kIgnored));
}

std::vector<std::byte *> Batches::rowAddresses(int64_t row, std::span<void *const> parts) const {
  std::vector<std::byte *> addresses;
  size_t part = 0;
  for (const plan::Input &input : plan.inputs) {
    std::byte *address = nullptr;
    if (input.isOfData()) {
      int64_t inPart = plan.settings.microBatch;
      address = static_cast<std::byte *>(parts[part + static_cast<size_t>(row / inPart)]) + row % inPart * rowBytes(input);
    }
    addresses.push_back(address);
    part += input.parts.size();
  }
  return addresses;
}

bool canPad(const plan::Plan &plan) {
  for (const plan::Input &input : plan.inputs)
    if (input.kind == plan::InputKind::labels && (isFloat(input.type) || !input.ignored))
      return false;
  return labelInput(plan) && !plan.settings.everyRowCounts;
}

Status checkInputs(const plan::Plan &plan) {
  const plan::Settings &settings = plan.settings;
  if (settings.microBatch < 1 || settings.batch % settings.microBatch != 0)
    return fail("the plan's micro-batch of {} does not divide its batch of {}: compile it anew", settings.microBatch,
                settings.batch);
  if (settings.batch / settings.microBatch % plan.ranks != 0)
    return fail("a batch of {} is not made of micro-batches of {} on {} ranks: compile the plan anew", settings.batch,
                settings.microBatch, plan.ranks);
  for (const plan::Input &input : plan.inputs) {
    bool scalars = input.kind == plan::InputKind::scalars;
    int64_t parts = scalars ? 1 : settings.batch / settings.microBatch / plan.ranks;
    int64_t rows = scalars ? kernels::scalarRow(static_cast<int64_t>(plan.parameters.size())) : settings.microBatch;
    int64_t bytes = rows * rowBytes(input);
    bool fits = static_cast<int64_t>(input.parts.size()) == parts;
    for (const plan::Span &part : input.parts)
      fits &= part.bytes >= static_cast<uint64_t>(bytes);
    if (!fits || (!scalars && (input.dims.empty() || input.dims[0] != settings.batch / plan.ranks)))
      return fail("the plan's input '{}' is not {} parts of {} bytes: compile it anew", input.name, parts, bytes);
  }
  return Status();
}

} // namespace mt::train
