// NumPy's .npz: an archive of named arrays. Reading maps the file and unpacks only what is compressed; writing streams
// one array after the other, so that no more than one is in memory. The archive itself is read in Zip.h.
#ifndef MT_RUNTIME_TRAIN_NPZ_H
#define MT_RUNTIME_TRAIN_NPZ_H

#include "runtime/base/AtomicFile.h"
#include "runtime/base/MappedFile.h"
#include "runtime/train/Npy.h"

#include <list>
#include <map>

namespace mt::train {

class NpzFile {
public:
  /// Reads every array. Errors name the file, the array, and what is wrong; the file may be hostile.
  static Result<NpzFile> open(const std::string &path);

  const std::string &path() const { return file.path(); }
  /// Null if there is none of this name (without ".npy").
  const ArrayView *find(std::string_view name) const;
  const std::map<std::string, ArrayView, std::less<>> &arrays() const { return views; }

private:
  explicit NpzFile(MappedFile file) : file(std::move(file)) {}
  MappedFile file;
  std::list<std::vector<std::byte>> unpacked; ///< what the views of compressed members look at
  std::map<std::string, ArrayView, std::less<>> views;
};

/// Writes an .npz of stored arrays; appears under its name only once complete.
class NpzWriter {
public:
  static Result<NpzWriter> create(const std::string &path);

  /// Appends an array; `data` has exactly its elements. Names must be distinct.
  Status add(const std::string &name, DType type, std::span<const int64_t> dims, std::span<const std::byte> data);
  /// Writes the directory, syncs and renames. Call once, last.
  Status finish();

private:
  explicit NpzWriter(AtomicFile file) : file(std::move(file)) {}
  AtomicFile file;
  std::string directory;
  uint64_t entries = 0;
};

} // namespace mt::train
#endif
