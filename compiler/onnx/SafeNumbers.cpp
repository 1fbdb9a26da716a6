#include "compiler/onnx/SafeNumbers.h"

#include <map>
#include <utility>

namespace mt::onnx {

std::optional<double> safeNumber(const std::string &op, size_t index) {
  static const std::map<std::pair<std::string, size_t>, double> numbers{
      {{"Acos", 0}, 0}, {{"Acosh", 0}, 2}, {{"Asin", 0}, 0},       {{"Atanh", 0}, 0},
      {{"Cosh", 0}, 0}, {{"Div", 1}, 1},   {{"Exp", 0}, 0},        {{"Log", 0}, 1},
      {{"Mod", 1}, 1},  {{"Pow", 0}, 1},   {{"Pow", 1}, 1},        {{"ReduceLogSum", 0}, 1},
      {{"Sinh", 0}, 0}, {{"Sqrt", 0}, 1},  {{"Reciprocal", 0}, 1}, {{"Tan", 0}, 0}};
  auto at = numbers.find({op, index});
  return at == numbers.end() ? std::nullopt : std::optional(at->second);
}

} // namespace mt::onnx
