#include "runtime/train/StateFiles.h"

#include "kernels/Optimizers.h"
#include "runtime/base/Files.h"
#include "runtime/host/Convert.h"
#include "runtime/plan/Ranks.h"
#include "runtime/train/Checksum.h"
#include "runtime/train/Safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace mt::train {
namespace {

using nlohmann::json;
using plan::Part;

/// The other half of a weight, where that is in two.
const Part *restOf(const plan::Parameter &parameter, std::string_view part) {
  return part == plan::kWeight ? parameter.part(plan::kRemainder) : nullptr;
}

std::string fileOf(const std::string &folder, std::string_view stem) {
  return fmt::format("{}/{}.safetensors", folder, stem);
}

Status systemError(const std::string &path) { return fail("{}: {}", path, std::strerror(errno)); }

/// The bytes of a file before those of its tensors. Read here, and mapped only then: a disk that fails is an error so, and
/// else a signal.
Result<std::string> headerOf(const std::string &path, int descriptor) {
  uint64_t length = 0;
  struct stat status = {};
  MT_TRY(readAllAt(descriptor, std::as_writable_bytes(std::span(&length, 1)), 0).within(path));
  if (::fstat(descriptor, &status) != 0)
    return systemError(path);
  auto rest = static_cast<uint64_t>(status.st_size) - sizeof(length);
  std::string header(sizeof(length) + std::min(length, rest), '\0');
  MT_TRY(readAllAt(descriptor, std::as_writable_bytes(std::span(header)), 0).within(path));
  return header;
}

/// The parameters that have such a part, by name, so that the file does not depend on the plan's order.
std::vector<const plan::Parameter *> stored(const plan::Plan &plan, std::string_view part) {
  std::vector<const plan::Parameter *> parameters;
  for (const plan::Parameter &parameter : plan.parameters)
    if (parameter.trainable && parameter.part(part))
      parameters.push_back(&parameter);
  std::sort(parameters.begin(), parameters.end(), [](auto *a, auto *b) { return a->name < b->name; });
  return parameters;
}

DType storedType(const plan::Parameter &parameter, std::string_view part) {
  return restOf(parameter, part) ? DType::f32 : parameter.part(part)->type;
}

/// The parameter's, or where one entry is for several of its elements, the number of entries.
kernels::Dims storedDims(const plan::Parameter &parameter, std::string_view part) {
  return kernels::partDims(parameter.part(part)->elements, parameter.dims);
}

uint64_t storedBytes(const plan::Parameter &parameter, std::string_view part) {
  return static_cast<uint64_t>(elementCount(storedDims(parameter, part)).value_or(0)) * byteSize(storedType(parameter, part));
}

/// Bytes of a tensor, and where their values are: in one place, or as the two halves of masters.
struct Region {
  uint64_t begin = 0, bytes = 0; ///< of the tensor
  host::HostBytes whole, lower;
  bool isUpper = false; ///< only the upper halves of masters are here

  uint64_t end() const { return begin + bytes; }
  bool has(uint64_t at, uint64_t count) const { return begin <= at && at + count <= end(); }

  /// `count` bytes of the tensor from `at` on, which are here; in `buffer`, if they are nowhere as such.
  Result<std::span<const std::byte>> get(uint64_t at, uint64_t count, std::vector<std::byte> &buffer) const {
    at -= begin;
    if (lower.size() == 0)
      return whole.part(at, count).get(buffer);
    std::vector<std::byte> uppers, lowers;
    MT_ASSIGN(std::span<const std::byte> upper, whole.part(at / 2, count / 2).get(uppers));
    MT_ASSIGN(std::span<const std::byte> rest, lower.part(at / 2, count / 2).get(lowers));
    buffer.resize(count);
    host::joinMaster(reinterpret_cast<const kernels::Bf16 *>(upper.data()),
                     reinterpret_cast<const int16_t *>(rest.data()),
                     std::span(reinterpret_cast<float *>(buffer.data()), count / sizeof(float)));
    return std::span<const std::byte>(buffer);
  }
  Status put(uint64_t at, std::span<const std::byte> from) const {
    at -= begin;
    if (lower.size() == 0 && !isUpper)
      return whole.part(at, from.size()).set([&](std::span<std::byte> to) {
        std::memcpy(to.data(), from.data(), from.size());
        return Status();
      });
    return whole.part(at / 2, from.size() / 2).set([&](std::span<std::byte> uppers) {
      if (isUpper) {
        std::vector<std::byte> nobodys(from.size() / 2);
        return split(begin + at, from, uppers, nobodys);
      }
      return lower.part(at / 2, from.size() / 2).set([&](std::span<std::byte> lowers) {
        return split(begin + at, from, uppers, lowers);
      });
    });
  }

private:
  static Status split(uint64_t at, std::span<const std::byte> from, std::span<std::byte> uppers,
                      std::span<std::byte> lowers) {
    for (size_t i = 0; i < from.size() / sizeof(float); ++i) {
      float value;
      std::memcpy(&value, from.data() + i * sizeof(value), sizeof(value));
      if (!kernels::splits(value))
        return fail("element {} is {}: not finite in bf16; go on with --precision fp32", at / sizeof(float) + i, value);
      host::splitMaster(std::span(&value, 1), reinterpret_cast<kernels::Bf16 *>(uppers.data()) + i,
                        reinterpret_cast<int16_t *>(lowers.data()) + i);
    }
    return Status();
  }
};

/// What a rank has of a tensor, in order, that of several ranks on just one where `once`. Without that, all that is
/// anywhere on it.
std::vector<Region> regionsOf(const plan::Plan &plan, const plan::Parameter &parameter, std::string_view name,
                              const PartBytes &bytes, uint32_t rank, bool once) {
  const Part &part = *parameter.part(name), *rest = restOf(parameter, name);
  const host::HostBytes whole = bytes(part), lower = rest ? bytes(*rest) : host::HostBytes();
  const bool isWeight = name == plan::kWeight;
  if (plan.ranks == 1 || (isWeight && !rest && !once))
    return {{0, storedBytes(parameter, name), whole, lower}};
  const uint64_t size = byteSize(storedType(parameter, name)), weightSize = byteSize(part.type);
  std::vector<Region> regions;
  int64_t end = 0;
  auto addUppers = [&](int64_t to) {
    if (isWeight && !once && end < to)
      regions.push_back(
          {end * size, (to - end) * size, whole.part(end * weightSize, (to - end) * weightSize), {}, true});
  };
  for (const plan::Owned &owned : plan::ownedBy(plan::sharesOf(plan, parameter), rank, once)) {
    addUppers(owned.first);
    end = owned.first + owned.count;
    const int64_t first = owned.first / part.elements, place = owned.place / part.elements;
    const int64_t count = (owned.count + part.elements - 1) / part.elements;
    regions.push_back({first * size, count * size,
                       whole.part((isWeight ? first : place) * weightSize, count * weightSize),
                       rest ? lower.part(place * sizeof(int16_t), count * sizeof(int16_t)) : host::HostBytes()});
  }
  addUppers(static_cast<int64_t>(storedBytes(parameter, name) / size));
  return regions;
}

/// One file on its way to disk: of several ranks each writes its share. Every step of it is all ranks' or none's.
class Writer {
public:
  Writer(const std::string &folder, const plan::Plan &plan, std::string_view part, const PartBytes &bytes,
         StateRank rank)
      : path(fileOf(folder, part)), rank(rank), parameters(stored(plan, part)) {
    for (const plan::Parameter *parameter : parameters) {
      infos.push_back({parameter->name, storedType(*parameter, part), storedDims(*parameter, part)});
      regions.push_back(regionsOf(plan, *parameter, part, bytes, rank.rank(), true));
      sizes.push_back(storedBytes(*parameter, part));
    }
  }

  Status write(int threads) {
    MT_TRY(rank.agree(rank.rank() == 0 ? create() : describe()));
    MT_TRY(rank.agree(rank.rank() == 0 ? Status() : open()));
    const std::vector<Piece> pieces = piecesOf(sizes);
    checksums.assign(pieces.size(), 0);
    MT_TRY(rank.agree(writeOwn(pieces, threads)));
    MT_TRY(rank.agree(readShared(pieces, threads)));
    MT_TRY(gatherChecksums(pieces));
    std::vector<std::vector<uint64_t>> found(sizes.size());
    for (size_t i = 0; i < pieces.size(); ++i)
      found[pieces[i].tensor].push_back(checksums[i]);
    for (const std::vector<uint64_t> &all : found)
      tensors.push_back(checksumOfPieces(all));
    return rank.agree(descriptor.close().within(path));
  }

  json record() const {
    json names = json::object();
    for (size_t i = 0; i < infos.size(); ++i)
      names[infos[i].name] = checksumText(tensors[i]);
    return {{"bytes", total},
            {"header", checksumText(checksumOf(std::as_bytes(std::span(header))))},
            {"tensors", std::move(names)}};
  }

private:
  Status describe() {
    MT_ASSIGN(header, safetensorsHeader(path, infos));
    total = header.size();
    for (uint64_t size : sizes) {
      offsets.push_back(total);
      total += size;
    }
    return Status();
  }

  /// Makes the file, its header written and room for the rest taken.
  Status create() {
    MT_TRY(describe());
    descriptor = Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!descriptor.valid())
      return systemError(path);
    while (::fallocate(descriptor.get(), 0, 0, static_cast<off_t>(total)) != 0 && errno != EOPNOTSUPP && errno != ENOSYS)
      if (errno != EINTR)
        return systemError(path);
    return writeAllAt(descriptor.get(), std::as_bytes(std::span(header)), 0).within(path);
  }
  Status open() {
    descriptor = Descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    return descriptor.valid() ? Status() : fail("{}; every rank must see the same folder", systemError(path).message());
  }

  /// Whether this rank has a byte of a tensor.
  bool hasFirst(const Piece &piece) const {
    return std::ranges::any_of(regions[piece.tensor], [&](const Region &region) { return region.has(piece.begin, 1); });
  }
  bool hasAll(const Piece &piece) const {
    return std::ranges::any_of(regions[piece.tensor],
                               [&](const Region &region) { return region.has(piece.begin, piece.bytes); });
  }

  Status writeOwn(const std::vector<Piece> &pieces, int threads) {
    MT_TRY(inParallel(pieces.size(), threads, [&](size_t i) {
      for (const Region &region : regions[pieces[i].tensor])
        MT_TRY(writePart(pieces[i], region, checksums[i]));
      return Status();
    }));
    return syncDescriptor(descriptor.get()) ? Status() : systemError(path);
  }

  Status writePart(const Piece &piece, const Region &region, uint64_t &checksum) const {
    const uint64_t from = std::max(piece.begin, region.begin), to = std::min(piece.begin + piece.bytes, region.end());
    if (from >= to)
      return Status();
    std::vector<std::byte> buffer;
    MT_ASSIGN(std::span<const std::byte> bytes, region.get(from, to - from, buffer));
    MT_TRY(writeAllAt(descriptor.get(), bytes, offsets[piece.tensor] + from).within(path));
    checksum = checksumOf(bytes); // of all of it, if that is all
    return Status();
  }

  /// Pieces that several ranks wrote are read again by the one that has their first byte.
  Status readShared(const std::vector<Piece> &pieces, int threads) {
    return inParallel(pieces.size(), threads, [&](size_t i) {
      const Piece &piece = pieces[i];
      if (!hasFirst(piece) || hasAll(piece))
        return Status();
      std::vector<std::byte> bytes(piece.bytes);
      const auto begin =
          static_cast<off_t>(offsets[piece.tensor] + piece.begin); // not as a network's file system had it before
      (void)::posix_fadvise(descriptor.get(), begin, static_cast<off_t>(piece.bytes), POSIX_FADV_DONTNEED);
      MT_TRY(readAllAt(descriptor.get(), bytes, offsets[piece.tensor] + piece.begin).within(path));
      checksums[i] = checksumOf(bytes);
      return Status();
    });
  }

  /// Each from the rank that has the first byte of the piece.
  Status gatherChecksums(const std::vector<Piece> &pieces) {
    if (!rank.others)
      return Status();
    std::string own;
    for (size_t i = 0; i < pieces.size(); ++i)
      if (hasFirst(pieces[i])) {
        const std::array<uint64_t, 2> entry = {i, checksums[i]};
        own.append(reinterpret_cast<const char *>(entry.data()), sizeof(entry));
      }
    MT_ASSIGN(std::vector<std::string> all, network::gatherTexts(*rank.others, network::Channel::checkpoint, own));
    for (const std::string &text : all)
      for (size_t at = 0; at + 2 * sizeof(uint64_t) <= text.size(); at += 2 * sizeof(uint64_t)) {
        std::array<uint64_t, 2> entry = {};
        std::memcpy(entry.data(), text.data() + at, sizeof(entry));
        checksums[std::min<size_t>(entry[0], checksums.size() - 1)] = entry[1];
      }
    return Status();
  }

  std::string path, header;
  StateRank rank;
  std::vector<const plan::Parameter *> parameters;
  std::vector<TensorInfo> infos;
  std::vector<std::vector<Region>> regions;      ///< of each tensor: what this rank writes
  std::vector<uint64_t> sizes, offsets, tensors; ///< of each tensor: bytes, place in the file, checksum
  std::vector<uint64_t> checksums;               ///< of pieces
  uint64_t total = 0;
  Descriptor descriptor;
};

Status checkTensor(const StateFile &file, const plan::Parameter &parameter, std::string_view part,
                   const PartBytes &bytes, bool isAlone) {
  const ArrayView *tensor = file.find(parameter.name);
  if (!tensor)
    return fail("{}: no parameter '{}': the checkpoint is of another model", file.path(), parameter.name);
  const DType wanted = storedType(parameter, part);
  const kernels::Dims dims = storedDims(parameter, part);
  if (tensor->type != wanted || tensor->dims != dims)
    return fail("{}: parameter '{}' is {} {}, and the plan wants {} {}", file.path(), parameter.name,
                name(tensor->type), text(tensor->dims), name(wanted), text(dims));
  const Part *rest = restOf(parameter, part);
  const uint64_t there = bytes(*parameter.part(part)).size() + (rest ? bytes(*rest).size() : 0);
  if (isAlone && there < tensor->data.size())
    return fail("{}: parameter '{}' has {} bytes, and its place {}", file.path(), parameter.name, tensor->data.size(),
                there);
  return Status();
}

/// A plan may train as one what the checkpoint's trained apart.
Status checkTied(const StateFile &file, const plan::Plan &plan) {
  for (const plan::Parameter &parameter : plan.parameters)
    for (const plan::Alias &alias : parameter.aliases)
      if (file.find(alias.name) && file.find(parameter.name))
        return fail("{}: it has '{}' and '{}', which the plan trains as one tensor: go on with the plan that the run began "
                    "with",
                    file.path(), parameter.name, alias.name);
  return Status();
}

/// Fills `part` of `parameters`, all that the file has.
Status readPart(const StateFile &file, const plan::Plan &plan, const std::vector<const plan::Parameter *> &parameters,
                std::string_view part, const PartBytes &bytes, int threads, uint32_t rank) {
  std::vector<std::string> names;
  std::vector<std::vector<Region>> regions;
  for (const plan::Parameter *parameter : parameters) {
    names.push_back(parameter->name);
    MT_TRY(checkTensor(file, *parameter, part, bytes, plan.ranks == 1));
    regions.push_back(regionsOf(plan, *parameter, part, bytes, rank, false));
  }
  MT_TRY(checkTied(file, plan));
  if (names.size() != file.tensors().size())
    return fail("{}: it has {} parameters, and the plan trains {}: compile the same model with the same --train and "
                "--freeze",
                file.path(), file.tensors().size(), names.size());
  return file.read(names, threads, [&](size_t tensor, uint64_t begin, std::span<const std::byte> from) {
    for (const Region &region : regions[tensor]) {
      const uint64_t first = std::max(begin, region.begin), end = std::min(begin + from.size(), region.end());
      if (first < end)
        MT_TRY(region.put(first, from.subspan(first - begin, end - first)));
    }
    return Status();
  });
}

} // namespace

std::vector<std::string_view> stateFiles() {
  std::vector<std::string_view> names = kernels::statePartNames();
  names.insert(names.begin(), plan::kWeight);
  return names;
}

Result<std::vector<uint64_t>> weightChecksums(const plan::Plan &plan, const PartBytes &part, int threads) {
  std::vector<host::HostBytes> weights;
  std::vector<uint64_t> sizes;
  for (const plan::Parameter &parameter : plan.parameters) {
    weights.push_back(part(*parameter.part(plan::kWeight)));
    sizes.push_back(parameter.part(plan::kWeight)->span.bytes);
  }
  const std::vector<Piece> pieces = piecesOf(sizes);
  std::vector<std::vector<uint64_t>> found(sizes.size());
  for (const Piece &piece : pieces)
    found[piece.tensor].push_back(0);
  MT_TRY(inParallel(pieces.size(), threads, [&](size_t i) {
    std::vector<std::byte> buffer;
    const auto &[tensor, number, begin, bytes] = pieces[i];
    MT_ASSIGN(const std::span<const std::byte> there, weights[tensor].part(begin, bytes).get(buffer));
    found[tensor][number] = checksumOf(there);
    return Status();
  }));
  std::vector<uint64_t> checksums;
  for (const std::vector<uint64_t> &each : found)
    checksums.push_back(checksumOfPieces(each));
  return checksums;
}

uint64_t stateBytes(const plan::Plan &plan) {
  uint64_t total = 0;
  for (std::string_view part : stateFiles())
    for (const plan::Parameter *parameter : stored(plan, part))
      total += storedBytes(*parameter, part);
  return total;
}

Result<json> writeState(const std::string &folder, const plan::Plan &plan, const PartBytes &part, int threads,
                        StateRank rank) {
  json record = json::object();
  for (std::string_view name : stateFiles()) {
    if (stored(plan, name).empty())
      continue;
    Writer writer(folder, plan, name, part, rank);
    MT_TRY(writer.write(threads));
    record[std::string(name)] = writer.record();
  }
  return record;
}

bool isStateRecord(const json &record) {
  const std::vector<std::string_view> files = stateFiles();
  auto known = [&](const std::string &stem) { return std::ranges::find(files, stem) != files.end(); };
  auto text = [](const json &object, const char *key) { return object.contains(key) && object[key].is_string(); };
  if (!record.is_object())
    return false;
  for (const auto &[stem, about] : record.items()) {
    if (!known(stem) || !about.is_object() || !text(about, "header") || !about.contains("bytes") ||
        !about["bytes"].is_number_unsigned() || !about.contains("tensors") || !about["tensors"].is_object())
      return false;
    for (const json &checksum : about["tensors"])
      if (!checksum.is_string())
        return false;
  }
  return true;
}

Status checkSizes(const std::string &folder, const json &record) {
  for (const auto &[stem, about] : record.items()) {
    std::string path = fileOf(folder, stem);
    struct stat status = {};
    if (::stat(path.c_str(), &status) != 0)
      return systemError(path);
    uint64_t wanted = about.value("bytes", uint64_t(0));
    if (static_cast<uint64_t>(status.st_size) != wanted)
      return fail("{}: has {} bytes, and had {} when it was written: the file is damaged", path, status.st_size,
                  wanted);
  }
  return Status();
}

Status checkReadable(const std::string &folder, bool throughout) {
  for (std::string_view name : stateFiles()) {
    std::string path = fileOf(folder, name);
    Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.valid() && errno != ENOENT && errno != ENOTDIR)
      return systemError(path);
    struct stat status = {};
    if (!file.valid() || ::fstat(file.get(), &status) != 0 || !throughout)
      continue;
    std::vector<std::byte> bytes(kPieceBytes);
    auto size = static_cast<uint64_t>(status.st_size);
    for (uint64_t at = 0; at < size; at += kPieceBytes)
      MT_TRY(readAllAt(file.get(), std::span(bytes).first(std::min(kPieceBytes, size - at)), at).within(path));
  }
  return Status();
}

Result<StateFile> StateFile::open(const std::string &folder, std::string_view stem, const json &record) {
  std::string path = fileOf(folder, stem);
  Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!descriptor.valid())
    return systemError(path);
  MT_ASSIGN(std::string header, headerOf(path, descriptor.get()));
  MT_ASSIGN(SafetensorsFile file, SafetensorsFile::open(path));
  auto about = record.find(stem);
  if (about == record.end())
    return StateFile(std::move(file), std::move(descriptor), json());
  if ((*about)["header"] != checksumText(checksumOf(std::as_bytes(std::span(header)))))
    return fail("{}: its header's checksum is wrong: the file is damaged", path);
  return StateFile(std::move(file), std::move(descriptor), (*about)["tensors"]);
}

Status StateFile::read(const std::vector<std::string> &names, int threads, const Take &take) const {
  std::vector<uint64_t> sizes;
  for (const std::string &name : names)
    sizes.push_back(find(name)->data.size());
  std::vector<Piece> pieces = piecesOf(sizes);
  std::vector<std::vector<uint64_t>> found(names.size());
  for (const Piece &piece : pieces)
    found[piece.tensor].push_back(0);
  MT_TRY(inParallel(pieces.size(), threads, [&](size_t i) -> Status {
    const Piece &piece = pieces[i];
    std::vector<std::byte> bytes(piece.bytes);
    auto begin = static_cast<uint64_t>(find(names[piece.tensor])->data.data() - file.bytes().data());
    MT_TRY(readAllAt(descriptor.get(), bytes, begin + piece.begin).within(path()));
    found[piece.tensor][piece.number] = checksumOf(bytes);
    return take(piece.tensor, piece.begin, bytes)
        .within(fmt::format("{}: parameter '{}'", path(), names[piece.tensor]));
  }));
  for (size_t i = 0; i < names.size(); ++i)
    if (!checksums.is_null() && checksums.value(names[i], "") != checksumText(checksumOfPieces(found[i])))
      return fail("{}: parameter '{}': its checksum is wrong: the file is damaged", path(), names[i]);
  return Status();
}

Status hasAverage(const std::string &folder, const json &record) {
  if (record.contains(kernels::kAverage))
    return Status();
  return fail("{} has no average of the weights, which runs of plans of mtc compile --ema keep: leave --ema out",
              folder);
}

Status verifyState(const std::string &folder, const json &record, bool weightsOnly, int threads) {
  MT_TRY(checkSizes(folder, record));
  for (const auto &[stem, about] : record.items()) {
    if (weightsOnly && stem != plan::kWeight && stem != kernels::kAverage)
      continue;
    MT_ASSIGN(StateFile file, StateFile::open(folder, stem, record));
    std::vector<std::string> names;
    for (const auto &[name, tensor] : file.tensors())
      names.push_back(name);
    MT_TRY(file.read(names, threads, [](size_t, uint64_t, std::span<const std::byte>) { return Status(); }));
  }
  return Status();
}

namespace {

/// Into the places of the weights; what does not learn has none.
Status readAverage(const std::string &folder, const json &record, const plan::Plan &plan, const PartBytes &part,
                   int threads, uint32_t rank) {
  std::vector<const plan::Parameter *> learning = stored(plan, plan::kWeight);
  std::erase_if(learning, [](const plan::Parameter *parameter) {
    const kernels::OptimizerSpec *optimizer = kernels::findOptimizer(parameter->optimizer);
    return !optimizer || !optimizer->learns;
  });
  MT_ASSIGN(StateFile file, StateFile::open(folder, kernels::kAverage, record));
  return readPart(file, plan, learning, plan::kWeight, part, threads, rank);
}

} // namespace

Status readState(const std::string &folder, const json &record, const plan::Plan &plan, const PartBytes &part,
                 Wanted wanted, int threads, uint32_t rank) {
  MT_TRY(checkSizes(folder, record));
  if (wanted == Wanted::average)
    MT_TRY(hasAverage(folder, record));
  for (std::string_view name : stateFiles()) {
    if (stored(plan, name).empty() || (name != plan::kWeight && wanted != Wanted::all))
      continue;
    MT_ASSIGN(StateFile file, StateFile::open(folder, name, record));
    MT_TRY(readPart(file, plan, stored(plan, name), name, part, threads, rank));
  }
  return wanted == Wanted::average ? readAverage(folder, record, plan, part, threads, rank) : Status();
}

} // namespace mt::train
