#include "runtime/train/Batches.h"

#include "runtime/train/CorpusForms.h"
#include "runtime/train/Elements.h"

#include <cstring>

namespace mt::train {

namespace {

/// Targets of a row of labels that count: those in the box that the model takes them from.
int64_t validLabels(const plan::Input &labels, const std::byte *row) {
  int64_t valid = 0, elements = rowElements(labels);
  if (isFloat(labels.type))
    return elements;
  for (int64_t i = 0; i < elements; ++i) {
    bool inside = true;
    int64_t place = i;
    for (size_t d = labels.dims.size(); !labels.targets.empty() && d-- > 1; place /= labels.dims[d]) {
      int64_t at = place % labels.dims[d];
      inside &= at >= labels.targets[2 * d - 2] && at < labels.targets[2 * d - 1];
    }
    valid += inside && (!labels.ignored || integerAt(labels.type, row, i) != *labels.ignored);
  }
  return valid;
}

} // namespace

Result<int64_t> Batches::fill(int64_t position, int64_t count, std::span<void *const> parts) {
  std::vector<int64_t> valid(plan.inputs.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    std::vector<std::byte *> destinations = rowAddresses(i, parts);
    int64_t row = sampler.row(position + i);
    MT_TRY(readRow(corpus, plan, row, destinations));
    for (size_t n = 0; n < plan.inputs.size(); ++n)
      if (plan.inputs[n].kind == plan::InputKind::labels)
        valid[n] += validLabels(plan.inputs[n], destinations[n]);
  }
  repeatLast(count, parts);
  for (size_t n = 0; n < plan.inputs.size(); ++n)
    if (plan.inputs[n].kind == plan::InputKind::labels && valid[n] == 0)
      return 0;
  std::optional<size_t> labels = labelInput(plan);
  return labels ? valid[*labels] : count;
}

Status Batches::uncounted(int64_t position, int64_t count) const {
  size_t n = labelInput(plan).value_or(0);
  return fail("no label of the {} rows from {} to {} counts (all are {}): a loss over none is undefined; leave such rows "
              "out, or use a larger batch",
              count, corpus.where(sampler.row(position), n, 0), corpus.where(sampler.row(position + count - 1), n, 0),
              plan.inputs[n].ignored.value_or(kIgnored));
}

std::vector<std::byte *> Batches::rowAddresses(int64_t row, std::span<void *const> parts) const {
  std::vector<std::byte *> addresses;
  size_t part = 0;
  for (const plan::Input &input : plan.inputs) {
    std::byte *address = nullptr;
    if (input.kind != plan::InputKind::scalars) {
      int64_t inPart = plan.settings.microBatch;
      address = static_cast<std::byte *>(parts[part + static_cast<size_t>(row / inPart)]) + row % inPart * rowBytes(input);
    }
    addresses.push_back(address);
    part += input.parts.size();
  }
  return addresses;
}

void Batches::repeatLast(int64_t count, std::span<void *const> parts) const {
  for (int64_t row = count; row < plan.settings.batch; ++row) {
    std::vector<std::byte *> from = rowAddresses(count - 1, parts), to = rowAddresses(row, parts);
    for (size_t n = 0; n < plan.inputs.size(); ++n) {
      if (!to[n])
        continue;
      if (plan.inputs[n].kind == plan::InputKind::labels)
        padRow(plan.inputs[n], to[n], 0);
      else
        std::memcpy(to[n], from[n], static_cast<size_t>(rowBytes(plan.inputs[n])));
    }
  }
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
  for (const plan::Input &input : plan.inputs) {
    bool scalars = input.kind == plan::InputKind::scalars;
    int64_t parts = scalars ? 1 : settings.batch / settings.microBatch;
    int64_t bytes = scalars ? kernels::Scalars::kCount * 8 : settings.microBatch * rowBytes(input);
    bool fits = static_cast<int64_t>(input.parts.size()) == parts;
    for (const plan::Span &part : input.parts)
      fits &= part.bytes >= static_cast<uint64_t>(bytes);
    if (!fits || (!scalars && (input.dims.empty() || input.dims[0] != settings.batch)))
      return fail("the plan's input '{}' is not {} parts of {} bytes: compile it anew", input.name, parts, bytes);
  }
  return Status();
}

} // namespace mt::train
