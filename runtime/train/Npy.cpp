// The format: numpy.lib.format. The header is a Python dictionary literal with the keys descr, fortran_order, shape.
#include "runtime/train/Npy.h"

#include <fmt/ranges.h>

#include <charconv>
#include <cstring>
#include <vector>

namespace mt::train {
namespace {

struct TypeName {
  std::string_view descr;
  DType type;
};
constexpr TypeName kTypes[] = {{"<i8", DType::i64}, {"<i4", DType::i32}, {"<i2", DType::i16},    {"|i1", DType::i8},
                               {"|u1", DType::u8},  {"<f4", DType::f32}, {"<f8", DType::f64},    {"<f2", DType::f16},
                               {"|b1", DType::boolean}};

/// Reads the dictionary literal piece by piece; each call skips blanks first.
class Literal {
public:
  explicit Literal(std::string_view text) : rest(text) {}

  bool take(std::string_view token) {
    skipBlanks();
    if (!rest.starts_with(token))
      return false;
    rest.remove_prefix(token.size());
    return true;
  }
  std::optional<std::string_view> quoted() {
    skipBlanks();
    if (rest.empty() || (rest[0] != '\'' && rest[0] != '"'))
      return std::nullopt;
    size_t end = rest.find(rest[0], 1);
    if (end == std::string_view::npos)
      return std::nullopt;
    std::string_view inside = rest.substr(1, end - 1);
    rest.remove_prefix(end + 1);
    return inside;
  }
  std::optional<int64_t> integer() {
    skipBlanks();
    int64_t value = 0;
    auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (error != std::errc())
      return std::nullopt;
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    take("L"); // what Python 2 appended to long integers
    return value;
  }

private:
  void skipBlanks() {
    size_t first = rest.find_first_not_of(" \t\n");
    rest.remove_prefix(first == std::string_view::npos ? rest.size() : first);
  }
  std::string_view rest;
};

bool parseShape(Literal &literal, Dims &dims) {
  if (!literal.take("("))
    return false;
  while (!literal.take(")")) {
    std::optional<int64_t> dim = literal.integer();
    if (!dim)
      return false;
    dims.push_back(*dim);
    if (!literal.take(",")) {
      return literal.take(")");
    }
  }
  return true;
}

Status parseValue(Literal &literal, std::string_view key, ArrayView &array, bool &columnMajor) {
  if (key == "descr") {
    std::optional<std::string_view> descr = literal.quoted();
    for (const TypeName &known : kTypes)
      if (descr == known.descr) {
        array.type = known.type;
        return Status();
      }
    return fail("element type {} is not supported (int64, int32, int16, int8, uint8, bool, float16, float32 and "
                "float64 are, little-endian)",
                descr ? std::string(*descr) : "of several fields");
  }
  if (key == "fortran_order") {
    columnMajor = literal.take("True");
    return columnMajor || literal.take("False") ? Status() : fail("its header is damaged near '{}'", key);
  }
  if (key == "shape" && parseShape(literal, array.dims))
    return Status();
  return fail("its header is damaged near '{}'", key);
}

Result<ArrayView> parseHeader(std::string_view header, bool &columnMajor) {
  ArrayView array;
  Literal literal(header);
  int keys = 0;
  if (!literal.take("{"))
    return fail("its header is damaged");
  while (!literal.take("}")) {
    std::optional<std::string_view> key = literal.quoted();
    if (!key || !literal.take(":"))
      return fail("its header is damaged");
    MT_TRY(parseValue(literal, *key, array, columnMajor));
    literal.take(",");
    ++keys;
  }
  if (keys != 3)
    return fail("its header is incomplete");
  return array;
}

} // namespace

Result<ArrayView> parseNpy(std::span<const std::byte> file, bool &columnMajor) {
  const auto *text = reinterpret_cast<const char *>(file.data());
  if (file.size() < 12 || std::memcmp(text, "\x93NUMPY", 6) != 0)
    return fail("not in NumPy's array format");
  bool wide = text[6] >= 2;
  uint64_t begin = wide ? 12 : 10, length = 0;
  std::memcpy(&length, text + 8, wide ? 4 : 2);
  if (text[6] < 1 || text[6] > 3 || length > file.size() - begin)
    return fail("its header is damaged");
  MT_ASSIGN(ArrayView array, parseHeader(std::string_view(text + begin, length), columnMajor));
  array.data = file.subspan(begin + length);
  std::optional<int64_t> count = elementCount(array.dims);
  if (!count || static_cast<uint64_t>(*count) * byteSize(array.type) != array.data.size())
    return fail("{} of {} do not take {} bytes", mt::train::text(array.dims), name(array.type), array.data.size());
  return array;
}

std::vector<std::byte> rowMajor(const ArrayView &columnMajor) {
  size_t size = byteSize(columnMajor.type), count = columnMajor.data.size() / size;
  std::vector<std::byte> ordered(columnMajor.data.size());
  std::vector<int64_t> index(columnMajor.dims.size());
  for (size_t to = 0; to < count; ++to) {
    size_t from = 0;
    for (size_t d = index.size(); d-- > 0;)
      from = from * static_cast<size_t>(columnMajor.dims[d]) + static_cast<size_t>(index[d]);
    std::memcpy(ordered.data() + to * size, columnMajor.data.data() + from * size, size);
    for (size_t d = index.size(); d-- > 0 && ++index[d] == columnMajor.dims[d];)
      index[d] = 0;
  }
  return ordered;
}

std::string npyHeader(DType type, std::span<const int64_t> dims) {
  std::string_view descr = "<f4";
  for (const TypeName &known : kTypes)
    if (known.type == type)
      descr = known.descr;
  std::string dictionary = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", descr,
                                       fmt::join(dims, ", "), dims.size() == 1 ? "," : "");
  size_t total = (10 + dictionary.size() + 1 + 63) / 64 * 64;
  dictionary.resize(total - 11, ' ');
  dictionary += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(dictionary.size() & 255);
  header += static_cast<char>(dictionary.size() >> 8);
  return header + dictionary;
}

} // namespace mt::train
