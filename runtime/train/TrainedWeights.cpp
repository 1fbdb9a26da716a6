#include "runtime/train/Checkpoint.h"
#include "runtime/train/Export.h"

#include <algorithm>
#include <cstring>

namespace mt::train {

Result<TrainedWeights> TrainedWeights::open(const std::string &checkpoint) {
  TrainedWeights trained;
  MT_ASSIGN(CheckpointMeta meta, readMeta(checkpoint));
  MT_TRY(checkSizes(checkpoint, meta.files));
  MT_ASSIGN(trained.weights, StateFile::open(checkpoint, fileStem(plan::PartRole::weight), meta.files));
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
  std::vector<float> values(weights->find(name)->data.size() / sizeof(float));
  MT_TRY(weights->read({std::string(name)}, 0, [&](size_t, uint64_t begin, std::span<const std::byte> bytes) {
    std::memcpy(std::as_writable_bytes(std::span(values)).data() + begin, bytes.data(), bytes.size());
    return Status();
  }));
  for (size_t at = 0; at < values.size(); at += kPiece)
    MT_TRY(take(std::span<const float>(values).subspan(at, std::min(kPiece, values.size() - at))));
  return Status();
}

} // namespace mt::train
