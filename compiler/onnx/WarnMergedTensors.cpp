#include "compiler/onnx/WarnMergedTensors.h"

#include "compiler/nn/Nn.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace mlir;

namespace mt::onnx {
namespace {

constexpr int64_t kSmall = 1024; // what onnxscript's optimizer merges

// Nodes that use a value, through reshapes and the like.
void collectUsers(Value value, SmallVectorImpl<Operation *> &users) {
  for (Operation *user : value.getUsers()) {
    if (isa<nn::ReshapeOp, nn::TransposeOp, nn::BroadcastOp, nn::CastOp, nn::SliceOp>(user))
      collectUsers(user->getResult(0), users);
    else if (!llvm::is_contained(users, user))
      users.push_back(user);
  }
}

std::string nameOf(Operation *op) {
  auto name = dyn_cast<NameLoc>(op->getLoc());
  return name ? name.getName().str() : op->getName().getStringRef().str();
}

size_t productUses(ArrayRef<Operation *> users) {
  return static_cast<size_t>(llvm::count_if(users, [](Operation *op) { return isa<nn::MatmulOp>(op); }));
}

// "layers" and "3" of "layers.3".
std::pair<StringRef, StringRef> numbered(StringRef part) {
  auto [name, number] = part.rsplit('.');
  bool isNumber = !number.empty() && llvm::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
  return isNumber ? std::pair(name, number) : std::pair(part, StringRef());
}

// Whether two paths of modules lead through entries of one list that are not the same: "/layers.0/linear/MatMul" and
// "/layers.1/linear/MatMul".
bool areOfDifferentLayers(StringRef one, StringRef other) {
  SmallVector<StringRef> parts, others;
  one.split(parts, '/');
  other.split(others, '/');
  for (auto [a, b] : llvm::zip(parts, others)) {
    auto [name, number] = numbered(a);
    auto [otherName, otherNumber] = numbered(b);
    if (name == otherName && number != otherNumber)
      return !number.empty() && !otherNumber.empty();
  }
  return false;
}

// A matrix that exporters may have merged: small, and of several names, or used by layers that have their own ones.
std::string warnMergedMatrix(const Candidate &candidate, ArrayRef<Operation *> users) {
  std::vector<std::string> names;
  for (const Alias &alias : candidate.aliases)
    if (candidate.source.elements <= kSmall && alias.kind == Alias::Kind::module)
      names.push_back(alias.name);
  if (names.size() < 2)
    names.clear();
  for (size_t i = 0; names.empty() && i < users.size(); ++i)
    for (size_t k = 0; names.empty() && k < i; ++k)
      if (areOfDifferentLayers(nameOf(users[k]), nameOf(users[i])))
        names = {nameOf(users[k]), nameOf(users[i])};
  if (names.empty())
    return {};
  llvm::sort(names);
  return fmt::format(
      "initializer '{}' serves {} and will be trained as one tensor. Exporters merge equal tensors, as "
      "of layers that begin as copies; if these are separate parameters, export the model after a step of training",
      candidate.source.name, fmt::join(names, ", "));
}

} // namespace

std::vector<std::string> warnMergedTensors(const std::vector<Candidate> &candidates, const std::vector<bool> &trainable,
                                           const std::map<std::string, std::set<std::string>> &told) {
  size_t matrixUses = 1;
  std::vector<SmallVector<Operation *>> users(candidates.size());
  for (size_t i = 0; i < candidates.size(); ++i) {
    collectUsers(candidates[i].argument, users[i]);
    if (candidates[i].source.dims.size() >= 2)
      matrixUses = std::max(matrixUses, productUses(users[i]));
  }
  std::vector<std::string> warnings;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const TensorSource &source = candidates[i].source;
    if (told.contains(source.name))
      continue;
    if (trainable[i] && source.dims.size() >= 2 && users[i].size() > 1)
      if (std::string warning = warnMergedMatrix(candidates[i], users[i]); !warning.empty())
        warnings.push_back(std::move(warning));
    const bool isNamed =
        candidates[i].origin.kind == Origin::Kind::parameter && candidates[i].origin.name == source.name;
    if (isNamed || !trainable[i] || source.dims.size() != 1 || source.elements > kSmall ||
        users[i].size() <= matrixUses)
      continue;
    std::vector<std::string> names;
    for (Operation *user : llvm::ArrayRef(users[i]).take_front(3))
      names.push_back(nameOf(user));
    warnings.push_back(fmt::format(
        "initializer '{}' ({} elements) is used by {} nodes ({}, ...) and will be trained as one tensor. Exporters merge "
        "equal small tensors of a freshly initialized model; if these are separate parameters, export with "
        "optimize=False, or after a few steps of training",
        source.name, source.elements, users[i].size(), fmt::join(names, ", ")));
  }
  return warnings;
}

} // namespace mt::onnx
