#include "runtime/train/Safetensors.h"

#include "runtime/base/Json.h"

#include <nlohmann/json.hpp>

#include <cstring>

namespace mt::train {
namespace {

struct TypeName {
  std::string_view text;
  DType type;
};
constexpr TypeName kTypes[] = {{"F64", DType::f64}, {"F32", DType::f32}, {"F16", DType::f16}, {"BF16", DType::bf16},
                               {"I64", DType::i64}, {"I32", DType::i32}, {"I16", DType::i16}, {"I8", DType::i8},
                               {"U8", DType::u8},   {"BOOL", DType::boolean}};

std::string typeText(DType type) {
  for (const TypeName &known : kTypes)
    if (known.type == type)
      return std::string(known.text);
  return "";
}

/// An unsigned number of the header, or nothing.
std::optional<int64_t> number(const nlohmann::json &value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > uint64_t(1) << 60)
    return std::nullopt;
  return value.get<int64_t>();
}

Result<ArrayView> parseTensor(const nlohmann::json &entry, std::span<const std::byte> data) {
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") || !entry.contains("data_offsets"))
    return fail("its entry is incomplete");
  ArrayView view;
  bool known = false;
  for (const TypeName &type : kTypes)
    if (entry["dtype"] == type.text) {
      view.type = type.type;
      known = true;
    }
  const nlohmann::json &shape = entry["shape"], &offsets = entry["data_offsets"];
  if (!known || !shape.is_array() || !offsets.is_array() || offsets.size() != 2)
    return fail("its type, shape or offsets are not understood");
  for (const nlohmann::json &dim : shape)
    view.dims.push_back(number(dim).value_or(-1));
  std::optional<int64_t> begin = number(offsets[0]), end = number(offsets[1]), count = elementCount(view.dims);
  if (!begin || !end || !count || *begin > *end || static_cast<uint64_t>(*end) > data.size() ||
      static_cast<uint64_t>(*end - *begin) != static_cast<uint64_t>(*count) * byteSize(view.type))
    return fail("its bytes do not fit its shape or lie outside the file");
  view.data = data.subspan(static_cast<size_t>(*begin), static_cast<size_t>(*end - *begin));
  return view;
}

} // namespace

Result<std::string> safetensorsHeader(const std::string &path, std::span<const TensorInfo> tensors) {
  nlohmann::json header = nlohmann::json::object();
  uint64_t offset = 0;
  for (const TensorInfo &tensor : tensors) {
    std::optional<int64_t> count = elementCount(tensor.dims);
    if (!count || typeText(tensor.type).empty())
      return fail("{}: tensor '{}' of {} {} cannot be written", path, tensor.name, name(tensor.type),
                  text(tensor.dims));
    uint64_t end = offset + static_cast<uint64_t>(*count) * byteSize(tensor.type);
    header[tensor.name] = {
        {"dtype", typeText(tensor.type)}, {"shape", tensor.dims}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string head = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  head.resize((head.size() + 7) / 8 * 8, ' ');
  uint64_t length = head.size();
  return std::string(reinterpret_cast<const char *>(&length), sizeof(length)) + head;
}

Result<SafetensorsWriter> SafetensorsWriter::create(const std::string &path, std::span<const TensorInfo> tensors) {
  MT_ASSIGN(std::string header, safetensorsHeader(path, tensors));
  uint64_t total = header.size();
  for (const TensorInfo &tensor : tensors)
    total += static_cast<uint64_t>(elementCount(tensor.dims).value_or(0)) * byteSize(tensor.type);
  MT_ASSIGN(AtomicFile file, AtomicFile::create(path));
  MT_TRY(file.write(std::as_bytes(std::span(header))));
  return SafetensorsWriter(std::move(file), total);
}

Status SafetensorsWriter::finish() {
  if (file.written() != total)
    return fail("{} of {} bytes of tensors were written", file.written(), total);
  return file.commit();
}

Result<SafetensorsFile> SafetensorsFile::open(const std::string &path) {
  MT_ASSIGN(MappedFile mapped, MappedFile::open(path));
  SafetensorsFile result(std::move(mapped));
  std::span<const std::byte> all = result.file.bytes();
  uint64_t length = 0;
  if (all.size() >= 8)
    std::memcpy(&length, all.data(), 8);
  if (all.size() < 8 || length > all.size() - 8)
    return fail("{}: not a safetensors file, or cut short", path);
  std::string_view head(reinterpret_cast<const char *>(all.data()) + 8, length);
  Result<nlohmann::json> header = parseJson(head);
  if (!header || !header->is_object())
    return fail("{}: its header is damaged: {}", path, header ? "not a JSON object" : header.status().message());
  for (const auto &[name, entry] : header->items()) {
    if (name == "__metadata__")
      continue;
    Result<ArrayView> view = parseTensor(entry, all.subspan(8 + length));
    if (!view)
      return view.status().within(fmt::format("{}: tensor '{}'", path, name));
    result.views.emplace(name, *view);
  }
  return result;
}

const ArrayView *SafetensorsFile::find(std::string_view name) const {
  auto found = views.find(name);
  return found == views.end() ? nullptr : &found->second;
}

} // namespace mt::train
