#include "runtime/train/TensorBoard.h"

#include <unistd.h>

#include <chrono>

namespace mt::train {
namespace {

template <typename T> std::string bytesOf(T value) {
  return std::string(reinterpret_cast<const char *>(&value), sizeof(T));
}

std::string varint(uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7)
    text += static_cast<char>(value | 0x80);
  return text + static_cast<char>(value);
}

/// A length-delimited field of a message.
std::string field(int number, std::string_view content) {
  return varint(static_cast<uint64_t>(number) << 3 | 2) + varint(content.size()) + std::string(content);
}

/// Event.wall_time, a double, is field 1.
std::string wallTime() {
  double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return std::string(1, 9) + bytesOf(now); // tag of a fixed 64-bit field 1
}

uint32_t masked(std::string_view bytes) {
  uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8;
}

} // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (char byte : bytes) {
    crc ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit)
      crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
  }
  return ~crc;
}

Result<TensorBoard> TensorBoard::open(const std::string &folder) {
  MT_TRY(makeFolders(folder).within("--tensorboard"));
  auto seconds = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch());
  std::string path = fmt::format("{}/events.out.tfevents.{}.{}", folder, seconds.count(), ::getpid());
  Result<AppendedFile> file = AppendedFile::open(path, true);
  if (!file)
    return fail("--tensorboard {}: {}: choose a folder that can be written", folder, file.status().message());
  TensorBoard board(path, std::move(*file));
  MT_TRY(board.record(wallTime() + field(3, "brain.Event:2"))); // Event.file_version
  return board;
}

Status TensorBoard::scalar(std::string_view tag, int64_t step, float value) {
  std::string summaryValue = field(1, tag) + "\x15" + bytesOf(value); // Summary.Value: tag = 1, simple_value = 2
  return record(wallTime() + "\x10" + varint(static_cast<uint64_t>(step)) + field(5, field(1, summaryValue)));
}

Status TensorBoard::record(const std::string &event) {
  std::string length = bytesOf(static_cast<uint64_t>(event.size()));
  std::string all = length + bytesOf(masked(length)) + event + bytesOf(masked(event));
  return file.append(all).within("--tensorboard: " + path);
}

} // namespace mt::train
