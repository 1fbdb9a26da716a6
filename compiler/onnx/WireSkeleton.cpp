#include "compiler/onnx/WireSkeleton.h"

#include <utility>

namespace mt::onnx {
namespace {

constexpr int kDepthLimit = 60;
// Wire types: https://protobuf.dev/programming-guides/encoding/
enum Wire : uint32_t { varint = 0, fixed64 = 1, delimited = 2, fixed32 = 5 };
// Field numbers of onnx-ml.proto.
enum TensorField : uint32_t { segmentField = 3, floatData = 4, rawData = 9, doubleData = 10 };

enum class Message : uint8_t { model, graph, node, attribute, function, tensor, sparse, opaque };

Message nested(Message message, uint32_t field) {
  switch (message) {
  case Message::model:
    return field == 7 ? Message::graph : field == 25 ? Message::function : Message::opaque;
  case Message::graph:
    return field == 1    ? Message::node
           : field == 5  ? Message::tensor
           : field == 15 ? Message::sparse
                         : Message::opaque;
  case Message::function:
    return field == 7 ? Message::node : field == 11 ? Message::attribute : Message::opaque;
  case Message::node:
    return field == 5 ? Message::attribute : Message::opaque;
  case Message::attribute:
    return field == 5 || field == 10   ? Message::tensor
           : field == 6 || field == 11 ? Message::graph
           : field == 22 || field == 23 ? Message::sparse
                                       : Message::opaque;
  case Message::sparse:
    return field == 1 || field == 2 ? Message::tensor : Message::opaque;
  case Message::tensor:
  case Message::opaque:
    return Message::opaque;
  }
  return Message::opaque;
}

class Walker {
public:
  explicit Walker(std::span<const std::byte> file) : file(file) {}
  Result<std::string> walk(uint64_t begin, uint64_t end, Message message, int depth);

private:
  Status truncated(uint64_t at) const { return fail("no ONNX model, or a truncated one: damaged at byte {}", at); }
  Result<uint64_t> readVarint(uint64_t &at, uint64_t end) const;
  Status skip(uint64_t &at, uint64_t end, uint32_t wire) const;
  Status walkField(uint64_t &at, uint64_t end, Message message, int depth, bool &payloadSeen, std::string &out);
  Status walkTensorPayload(uint64_t begin, uint64_t end, uint64_t fieldStart, std::string &out);
  void copy(uint64_t begin, uint64_t end, std::string &out) const {
    out.append(reinterpret_cast<const char *>(file.data()) + begin, end - begin);
  }

  std::span<const std::byte> file;
};

void putVarint(std::string &out, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}
void putDelimited(std::string &out, uint32_t field, const std::string &bytes) {
  putVarint(out, uint64_t(field) << 3 | Wire::delimited);
  putVarint(out, bytes.size());
  out += bytes;
}
std::string segment(uint64_t begin, uint64_t end) {
  std::string out;
  putVarint(out, 1 << 3 | Wire::varint);
  putVarint(out, begin);
  putVarint(out, 2 << 3 | Wire::varint);
  putVarint(out, end);
  return out;
}

Result<uint64_t> Walker::readVarint(uint64_t &at, uint64_t end) const {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (at >= end)
      return truncated(at);
    auto byte = static_cast<uint8_t>(file[at++]);
    value |= uint64_t(byte & 0x7f) << shift;
    if (!(byte & 0x80))
      return value;
  }
  return truncated(at);
}

Status Walker::skip(uint64_t &at, uint64_t end, uint32_t wire) const {
  uint64_t length = 0;
  if (wire == Wire::varint) {
    MT_ASSIGN(length, readVarint(at, end));
    return {};
  }
  if (wire == Wire::delimited) {
    MT_ASSIGN(length, readVarint(at, end));
  } else if (wire == Wire::fixed64 || wire == Wire::fixed32) {
    length = wire == Wire::fixed64 ? 8 : 4;
  } else {
    return truncated(at);
  }
  if (length > end - at)
    return truncated(at);
  at += length;
  return {};
}

// The payload of a tensor: its place is noted, its bytes are kept where they are few.
Status Walker::walkTensorPayload(uint64_t begin, uint64_t end, uint64_t fieldStart, std::string &out) {
  putDelimited(out, segmentField, segment(begin, end));
  if (end - begin <= kInlinePayload)
    copy(fieldStart, end, out);
  return {};
}

Status Walker::walkField(uint64_t &at, uint64_t end, Message message, int depth, bool &payloadSeen, std::string &out) {
  uint64_t start = at;
  MT_ASSIGN(uint64_t tag, readVarint(at, end));
  if (tag >> 3 == 0 || tag >> 32 != 0)
    return truncated(start);
  auto field = static_cast<uint32_t>(tag >> 3);
  uint32_t wire = tag & 7;
  Message inner = nested(message, field);
  bool payload = message == Message::tensor && (field == floatData || field == rawData || field == doubleData);
  if (message == Message::tensor && field == segmentField)
    return fail("tensors in segments are not supported (byte {}): save the model with whole tensors", start);
  if (wire != Wire::delimited || (inner == Message::opaque && !payload)) {
    MT_TRY(skip(at, end, wire));
    copy(start, at, out);
    return {};
  }
  MT_ASSIGN(uint64_t length, readVarint(at, end));
  if (length > end - at)
    return truncated(at);
  uint64_t begin = at;
  at += length;
  if (payload && std::exchange(payloadSeen, true))
    return fail("a tensor's values come in several pieces (byte {}): save the model with whole tensors", start);
  if (payload)
    return walkTensorPayload(begin, at, start, out);
  MT_ASSIGN(std::string body, walk(begin, at, inner, depth + 1));
  putDelimited(out, field, body);
  return {};
}

Result<std::string> Walker::walk(uint64_t begin, uint64_t end, Message message, int depth) {
  if (depth > kDepthLimit)
    return fail("subgraphs are nested more than {} levels deep", kDepthLimit / 3);
  std::string out;
  bool payloadSeen = false;
  while (begin < end)
    MT_TRY(walkField(begin, end, message, depth, payloadSeen, out));
  return out;
}

} // namespace

Result<std::string> wireSkeleton(std::span<const std::byte> file) {
  return Walker(file).walk(0, file.size(), Message::model, 0);
}

} // namespace mt::onnx
