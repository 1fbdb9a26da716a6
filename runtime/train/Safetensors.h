// The safetensors format (github.com/huggingface/safetensors): 8 bytes of header length, a JSON header of names, types,
// shapes and offsets, then the tensors' bytes. Written in one pass, read in place; what is in the tensors is not looked at.
#ifndef MT_RUNTIME_TRAIN_SAFETENSORS_H
#define MT_RUNTIME_TRAIN_SAFETENSORS_H

#include "runtime/base/AtomicFile.h"
#include "runtime/base/MappedFile.h"
#include "runtime/train/Npy.h"

#include <map>

namespace mt::train {

struct TensorInfo {
  std::string name;
  DType type = DType::f32;
  Dims dims;
};

/// The bytes before those of the tensors, which follow in their order; names must be distinct.
Result<std::string> safetensorsHeader(const std::string &path, std::span<const TensorInfo> tensors);

class SafetensorsWriter {
public:
  /// Starts a file of these tensors; names must be distinct. The file appears only with finish().
  static Result<SafetensorsWriter> create(const std::string &path, std::span<const TensorInfo> tensors);

  /// Appends bytes of the tensors, in their order; any pieces.
  Status write(std::span<const std::byte> bytes) { return file.write(bytes); }
  /// Fails if the tensors are not complete. Syncs and renames. Call once, last.
  Status finish();

private:
  SafetensorsWriter(AtomicFile file, uint64_t total) : file(std::move(file)), total(total) {}
  AtomicFile file;
  uint64_t total;
};

class SafetensorsFile {
public:
  /// Reads the header only. Errors name the file; it may be hostile.
  static Result<SafetensorsFile> open(const std::string &path);

  const std::string &path() const { return file.path(); }
  std::span<const std::byte> bytes() const { return file.bytes(); }
  /// Null if there is none of this name.
  const ArrayView *find(std::string_view name) const;
  const std::map<std::string, ArrayView, std::less<>> &tensors() const { return views; }

private:
  explicit SafetensorsFile(MappedFile file) : file(std::move(file)) {}
  MappedFile file;
  std::map<std::string, ArrayView, std::less<>> views;
};

} // namespace mt::train
#endif
