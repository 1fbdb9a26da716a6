// The format: PKWARE's APPNOTE.TXT, sections 4.3 and 4.5.3 (Zip64). Deflate: zlib.
#include "runtime/train/Zip.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <set>

namespace mt::train {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50, kDirectoryEntry = 0x02014b50, kEnd = 0x06054b50;
constexpr uint32_t kZip64End = 0x06064b50, kZip64Locator = 0x07064b50;
constexpr uint64_t kEndBytes = 22, kLocatorBytes = 20, kZip64EndBytes = 56, kEntryBytes = 46, kLocalBytes = 30;
constexpr uint32_t kAbsent32 = 0xffffffff;
/// Deflate cannot shrink more than 1032 times (two bits for 258 bytes): a larger claim is a bomb or damage.
constexpr uint64_t kLargestRatio = 1040;

using Bytes = std::span<const std::byte>;

template <typename T> T read(Bytes bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

bool within(Bytes bytes, uint64_t offset, uint64_t length) {
  return offset <= bytes.size() && length <= bytes.size() - offset;
}

struct Directory {
  uint64_t offset = 0, entries = 0;
};

Result<Directory> findDirectory(Bytes archive) {
  if (archive.size() < kEndBytes)
    return fail("not a zip archive: {} bytes are too few", archive.size());
  uint64_t last = archive.size() - kEndBytes, first = last > 65535 ? last - 65535 : 0;
  for (uint64_t at = last + 1; at-- > first;) {
    if (read<uint32_t>(archive, at) != kEnd)
      continue;
    Directory directory{read<uint32_t>(archive, at + 16), read<uint16_t>(archive, at + 10)};
    if (at >= kLocatorBytes && read<uint32_t>(archive, at - kLocatorBytes) == kZip64Locator) {
      uint64_t end64 = read<uint64_t>(archive, at - kLocatorBytes + 8);
      if (!within(archive, end64, kZip64EndBytes) || read<uint32_t>(archive, end64) != kZip64End)
        return fail("the zip archive's 64-bit end record is damaged");
      directory = {read<uint64_t>(archive, end64 + 48), read<uint64_t>(archive, end64 + 32)};
    }
    return directory;
  }
  return fail("not a zip archive, or its end is missing (a partial download?)");
}

/// Replaces the sizes and offset that the 32-bit fields could not hold by those of the Zip64 extra field.
Status widen(Bytes extra, uint64_t &size, uint64_t &packedSize, uint64_t &offset) {
  for (uint64_t at = 0; at + 4 <= extra.size();) {
    uint64_t tag = read<uint16_t>(extra, at), length = read<uint16_t>(extra, at + 2);
    at += 4;
    if (!within(extra, at, length))
      return fail("an extra field runs over its end");
    if (tag == 1) {
      uint64_t end = at + length;
      for (uint64_t *field : {&size, &packedSize, &offset}) {
        if (*field != kAbsent32)
          continue;
        if (at + 8 > end)
          return fail("its 64-bit sizes are missing");
        *field = read<uint64_t>(extra, at);
        at += 8;
      }
      return Status();
    }
    at += length;
  }
  return Status();
}

/// Reads the directory entry at `at` and moves past it.
Result<ZipMember> readEntry(Bytes archive, uint64_t &at) {
  if (!within(archive, at, kEntryBytes) || read<uint32_t>(archive, at) != kDirectoryEntry)
    return fail("the zip archive's directory is damaged at byte {}", at);
  uint64_t nameBytes = read<uint16_t>(archive, at + 28), extraBytes = read<uint16_t>(archive, at + 30);
  uint64_t commentBytes = read<uint16_t>(archive, at + 32);
  if (!within(archive, at + kEntryBytes, nameBytes + extraBytes + commentBytes))
    return fail("the zip archive's directory runs over the end of the file");
  ZipMember member;
  member.name.assign(reinterpret_cast<const char *>(archive.data() + at + kEntryBytes), nameBytes);
  member.method = read<uint16_t>(archive, at + 10);
  member.crc = read<uint32_t>(archive, at + 16);
  member.size = read<uint32_t>(archive, at + 24);
  uint64_t packedSize = read<uint32_t>(archive, at + 20), local = read<uint32_t>(archive, at + 42);
  uint16_t flags = read<uint16_t>(archive, at + 8);
  MT_TRY(widen(archive.subspan(at + kEntryBytes + nameBytes, extraBytes), member.size, packedSize, local)
             .within(member.name));
  at += kEntryBytes + nameBytes + extraBytes + commentBytes;

  if (flags & 1)
    return fail("{}: encrypted members are not supported", member.name);
  if (member.method != 0 && member.method != 8)
    return fail("{}: compression method {} is not supported (write it with numpy.savez or savez_compressed)",
                member.name, member.method);
  if (!within(archive, local, kLocalBytes) || read<uint32_t>(archive, local) != kLocalHeader)
    return fail("{}: its header lies outside the file", member.name);
  uint64_t data = local + kLocalBytes + read<uint16_t>(archive, local + 26) + read<uint16_t>(archive, local + 28);
  if (!within(archive, data, packedSize))
    return fail("{}: its data run over the end of the file", member.name);
  member.packed = archive.subspan(data, packedSize);
  bool possible = member.method == 0 ? member.size == packedSize : member.size / kLargestRatio <= packedSize;
  if (!possible)
    return fail("{}: {} bytes cannot unpack to {}", member.name, packedSize, member.size);
  return member;
}

uint32_t crcOf(Bytes bytes) {
  return static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef *>(bytes.data()), bytes.size()));
}

Status inflateInto(const ZipMember &member, std::vector<std::byte> &buffer) {
  buffer.resize(member.size);
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
    return fail("{}: zlib does not start", member.name);
  const std::byte *in = member.packed.data();
  uint64_t inLeft = member.packed.size(), outLeft = buffer.size();
  std::byte *out = buffer.data();
  int code = Z_OK;
  std::byte overflow; // a place for zlib to write where the member is larger than it claims
  while (code == Z_OK) {
    constexpr uint64_t kMost = 1u << 30;
    auto given = static_cast<uInt>(std::min(inLeft, kMost));
    auto room = static_cast<uInt>(std::min(outLeft, kMost));
    stream.next_in = reinterpret_cast<Bytef *>(const_cast<std::byte *>(in));
    stream.avail_in = given;
    stream.next_out = reinterpret_cast<Bytef *>(outLeft ? out : &overflow);
    stream.avail_out = outLeft ? room : 1;
    code = inflate(&stream, Z_NO_FLUSH);
    in += given - stream.avail_in;
    inLeft -= given - stream.avail_in;
    if (!outLeft && stream.avail_out == 0)
      code = Z_DATA_ERROR;
    if (outLeft) {
      out += room - stream.avail_out;
      outLeft -= room - stream.avail_out;
    }
  }
  inflateEnd(&stream);
  if (code != Z_STREAM_END || outLeft != 0)
    return fail("{}: its compressed data are damaged", member.name);
  return Status();
}

} // namespace

Result<std::vector<ZipMember>> zipMembers(std::span<const std::byte> archive) {
  MT_ASSIGN(Directory directory, findDirectory(archive));
  std::vector<ZipMember> members;
  std::set<std::string> names;
  uint64_t at = directory.offset;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    MT_ASSIGN(ZipMember member, readEntry(archive, at));
    if (!names.insert(member.name).second)
      return fail("{}: two members have this name", member.name);
    members.push_back(std::move(member));
  }
  return members;
}

Result<std::span<const std::byte>> unpack(const ZipMember &member, std::vector<std::byte> &buffer) {
  std::span<const std::byte> bytes = member.packed;
  if (member.method == 8) {
    MT_TRY(inflateInto(member, buffer));
    bytes = buffer;
  }
  if (crcOf(bytes) != member.crc)
    return fail("{}: its checksum is wrong: the file is damaged", member.name);
  return bytes;
}

} // namespace mt::train
