#include "kernels/Optimizers.h"
#include "runtime/train/Aliases.h"
#include "runtime/train/Checkpoint.h"
#include "runtime/train/Export.h"

#include <algorithm>
#include <cstring>

namespace mt::train {
namespace {

using Take = std::function<Status(std::span<const float>)>;

constexpr size_t kPiece = 1 << 16; // elements

Status passStraight(std::span<const float> values, const Take &take) {
  for (size_t at = 0; at < values.size(); at += kPiece)
    MT_TRY(take(values.subspan(at, std::min(kPiece, values.size() - at))));
  return Status();
}

/// Some of the columns at a time, so that every row is read in runs.
Status passTransposed(std::span<const float> values, size_t rows, size_t columns, const Take &take) {
  size_t most = std::max<size_t>(1, kPiece / std::max<size_t>(1, rows));
  std::vector<float> piece;
  for (size_t begin = 0; begin < columns; begin += most) {
    size_t count = std::min(most, columns - begin);
    piece.resize(count * rows);
    for (size_t row = 0; row < rows; ++row)
      for (size_t i = 0; i < count; ++i)
        piece[i * rows + row] = values[row * columns + begin + i];
    MT_TRY(take(piece));
  }
  return Status();
}

} // namespace

Result<TrainedWeights> TrainedWeights::open(const std::string &checkpoint, bool merge, bool ema) {
  TrainedWeights trained;
  MT_ASSIGN(CheckpointMeta meta, readMeta(checkpoint));
  MT_TRY(checkSizes(checkpoint, meta.files));
  MT_ASSIGN(trained.weights, StateFile::open(checkpoint, plan::kWeight, meta.files));
  const std::string &path = trained.weights->path();
  MT_ASSIGN(auto aliases, readAliases(meta.aliases));
  MT_ASSIGN(trained.stored, readAdapters(meta.adapters));
  trained.hasAliases = !meta.aliases.is_null();
  for (const auto &[name, tensor] : trained.weights->tensors()) {
    if (tensor.type != DType::f32)
      return fail("{}: parameter '{}' is {}, not f32: the checkpoint is damaged", path, name, kernels::name(tensor.type));
    trained.all[name] = {name, tensor.dims};
  }
  if (ema)
    MT_TRY(trained.openAverages(checkpoint, meta.files));
  for (const auto &[name, tensor] : trained.weights->tensors())
    MT_TRY(trained.addAliases({name, tensor.dims}, aliases[name]).within(path));
  for (const StoredAdapter &adapter : trained.stored)
    MT_TRY(trained.check(adapter).within(path));
  if (merge)
    MT_TRY(trained.mergeAdapters().within(path));
  return trained;
}

Status TrainedWeights::openAverages(const std::string &checkpoint, const nlohmann::json &record) {
  MT_TRY(hasAverage(checkpoint, record));
  MT_ASSIGN(averages, StateFile::open(checkpoint, kernels::kAverage, record));
  for (const auto &[name, tensor] : averages->tensors())
    if (const ArrayView *weight = weights->find(name);
        !weight || tensor.type != DType::f32 || tensor.dims != weight->dims)
      return fail("{}: '{}' is no average of a weight: the checkpoint is damaged", averages->path(), name);
  return Status();
}

/// Names a tensor has beside its own.
Status TrainedWeights::addAliases(const Named &own, const std::vector<plan::Alias> &aliases) {
  for (const plan::Alias &alias : aliases) {
    Named named = own;
    named.transposed = alias.transposed;
    named.initializer = alias.kind == plan::Alias::Kind::initializer;
    if (alias.transposed && own.dims.size() != 2)
      return fail("'{}' cannot be the transpose of '{}' {}: the checkpoint is damaged", alias.name, own.parameter,
                  text(own.dims));
    if (alias.transposed)
      std::swap(named.dims[0], named.dims[1]);
    auto [at, isNew] = all.try_emplace(alias.name, std::move(named));
    if (!isNew)
      return fail("parameters '{}' and '{}' both have the name '{}': the checkpoint is damaged", at->second.parameter,
                  own.parameter, alias.name);
  }
  return Status();
}

/// An adapter's matrices are there and make up its weight.
Status TrainedWeights::check(const StoredAdapter &adapter) const {
  const ArrayView *down = weights->find(adapter.down), *up = weights->find(adapter.up);
  const auto out = static_cast<size_t>(adapter.transposed ? 1 : 0);
  if (!down || !up || down->dims.size() != 2 || up->dims.size() != 2 || down->dims[0] != up->dims[1] ||
      down->dims[0] == 0 || up->dims[0] != adapter.dims[out] || down->dims[1] != adapter.dims[1 - out])
    return fail("the adapter of '{}' does not make up its {}: the checkpoint is damaged", adapter.weight,
                text(adapter.dims));
  return Status();
}

Status TrainedWeights::mergeAdapters() {
  merged = true;
  for (size_t i = 0; i < stored.size(); ++i) {
    const StoredAdapter &adapter = stored[i];
    all.erase(adapter.down);
    all.erase(adapter.up);
    Named named{adapter.weight, adapter.dims};
    named.adapter = i;
    if (!all.try_emplace(adapter.weight, named).second)
      return fail("'{}' is trained and has an adapter: the checkpoint is damaged", adapter.weight);
    MT_TRY(addAliases(named, adapter.aliases));
  }
  return Status();
}

const TrainedWeights::Named *TrainedWeights::initializer(std::string_view name) const {
  auto at = all.find(name);
  return at == all.end() || !at->second.initializer ? nullptr : &at->second;
}

Result<std::vector<float>> TrainedWeights::values(const std::string &parameter) const {
  const StateFile &file = averages && averages->find(parameter) ? *averages : *weights;
  std::vector<float> values(file.find(parameter)->data.size() / sizeof(float));
  MT_TRY(file.read({parameter}, 0, [&](size_t, uint64_t begin, std::span<const std::byte> bytes) {
    std::memcpy(std::as_writable_bytes(std::span(values)).data() + begin, bytes.data(), bytes.size());
    return Status();
  }));
  return values;
}

Status TrainedWeights::read(const Named &tensor, const std::function<Result<std::vector<float>>()> &base,
                            const Take &take) const {
  if (tensor.adapter) {
    const StoredAdapter &adapter = stored[*tensor.adapter];
    MT_ASSIGN(std::vector<float> sum, base());
    MT_ASSIGN(const std::vector<float> down, values(adapter.down));
    MT_ASSIGN(const std::vector<float> up, values(adapter.up));
    addAdapter(down, up, weights->find(adapter.down)->dims[0], adapter.scale, adapter.transposed != tensor.transposed,
               sum);
    return passStraight(sum, take);
  }
  const ArrayView &stored = *weights->find(tensor.parameter);
  MT_ASSIGN(const std::vector<float> values, this->values(tensor.parameter));
  return tensor.transposed ? passTransposed(values, size_t(stored.dims[0]), size_t(stored.dims[1]), take)
                           : passStraight(values, take);
}

} // namespace mt::train
