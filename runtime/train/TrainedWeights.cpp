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

Result<TrainedWeights> TrainedWeights::open(const std::string &checkpoint) {
  TrainedWeights trained;
  MT_ASSIGN(CheckpointMeta meta, readMeta(checkpoint));
  MT_TRY(checkSizes(checkpoint, meta.files));
  MT_ASSIGN(trained.weights, StateFile::open(checkpoint, plan::kWeight, meta.files));
  const std::string &path = trained.weights->path();
  MT_ASSIGN(auto aliases, readAliases(meta.aliases));
  trained.hasAliases = !meta.aliases.is_null();
  for (const auto &[name, tensor] : trained.weights->tensors()) {
    if (tensor.type != DType::f32)
      return fail("{}: parameter '{}' is {}, not f32: the checkpoint is damaged", path, name, kernels::name(tensor.type));
    trained.all[name] = {name, tensor.dims};
  }
  for (const auto &[name, tensor] : trained.weights->tensors())
    for (const plan::Alias &alias : aliases[name]) {
      Named named{name, tensor.dims, alias.transposed, alias.kind == plan::Alias::Kind::initializer};
      if (alias.transposed && tensor.dims.size() != 2)
        return fail("{}: '{}' cannot be the transpose of '{}' {}: the checkpoint is damaged", path, alias.name, name,
                    text(tensor.dims));
      if (alias.transposed)
        std::swap(named.dims[0], named.dims[1]);
      auto [at, isNew] = trained.all.try_emplace(alias.name, std::move(named));
      if (!isNew)
        return fail("{}: parameters '{}' and '{}' both have the name '{}': the checkpoint is damaged", path,
                    at->second.parameter, name, alias.name);
    }
  return trained;
}

const TrainedWeights::Named *TrainedWeights::initializer(std::string_view name) const {
  auto at = all.find(name);
  return at == all.end() || !at->second.initializer ? nullptr : &at->second;
}

Status TrainedWeights::read(const Named &tensor, const Take &take) const {
  const ArrayView &stored = *weights->find(tensor.parameter);
  std::vector<float> values(stored.data.size() / sizeof(float));
  MT_TRY(weights->read({tensor.parameter}, 0, [&](size_t, uint64_t begin, std::span<const std::byte> bytes) {
    std::memcpy(std::as_writable_bytes(std::span(values)).data() + begin, bytes.data(), bytes.size());
    return Status();
  }));
  return tensor.transposed ? passTransposed(values, size_t(stored.dims[0]), size_t(stored.dims[1]), take)
                           : passStraight(values, take);
}

} // namespace mt::train
