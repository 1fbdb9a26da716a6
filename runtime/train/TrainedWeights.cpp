#include "runtime/train/Checkpoint.h"
#include "runtime/train/Export.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>

namespace mt::train {

Result<TrainedWeights> TrainedWeights::open(const std::string &checkpoint) {
  TrainedWeights trained;
  auto path = [&](plan::PartRole role) { return fmt::format("{}/{}.safetensors", checkpoint, fileStem(role)); };
  MT_ASSIGN(trained.weights, SafetensorsFile::open(path(plan::PartRole::weight)));
  if (std::filesystem::exists(path(plan::PartRole::remainder))) {
    MT_ASSIGN(trained.remainders, SafetensorsFile::open(path(plan::PartRole::remainder)));
  }
  for (const auto &[name, tensor] : trained.weights->tensors()) {
    const ArrayView *rest = trained.remainders ? trained.remainders->find(name) : nullptr;
    bool whole = tensor.type == DType::f32;
    bool halves = tensor.type == DType::bf16 && rest && rest->type == DType::i16 && rest->dims == tensor.dims;
    if (!whole && !halves)
      return fail("{}: parameter '{}' is {} without its remainder: the checkpoint is damaged",
                  trained.weights->path(), name, kernels::name(tensor.type));
    trained.all.push_back({name, tensor.dims});
  }
  return trained;
}

Status TrainedWeights::read(std::string_view name, const std::function<Status(std::span<const float>)> &take) const {
  constexpr size_t kPiece = 1 << 16;
  const ArrayView *high = weights->find(name);
  const ArrayView *rest = remainders ? remainders->find(name) : nullptr;
  size_t count = high->data.size() / byteSize(high->type);
  std::vector<float> piece;
  for (size_t at = 0; at < count; at += kPiece) {
    piece.resize(std::min(kPiece, count - at));
    if (!rest)
      std::memcpy(piece.data(), high->data.data() + at * 4, piece.size() * 4);
    for (size_t i = 0; rest && i < piece.size(); ++i) {
      uint16_t hi;
      int16_t lo;
      std::memcpy(&hi, high->data.data() + (at + i) * 2, 2);
      std::memcpy(&lo, rest->data.data() + (at + i) * 2, 2);
      // How a bf16 weight and its remainder make the 32-bit master: bits = (hi << 16) + lo.
      piece[i] = std::bit_cast<float>((static_cast<uint32_t>(hi) << 16) + static_cast<uint32_t>(int32_t(lo)));
    }
    MT_TRY(take(piece));
  }
  return Status();
}

} // namespace mt::train
