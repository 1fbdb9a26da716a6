#include "runtime/train/Aliases.h"
#include "runtime/train/Checkpoint.h"
#include "runtime/train/Export.h"

#include <algorithm>
#include <cstring>

namespace mt::train {
namespace {

constexpr size_t kPiece = 1 << 16; // elements

using Take = std::function<Status(std::span<const float>)>;

float elementAt(const ArrayView &stored, size_t index) {
  float value;
  std::memcpy(&value, stored.data.data() + index * sizeof(float), sizeof(value));
  return value;
}

Status readStraight(const ArrayView &stored, const Take &take) {
  size_t count = stored.data.size() / sizeof(float);
  std::vector<float> piece;
  for (size_t at = 0; at < count; at += kPiece) {
    piece.resize(std::min(kPiece, count - at));
    std::memcpy(piece.data(), stored.data.data() + at * sizeof(float), piece.size() * sizeof(float));
    MT_TRY(take(piece));
  }
  return Status();
}

/// Some of the columns at a time, so that every row is read in runs.
Status readTransposed(const ArrayView &stored, const Take &take) {
  auto rows = static_cast<size_t>(stored.dims[0]), columns = static_cast<size_t>(stored.dims[1]);
  size_t most = std::max<size_t>(1, kPiece / std::max<size_t>(1, rows));
  std::vector<float> piece;
  for (size_t begin = 0; begin < columns; begin += most) {
    size_t count = std::min(most, columns - begin);
    piece.resize(count * rows);
    for (size_t row = 0; row < rows; ++row)
      for (size_t i = 0; i < count; ++i)
        piece[i * rows + row] = elementAt(stored, row * columns + begin + i);
    MT_TRY(take(piece));
  }
  return Status();
}

} // namespace

Result<TrainedWeights> TrainedWeights::open(const std::string &checkpoint) {
  TrainedWeights trained;
  std::string path = fmt::format("{}/{}.safetensors", checkpoint, fileStem(plan::PartRole::weight));
  MT_ASSIGN(trained.weights, SafetensorsFile::open(path));
  MT_ASSIGN(CheckpointMeta meta, readMeta(checkpoint));
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
  return tensor.transposed ? readTransposed(stored, take) : readStraight(stored, take);
}

} // namespace mt::train
