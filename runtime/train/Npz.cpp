#include "runtime/train/Npz.h"

#include "runtime/train/Zip.h"

#include <zlib.h>

namespace mt::train {
namespace {

constexpr std::string_view kSuffix = ".npy";

std::span<const std::byte> bytesOf(std::string_view text) { return std::as_bytes(std::span(text)); }

/// Little-endian fields of a record, one after the other.
class Record {
public:
  template <typename T> Record &put(T value) {
    for (size_t i = 0; i < sizeof(T); ++i)
      text += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i));
    return *this;
  }
  std::string text;
};

/// The fields that a member's local header and its directory entry share, from "version needed" to "extra length".
/// Sizes are always in the Zip64 extra field, so that arrays of any size look alike.
void putShared(Record &record, uint32_t crc, size_t nameBytes, size_t extraBytes) {
  constexpr uint16_t kVersion = 45, kStored = 0, kMidnight = 0, kFirstOfJanuary1980 = 33;
  record.put<uint16_t>(kVersion).put<uint16_t>(0).put<uint16_t>(kStored).put<uint16_t>(kMidnight);
  record.put<uint16_t>(kFirstOfJanuary1980).put<uint32_t>(crc).put<uint32_t>(0xffffffff).put<uint32_t>(0xffffffff);
  record.put<uint16_t>(static_cast<uint16_t>(nameBytes)).put<uint16_t>(static_cast<uint16_t>(extraBytes));
}

uint32_t extendCrc(uint32_t crc, std::span<const std::byte> bytes) {
  return static_cast<uint32_t>(crc32_z(crc, reinterpret_cast<const Bytef *>(bytes.data()), bytes.size()));
}

} // namespace

Result<NpzFile> NpzFile::open(const std::string &path) {
  MT_ASSIGN(MappedFile mapped, MappedFile::open(path));
  NpzFile npz(std::move(mapped));
  Result<std::vector<ZipMember>> members = zipMembers(npz.file.bytes());
  if (!members)
    return members.status().within(path);
  for (const ZipMember &member : *members) {
    if (!member.name.ends_with(kSuffix))
      return fail("{}: {} is not an array (.npy)", path, member.name);
    std::string name = member.name.substr(0, member.name.size() - kSuffix.size());
    npz.unpacked.emplace_back();
    Result<std::span<const std::byte>> bytes = unpack(member, npz.unpacked.back());
    if (!bytes)
      return bytes.status().within(path);
    bool columnMajor = false;
    Result<ArrayView> array = parseNpy(*bytes, columnMajor);
    if (!array)
      return array.status().within(fmt::format("{}: array '{}'", path, name));
    if (columnMajor && array->dims.size() > 1) {
      npz.unpacked.back() = rowMajor(*array);
      array->data = npz.unpacked.back();
    }
    npz.views.emplace(std::move(name), *array);
  }
  return npz;
}

const ArrayView *NpzFile::find(std::string_view name) const {
  auto found = views.find(name);
  return found == views.end() ? nullptr : &found->second;
}

Result<NpzWriter> NpzWriter::create(const std::string &path) {
  MT_ASSIGN(AtomicFile file, AtomicFile::create(path));
  return NpzWriter(std::move(file));
}

Status NpzWriter::add(const std::string &name, DType type, std::span<const int64_t> dims,
                      std::span<const std::byte> data) {
  std::string member = name + std::string(kSuffix), header = npyHeader(type, dims);
  if (member.size() > 0xffff)
    return fail("the array name '{:.40}...' is too long for an archive", name);
  uint64_t offset = file.written(), size = header.size() + data.size();
  uint32_t crc = extendCrc(extendCrc(0, bytesOf(header)), data);

  Record local;
  local.put<uint32_t>(0x04034b50);
  putShared(local, crc, member.size(), 20);
  local.text += member;
  local.put<uint16_t>(1).put<uint16_t>(16).put<uint64_t>(size).put<uint64_t>(size);

  Record entry;
  entry.put<uint32_t>(0x02014b50).put<uint16_t>(45);
  putShared(entry, crc, member.size(), 28);
  entry.put<uint16_t>(0).put<uint16_t>(0).put<uint16_t>(0).put<uint32_t>(0600u << 16).put<uint32_t>(0xffffffff);
  entry.text += member;
  entry.put<uint16_t>(1).put<uint16_t>(24).put<uint64_t>(size).put<uint64_t>(size).put<uint64_t>(offset);
  directory += entry.text;
  ++entries;

  MT_TRY(file.write(bytesOf(local.text)));
  MT_TRY(file.write(bytesOf(header)));
  return file.write(data);
}

Status NpzWriter::finish() {
  uint64_t begin = file.written(), end64 = begin + directory.size();
  Record end;
  end.put<uint32_t>(0x06064b50).put<uint64_t>(44).put<uint16_t>(45).put<uint16_t>(45).put<uint32_t>(0).put<uint32_t>(0);
  end.put<uint64_t>(entries).put<uint64_t>(entries).put<uint64_t>(directory.size()).put<uint64_t>(begin);
  end.put<uint32_t>(0x07064b50).put<uint32_t>(0).put<uint64_t>(end64).put<uint32_t>(1);
  end.put<uint32_t>(0x06054b50).put<uint16_t>(0).put<uint16_t>(0).put<uint16_t>(0xffff).put<uint16_t>(0xffff);
  end.put<uint32_t>(0xffffffff).put<uint32_t>(0xffffffff).put<uint16_t>(0);
  MT_TRY(file.write(bytesOf(directory)));
  MT_TRY(file.write(bytesOf(end.text)));
  return file.commit();
}

} // namespace mt::train
