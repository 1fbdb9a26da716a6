// Arrays in files: .npy headers, .npz archives stored and deflated, hostile ones, safetensors, element conversion.
#include "runtime/train/Safetensors.h"
#include "runtime/train/Zip.h"
#include "tests/train/TestFiles.h"

#include <zlib.h>

#include <cmath>
#include <cstring>
#include <random>

namespace mt::tests {
namespace {

using namespace train;

/// An archive of one member, deflated, as numpy.savez_compressed writes it (32-bit sizes).
std::string deflatedArchive(const std::string &name, const std::string &content, uint32_t claimedSize) {
  std::vector<Bytef> packed(compressBound(content.size()) + 64);
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = packed.data();
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  std::string data(reinterpret_cast<char *>(packed.data()), stream.total_out);
  deflateEnd(&stream);
  auto u16 = [](uint64_t v) { return std::string{char(v), char(v >> 8)}; };
  auto u32 = [](uint64_t v) { return std::string{char(v), char(v >> 8), char(v >> 16), char(v >> 24)}; };
  uint64_t crc = crc32_z(0, reinterpret_cast<const Bytef *>(content.data()), content.size());
  std::string shared = u16(20) + u16(0) + u16(8) + u32(0) + u32(crc) + u32(data.size()) + u32(claimedSize) +
                       u16(name.size()) + u16(0);
  std::string local = "PK\x03\x04" + shared + name + data;
  std::string entry = "PK\x01\x02" + u16(20) + shared + u16(0) + u16(0) + u16(0) + u32(0) + u32(0) + name;
  return local + entry + "PK\x05\x06" + u32(0) + u16(1) + u16(1) + u32(entry.size()) + u32(local.size()) + u16(0);
}

std::string npy(DType type, const Dims &dims, std::span<const std::byte> data) {
  return npyHeader(type, dims) + std::string(reinterpret_cast<const char *>(data.data()), data.size());
}

TEST(Npz, WhatIsWrittenIsReadBack) {
  Folder folder;
  std::vector<float> a = {1, 2.5f, -3, 4, 5, 6};
  std::vector<int64_t> b = {-100};
  Result<NpzWriter> writer = NpzWriter::create(folder / "x.npz");
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  ASSERT_TRUE(writer->add("a.weight", DType::f32, Dims{2, 3}, bytesOf(a)).ok());
  ASSERT_TRUE(writer->add("b", DType::i64, Dims{}, bytesOf(b)).ok());
  ASSERT_TRUE(writer->finish().ok());
  Result<NpzFile> file = NpzFile::open(folder / "x.npz");
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_EQ(file->arrays().size(), 2u);
  const ArrayView *array = file->find("a.weight");
  ASSERT_TRUE(array);
  EXPECT_EQ(array->dims, (Dims{2, 3}));
  EXPECT_EQ(array->type, DType::f32);
  EXPECT_EQ(std::memcmp(array->data.data(), a.data(), 24), 0);
  EXPECT_EQ(integerAt(DType::i64, file->find("b")->data.data(), 0), -100);
}

TEST(Npz, DeflatedMembersAreUnpackedAndChecked) {
  Folder folder;
  std::vector<int32_t> values(1000, 7);
  std::string content = npy(DType::i32, {1000}, bytesOf(values));
  folder.write("good.npz", deflatedArchive("x.npy", content, static_cast<uint32_t>(content.size())));
  Result<NpzFile> good = NpzFile::open(folder / "good.npz");
  ASSERT_TRUE(good.ok()) << good.status().message();
  EXPECT_EQ(integerAt(DType::i32, good->find("x")->data.data(), 999), 7);
  for (uint32_t claimed : {10u, 4127u, 5000u, 2000000000u}) {
    folder.write("bad.npz", deflatedArchive("x.npy", content, claimed));
    Result<NpzFile> bad = NpzFile::open(folder / "bad.npz");
    ASSERT_FALSE(bad.ok()) << claimed;
    EXPECT_ERROR(bad.status(), "bad.npz: x.npy");
  }
}

TEST(Npz, FortranOrderBecomesCOrder) {
  Folder folder;
  std::vector<int64_t> columns = {0, 10, 1, 11, 2, 12}; // of [[0, 1, 2], [10, 11, 12]]
  std::string content = npy(DType::i64, {2, 3}, bytesOf(columns));
  content.replace(content.find("False, "), 7, "True,  ");
  folder.write("x.npz", deflatedArchive("x.npy", content, static_cast<uint32_t>(content.size())));
  Result<NpzFile> file = NpzFile::open(folder / "x.npz");
  ASSERT_TRUE(file.ok()) << file.status().message();
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < 6; ++i)
    rows.push_back(integerAt(DType::i64, file->find("x")->data.data(), i));
  EXPECT_EQ(rows, (std::vector<int64_t>{0, 1, 2, 10, 11, 12}));
}

TEST(Npz, HeadersThatAreNotSupportedSayWhy) {
  Folder folder;
  struct Case {
    const char *header, *message;
  };
  for (Case c : {Case{"{'descr': '<i8', 'fortran_order': Maybe, 'shape': (1,), }", "damaged"},
                 Case{"{'descr': '>i8', 'fortran_order': False, 'shape': (1,), }", ">i8 is not supported"},
                 Case{"{'descr': [('a', '<i8')], 'fortran_order': False, 'shape': (1,), }", "several fields"},
                 Case{"{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }", "do not take 8 bytes"},
                 Case{"{'descr': '<i8', 'fortran_order': False, 'shape': (-1,), }", "do not take 8 bytes"},
                 Case{"{'descr': '<i8', 'fortran_order': False, 'shape': (4611686018427387904, 8), }", "do not take"},
                 Case{"{'descr': '<i8', 'shape': (1,), }", "incomplete"}, Case{"nonsense", "damaged"}}) {
    std::string header = c.header, file = "\x93NUMPY\x01" + std::string(1, 0);
    file += std::string{char(header.size()), 0} + header + std::string(8, 1);
    folder.write("x.npz", deflatedArchive("x.npy", file, static_cast<uint32_t>(file.size())));
    Result<NpzFile> read = NpzFile::open(folder / "x.npz");
    ASSERT_FALSE(read.ok()) << c.header;
    EXPECT_ERROR(read.status(), "array 'x'");
    EXPECT_ERROR(read.status(), c.message);
  }
}

/// Every truncation and many random changes: refused, or read as something; never worse.
template <typename Open> void expectSurvives(const Folder &folder, const std::string &good, Open open) {
  std::mt19937 random(1);
  for (size_t length = 0; length < good.size(); length += 1 + length / 64)
    EXPECT_FALSE(open(folder.write("cut", good.substr(0, length)))) << length;
  for (int i = 0; i < 1000; ++i) {
    std::string bad = good;
    for (int k = 0; k < 3; ++k)
      bad[random() % bad.size()] = static_cast<char>(random());
    open(folder.write("mutated", bad));
  }
}

TEST(Npz, HostileFilesAreRefused) {
  Folder folder;
  std::vector<float> values = {1, 2, 3, 4, 5, 6};
  Result<NpzWriter> writer = NpzWriter::create(folder / "x.npz");
  ASSERT_TRUE(writer->add("a", DType::f32, Dims{2, 3}, bytesOf(values)).ok());
  ASSERT_TRUE(writer->add("b", DType::f32, Dims{6}, bytesOf(values)).ok());
  ASSERT_TRUE(writer->finish().ok());
  auto open = [](const std::string &path) { return NpzFile::open(path).ok(); };
  expectSurvives(folder, readFile(folder / "x.npz"), open);
  std::string content = npy(DType::f32, {6}, bytesOf(values));
  expectSurvives(folder, deflatedArchive("x.npy", content, static_cast<uint32_t>(content.size())), open);
}

TEST(Safetensors, RoundTripAndHostileFiles) {
  Folder folder;
  std::vector<float> values = {1, 2, 3, 4, 5, 6};
  std::vector<TensorInfo> tensors = {{"a", DType::f32, {2, 3}}, {"b/c", DType::u8, {3}}};
  Result<SafetensorsWriter> writer = SafetensorsWriter::create(folder / "x.safetensors", tensors);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->write(bytesOf(values)).ok());
  ASSERT_TRUE(writer->write(bytesOf(std::vector<uint8_t>{7, 8, 9})).ok());
  ASSERT_TRUE(writer->finish().ok());
  Result<SafetensorsFile> file = SafetensorsFile::open(folder / "x.safetensors");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->find("a")->dims, (Dims{2, 3}));
  EXPECT_EQ(std::memcmp(file->find("a")->data.data(), values.data(), 24), 0);
  EXPECT_EQ(integerAt(DType::u8, file->find("b/c")->data.data(), 2), 9);
  expectSurvives(folder, readFile(folder / "x.safetensors"),
                 [](const std::string &path) { return SafetensorsFile::open(path).ok(); });
}

TEST(Safetensors, IncompleteTensorsLeaveNothing) {
  Folder folder;
  std::vector<TensorInfo> tensors = {{"a", DType::f32, {2, 3}}};
  {
    Result<SafetensorsWriter> writer = SafetensorsWriter::create(folder / "x.safetensors", tensors);
    EXPECT_FALSE(writer->finish().ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path));
}

TEST(Elements, HalvesRoundAsIeeeSays) {
  for (int bits = 0; bits < 65536; ++bits) {
    float value = f16ToFloat(static_cast<uint16_t>(bits));
    if (!std::isnan(value)) {
      EXPECT_EQ(floatToF16(value), bits);
    }
    value = bf16ToFloat(static_cast<uint16_t>(bits));
    if (!std::isnan(value)) {
      EXPECT_EQ(floatToBf16(value), bits);
    }
  }
  EXPECT_EQ(floatToF16(1.0f + 0x1p-11f), 0x3c00);            // a tie goes to even
  EXPECT_EQ(floatToF16(1.0f + 0x1p-11f + 0x1p-20f), 0x3c01); // above it, up
  EXPECT_EQ(floatToF16(65519.0f), 0x7bff);
  EXPECT_EQ(floatToF16(65520.0f), 0x7c00);
  EXPECT_EQ(floatToF16(0x1p-25f), 0);
  EXPECT_EQ(floatToBf16(1.0f + 0x1p-8f), 0x3f80);
}

TEST(Elements, WhatDoesNotFitIsRefused) {
  int64_t big = 300;
  float real = 1.5f;
  std::byte to[8];
  EXPECT_ERROR(convert(DType::i64, reinterpret_cast<std::byte *>(&big), DType::u8, to, 1), "300");
  EXPECT_ERROR(convert(DType::f32, reinterpret_cast<std::byte *>(&real), DType::i64, to, 1), "i64 is wanted");
  EXPECT_TRUE(convert(DType::i64, reinterpret_cast<std::byte *>(&big), DType::i32, to, 1).ok());
  EXPECT_EQ(integerAt(DType::i32, to, 0), 300);
}

} // namespace
} // namespace mt::tests
