// The tensors of a checkpoint: one safetensors file per part (weight, and each of an optimizer's state), written and read by
// several threads, every byte under a checksum. Knows no folders of runs and no metadata but its own record.
#ifndef MT_RUNTIME_TRAIN_STATEFILES_H
#define MT_RUNTIME_TRAIN_STATEFILES_H

#include "runtime/base/Files.h"
#include "runtime/host/HostBytes.h"
#include "runtime/network/Network.h"
#include "runtime/plan/Program.h"
#include "runtime/train/Safetensors.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <functional>
#include <span>
#include <string>

namespace mt::train {

/// The bytes of a part of a parameter, in place.
using PartBytes = std::function<host::HostBytes(const plan::Part &)>;

/// Parts that may have a file, which has their name: the weight, and what some optimizer keeps. The remainder has none: the
/// weight's holds both halves, joined.
std::vector<std::string_view> stateFiles();

/// What is wanted of a checkpoint: all that a run goes on with; the weights alone; or in their place the average of
/// those that have one.
enum class Wanted : uint8_t { all, weights, average };

/// Who writes and reads a checkpoint: one alone or, of several ranks, each its share of the same files.
struct StateRank {
  network::Network *others = nullptr;

  uint32_t rank() const { return others ? others->rank() : 0; }
  /// An error of any is everybody's.
  Status agree(const Status &own) const {
    return others ? network::agree(*others, network::Channel::checkpoint, own) : own;
  }
  Result<std::string> told(const Result<std::string> &byFirst) const {
    return others ? network::broadcast(*others, network::Channel::checkpoint, byFirst) : byFirst;
  }
};

/// A checksum of each parameter's weight, as it lies in memory. `threads`: see inParallel().
Result<std::vector<uint64_t>> weightChecksums(const plan::Plan &plan, const PartBytes &part, int threads);

/// Bytes that writeState() will write, on all ranks together.
uint64_t stateBytes(const plan::Plan &plan);
/// Writes and syncs the masters and state of every trainable parameter into files of `folder`. Returns their record:
/// {"weight": {"bytes": of the file, "header": checksum, "tensors": {name: checksum}}, ...}.
Result<nlohmann::json> writeState(const std::string &folder, const plan::Plan &plan, const PartBytes &part, int threads,
                                  StateRank rank = {});

/// Whether this can be a record: what follows relies on it.
bool isStateRecord(const nlohmann::json &record);
/// Every file of the record is there, with its size: what can be seen without reading it.
Status checkSizes(const std::string &folder, const nlohmann::json &record);
/// An error where a file is there and cannot be opened or, `throughout`, read to its end: the system's, not one of what
/// is in it.
Status checkReadable(const std::string &folder, bool throughout);

/// One of the files, open for reading.
class StateFile {
public:
  /// Compares the header's checksum where the record has one. Errors name the file; it may be hostile.
  static Result<StateFile> open(const std::string &folder, std::string_view stem, const nlohmann::json &record);

  const std::string &path() const { return file.path(); }
  /// Null if there is none of this name.
  const ArrayView *find(std::string_view name) const { return file.find(name); }
  const std::map<std::string, ArrayView, std::less<>> &tensors() const { return file.tensors(); }

  /// Takes `bytes` of names[tensor] from `begin` on.
  using Take = std::function<Status(size_t tensor, uint64_t begin, std::span<const std::byte> bytes)>;
  /// Passes tensors that are there on in pieces, each byte read once, from several threads, and then compares their
  /// checksums where they are known.
  Status read(const std::vector<std::string> &names, int threads, const Take &take) const;

private:
  StateFile(SafetensorsFile file, Descriptor descriptor, nlohmann::json checksums)
      : file(std::move(file)), descriptor(std::move(descriptor)), checksums(std::move(checksums)) {}
  SafetensorsFile file;
  Descriptor descriptor;
  nlohmann::json checksums; ///< by name; null: nothing is known
};

/// An error where a record of `folder` has no average of the weights.
Status hasAverage(const std::string &folder, const nlohmann::json &record);

/// Reads the files of the record and compares every checksum. `weightsOnly`: those of weights and their average. Errors
/// name file and tensor.
Status verifyState(const std::string &folder, const nlohmann::json &record, bool weightsOnly, int threads);

/// Fills what a rank has of the parts of every trainable parameter, comparing checksums where the record has them;
/// masters are split where the plan has a remainder. Errors name the file, the parameter, and both shapes. What is not
/// `wanted` is left alone.
Status readState(const std::string &folder, const nlohmann::json &record, const plan::Plan &plan, const PartBytes &part,
                 Wanted wanted, int threads, uint32_t rank = 0);

} // namespace mt::train
#endif
