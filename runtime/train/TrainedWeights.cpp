#include "runtime/train/Checkpoint.h"
#include "runtime/train/Export.h"

#include <algorithm>
#include <cstring>

namespace mt::train {

Result<TrainedWeights> TrainedWeights::open(const std::string &checkpoint) {
  TrainedWeights trained;
  std::string path = fmt::format("{}/{}.safetensors", checkpoint, fileStem(plan::PartRole::weight));
  MT_ASSIGN(trained.weights, SafetensorsFile::open(path));
  for (const auto &[name, tensor] : trained.weights->tensors()) {
    if (tensor.type != DType::f32)
      return fail("{}: parameter '{}' is {}, not f32: the checkpoint is damaged", trained.weights->path(), name,
                  kernels::name(tensor.type));
    trained.all.push_back({name, tensor.dims});
  }
  return trained;
}

Status TrainedWeights::read(std::string_view name, const std::function<Status(std::span<const float>)> &take) const {
  constexpr size_t kPiece = 1 << 16;
  const ArrayView *stored = weights->find(name);
  size_t count = stored->data.size() / sizeof(float);
  std::vector<float> piece;
  for (size_t at = 0; at < count; at += kPiece) {
    piece.resize(std::min(kPiece, count - at));
    std::memcpy(piece.data(), stored->data.data() + at * sizeof(float), piece.size() * sizeof(float));
    MT_TRY(take(piece));
  }
  return Status();
}

} // namespace mt::train
