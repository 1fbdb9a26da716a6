// Field numbers: onnx.proto3, messages ModelProto, FunctionProto, GraphProto, NodeProto, AttributeProto,
// SparseTensorProto, TensorProto, StringStringEntryProto. Wire format:
// protobuf.dev/programming-guides/encoding.
#include "runtime/train/OnnxFile.h"

#include <cstring>

namespace mt::train {
namespace {

constexpr int kModelGraph = 7, kGraphInitializer = 5;
constexpr int kDims = 1, kDataType = 2, kFloatData = 4, kName = 8, kRawData = 9, kExternalData = 13, kLocation = 14;
constexpr int kEntryKey = 1, kEntryValue = 2;
constexpr int32_t kExternal = 1;
constexpr int kDeepest = 100; // messages within messages: what protobuf's own reader takes

/// One field of a message: its number and either a value or the range of its content.
struct Field {
  int number = 0, wire = 0;
  uint64_t value = 0;
  Range content, whole;
};

/// Reads the fields of the message in `range`, one after the other.
class Fields {
public:
  Fields(std::span<const std::byte> file, Range range) : file(file), at(range.begin), end(range.end) {}

  bool more() const { return at < end; }
  Result<Field> next() {
    Field field;
    field.whole.begin = at;
    MT_ASSIGN(uint64_t tag, varint());
    field.number = static_cast<int>(std::min<uint64_t>(tag >> 3, 1 << 29));
    field.wire = static_cast<int>(tag & 7);
    if (field.wire == 0) {
      MT_ASSIGN(field.value, varint());
    } else {
      uint64_t length = field.wire == 1 ? 8 : field.wire == 5 ? 4 : 0;
      if (field.wire == 2) {
        MT_ASSIGN(length, varint());
      } else if (length == 0) {
        return fail("no ONNX model: byte {} begins no field", field.whole.begin);
      }
      if (length > end - at)
        return fail("no ONNX model, or cut short: the field at byte {} runs over its end", field.whole.begin);
      field.content = {at, at + length};
      at += length;
    }
    field.whole.end = at;
    return field;
  }
  Result<uint64_t> varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && at < end; shift += 7) {
      auto byte = static_cast<uint64_t>(file[at++]);
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80)
        return value;
    }
    return fail("no ONNX model, or cut short: byte {} begins no number", at);
  }

private:
  std::span<const std::byte> file;
  uint64_t at, end;
};

std::string textAt(std::span<const std::byte> file, Range range) {
  return {reinterpret_cast<const char *>(file.data()) + range.begin, range.size()};
}

/// TensorProto.DataType.
std::optional<DType> typeOf(int32_t onnx) {
  switch (onnx) {
  case 1:
    return DType::f32;
  case 2:
    return DType::u8;
  case 3:
    return DType::i8;
  case 5:
    return DType::i16;
  case 6:
    return DType::i32;
  case 7:
    return DType::i64;
  case 9:
    return DType::boolean;
  case 10:
    return DType::f16;
  case 11:
    return DType::f64;
  case 16:
    return DType::bf16;
  default:
    return std::nullopt;
  }
}

Status readEntry(std::span<const std::byte> file, Range range, Initializer &tensor) {
  std::string key, value;
  for (Fields fields(file, range); fields.more();) {
    MT_ASSIGN(Field field, fields.next());
    if (field.number == kEntryKey)
      key = textAt(file, field.content);
    if (field.number == kEntryValue)
      value = textAt(file, field.content);
  }
  tensor.externalData[key] = value;
  return Status();
}

Status readDims(std::span<const std::byte> file, const Field &field, Initializer &tensor) {
  if (field.wire == 0) {
    tensor.dims.push_back(static_cast<int64_t>(field.value));
    return Status();
  }
  for (Fields packed(file, field.content); packed.more();) {
    MT_ASSIGN(uint64_t dim, packed.varint());
    tensor.dims.push_back(static_cast<int64_t>(dim));
  }
  return Status();
}

Result<Initializer> readTensor(std::span<const std::byte> file, const Field &whole) {
  Initializer tensor;
  tensor.field = whole.whole;
  tensor.content = whole.content;
  int floatFields = 0;
  for (Fields fields(file, whole.content); fields.more();) {
    MT_ASSIGN(Field field, fields.next());
    if (field.number == kDims)
      MT_TRY(readDims(file, field, tensor));
    else if (field.number == kDataType)
      tensor.onnxType = static_cast<int32_t>(field.value);
    else if (field.number == kName)
      tensor.name = textAt(file, field.content);
    else if (field.number == kRawData && field.wire == 2)
      tensor.raw = field.content;
    else if (field.number == kFloatData && ++floatFields == 1 && field.wire == 2)
      tensor.raw = field.content;
    else if (field.number == kExternalData)
      MT_TRY(readEntry(file, field.content, tensor));
    else if (field.number == kLocation)
      tensor.external = field.value == kExternal;
  }
  tensor.type = typeOf(tensor.onnxType);
  std::optional<int64_t> count = elementCount(tensor.dims);
  bool whole32 = floatFields <= 1 && tensor.type && count &&
                 tensor.raw.size() == static_cast<uint64_t>(*count) * byteSize(*tensor.type);
  if (!whole32 || tensor.external)
    tensor.raw = {};
  return tensor;
}

/// The messages that tensors may lie in.
enum class Message { model, function, graph, node, attribute, sparse, tensor };

/// What a field of `parent` is, where tensors may lie in it.
std::optional<Message> childOf(Message parent, int number) {
  static const std::map<std::pair<Message, int>, Message> kChildren = {
      {{Message::model, kModelGraph}, Message::graph},
      {{Message::model, 25}, Message::function},
      {{Message::function, 7}, Message::node},
      {{Message::function, 11}, Message::attribute},
      {{Message::graph, 1}, Message::node},
      {{Message::graph, kGraphInitializer}, Message::tensor},
      {{Message::graph, 15}, Message::sparse},
      {{Message::node, 5}, Message::attribute},
      {{Message::attribute, 5}, Message::tensor},
      {{Message::attribute, 6}, Message::graph},
      {{Message::attribute, 10}, Message::tensor},
      {{Message::attribute, 11}, Message::graph},
      {{Message::attribute, 22}, Message::sparse},
      {{Message::attribute, 23}, Message::sparse},
      {{Message::sparse, 1}, Message::tensor},
      {{Message::sparse, 2}, Message::tensor},
  };
  auto found = kChildren.find({parent, number});
  return found == kChildren.end() ? std::nullopt : std::optional(found->second);
}

/// Adds the locations of the tensors in a field of `parent` whose values lie in other files.
Status findLocations(std::span<const std::byte> file, Message parent, const Field &field,
                     std::set<std::string> &locations, int depth = 0) {
  std::optional<Message> kind = field.wire == 2 ? childOf(parent, field.number) : std::nullopt;
  if (!kind)
    return Status();
  if (depth == kDeepest)
    return fail("no ONNX model: the field at byte {} lies within {} others", field.whole.begin, depth);
  if (*kind == Message::tensor) {
    MT_ASSIGN(Initializer tensor, readTensor(file, field));
    if (tensor.external)
      locations.insert(tensor.entry("location"));
    return Status();
  }
  for (Fields fields(file, field.content); fields.more();) {
    MT_ASSIGN(Field inner, fields.next());
    MT_TRY(findLocations(file, *kind, inner, locations, depth + 1));
  }
  return Status();
}

/// The field with moved tensors; findLocations() has been through it.
Result<std::string> fieldWithMoved(std::span<const std::byte> file, Message parent, const Field &field,
                                   const std::function<Result<std::string>(const Initializer &)> &moved) {
  std::optional<Message> kind = field.wire == 2 ? childOf(parent, field.number) : std::nullopt;
  if (!kind)
    return textAt(file, field.whole);
  std::string content;
  if (*kind == Message::tensor) {
    MT_ASSIGN(Initializer tensor, readTensor(file, field));
    if (!tensor.external)
      return textAt(file, field.whole);
    MT_ASSIGN(content, moved(tensor));
  } else {
    for (Fields fields(file, field.content); fields.more();) {
      MT_ASSIGN(Field inner, fields.next());
      MT_ASSIGN(std::string text, fieldWithMoved(file, *kind, inner, moved));
      content += text;
    }
  }
  return wireField(field.number, content);
}

} // namespace

std::string Initializer::entry(const std::string &key) const {
  auto at = externalData.find(key);
  return at == externalData.end() ? "" : at->second;
}

Result<std::string> OnnxFile::withMoved(const NestedTensors &nested,
                                        const std::function<Result<std::string>(const Initializer &)> &moved) const {
  Field field = {nested.number, 2, 0, nested.content, nested.field};
  return fieldWithMoved(file.bytes(), nested.inGraph ? Message::graph : Message::model, field, moved);
}

Result<OnnxFile> OnnxFile::open(const std::string &path) {
  MT_ASSIGN(MappedFile mapped, MappedFile::open(path));
  OnnxFile model{std::move(mapped), {}, {}, {}, {}, {}};
  std::span<const std::byte> bytes = model.file.bytes();
  auto lookInto = [&](const Field &field, bool inGraph) -> Status {
    std::set<std::string> locations;
    MT_TRY(findLocations(bytes, inGraph ? Message::graph : Message::model, field, locations));
    if (!locations.empty())
      model.nested.push_back({field.whole, field.content, field.number, inGraph});
    model.locations.merge(locations);
    return Status();
  };
  auto walk = [&]() -> Status {
    for (Fields fields(bytes, {0, bytes.size()}); fields.more();) {
      MT_ASSIGN(Field field, fields.next());
      if (field.number != kModelGraph || field.wire != 2) {
        MT_TRY(lookInto(field, false));
        continue;
      }
      model.graphField = field.whole;
      model.graph = field.content;
    }
    for (Fields fields(bytes, model.graph); fields.more();) {
      MT_ASSIGN(Field field, fields.next());
      if (field.number != kGraphInitializer || field.wire != 2) {
        MT_TRY(lookInto(field, true));
        continue;
      }
      MT_ASSIGN(Initializer tensor, readTensor(bytes, field));
      if (tensor.external)
        model.locations.insert(tensor.entry("location"));
      model.initializers.push_back(std::move(tensor));
    }
    return model.graph.size() == 0 ? fail("no ONNX model: it has no graph") : Status();
  };
  MT_TRY(walk().within(path));
  return model;
}

std::string wireVarint(uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7)
    text += static_cast<char>(value | 0x80);
  return text + static_cast<char>(value);
}

std::string wireField(int number, std::string_view content) {
  return wireVarint(static_cast<uint64_t>(number) << 3 | 2) + wireVarint(content.size()) + std::string(content);
}

std::string externalTensor(const Initializer &like, const std::string &location, uint64_t offset, uint64_t length) {
  auto number = [](int field, uint64_t value) {
    return wireVarint(static_cast<uint64_t>(field) << 3) + wireVarint(value);
  };
  auto entry = [](std::string_view key, const std::string &value) {
    return wireField(kExternalData, wireField(kEntryKey, key) + wireField(kEntryValue, value));
  };
  std::string tensor;
  for (int64_t dim : like.dims)
    tensor += number(kDims, static_cast<uint64_t>(dim));
  tensor += number(kDataType, static_cast<uint64_t>(like.onnxType)) + wireField(kName, like.name);
  tensor += entry("location", location) + entry("offset", std::to_string(offset));
  tensor += entry("length", std::to_string(length)) + number(kLocation, kExternal);
  return tensor;
}

} // namespace mt::train
