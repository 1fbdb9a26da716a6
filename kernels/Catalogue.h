// The catalogue of kernels: the one contract between what the compiler emits and what a device runs. For each
// kernel its name, attributes, operand types, flops, memory traffic and workspace bound. Free of MLIR, CUDA and
// Protocol Buffers; docs/kernels.md states every kernel's formula. Implementations: kernels/cpu, kernels/cuda.
#ifndef MT_KERNELS_CATALOGUE_H
#define MT_KERNELS_CATALOGUE_H

#include "kernels/Types.h"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace mt::kernels {

/// Bytes of one element.
uint64_t byteSize(DType type);
/// "f32", "bf16", ..., "bool".
std::string_view name(DType type);
std::optional<DType> dtypeFromName(std::string_view name);
bool isFloat(DType type);
bool isInteger(DType type); ///< not boolean

using Dims = std::vector<int64_t>;

/// Whose code runs a call. Scratch is all that depends on it: the contract is one.
enum class Backend : uint8_t { cpu, cuda };

/// How a kernel touches an operand. `scratch` is workspace of the kernel itself, undefined before and after.
/// A `write` operand of a kernel that `accumulates` may be bound as accumulating for one launch: it then adds
/// to what is there instead of replacing it.
enum class Effect : uint8_t { read = 0, write = 1, scratch = 2, update = 3 };

struct OperandType {
  DType type = DType::f32;
  Dims dims;
  Effect effect = Effect::read;
  bool present = true; ///< false: an optional operand that this call leaves out (its place is kept).

  int64_t elements() const;
  uint64_t bytes() const { return present ? static_cast<uint64_t>(elements()) * byteSize(type) : 0; }
};

using Attribute = std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>>;
using Attributes = std::map<std::string, Attribute, std::less<>>;

/// A kernel applied to operands of known shapes: everything about a call but addresses.
struct Signature {
  std::string kernel;
  Attributes attributes;
  std::vector<OperandType> operands; ///< reads, then writes, in the order docs/kernels.md gives; then scratch.

  int64_t integer(std::string_view name, int64_t otherwise = 0) const;
  double real(std::string_view name, double otherwise = 0) const;
  std::string text(std::string_view name, std::string_view otherwise = "") const;
  std::vector<int64_t> integers(std::string_view name) const;
  std::vector<double> reals(std::string_view name) const; ///< of `values`, whole or not, one or several
};

/// An attribute of a kernel. Attributes that a kernel does not list are refused.
struct AttributeSpec {
  enum Kind : uint8_t { flag, integer, real, choice, integers, values, expression };
  std::string_view name;
  Kind kind = flag;
  bool required = false;         ///< else its default is false, 0 or the first choice, or what `meaning` says
  std::string_view choices = {}; ///< of a choice: names separated by '|'
  std::string_view meaning = {};
};

struct Piece;

/// One entry of the catalogue.
struct Kernel {
  std::string_view name;
  std::string_view summary;    ///< one sentence; docs/kernels.md is made of these.
  std::string_view formula;    ///< what is computed, with its source where it has one.
  int reads = 0;               ///< number of read operands; -1: any.
  int writes = 1;              ///< number of written (or updated) operands; -1: any.
  /// Bit i: written operand i may be bound as accumulating.
  uint32_t accumulates = 0;
  /// Useful arithmetic of a call, for the cost model; elementwise kernels count one per element.
  double (*flops)(const Signature &) = nullptr;
  /// Bytes of the scratch operand that a call must be given, by Backend; null: none.
  std::array<uint64_t (*)(const Signature &), 2> workspace = {};
  /// What is wrong with a call (types, dims, attributes), or empty. Plans come from files: this guards every launch.
  std::string (*check)(const Signature &) = nullptr;
  std::string_view operands = {};             ///< their names: "lhs rhs bias? -> result+"; see catalogue/Entry.h
  uint32_t optional = 0;                      ///< bit i: read operand i may be absent; any written one may be
  bool updates = false;                       ///< written operands are updated in place (Effect::update)
  std::span<const AttributeSpec> attributes = {};
  double (*traffic)(const Signature &) = nullptr; ///< bytes moved at least; null: every operand once
  std::vector<double> (*extents)(const Signature &) = nullptr; ///< see extentsOf; null: the traffic
  std::vector<Piece> (*pieces)(const Signature &) = nullptr;   ///< see piecesOf; null: the call itself
};

/// A call that is a part of another, and how often.
struct Piece {
  Signature call;
  double times = 1;
};

/// Null if there is no kernel of that name.
const Kernel *find(std::string_view name);
/// All kernels, by name.
std::span<const Kernel> all();

/// Flops of a call (0 for pure movement); bytes it must move through memory at least.
double flops(const Signature &call);
double traffic(const Signature &call);
/// Calls whose costs add up to that of a call; they may add to what they write (Effect::update). A call that is made of no
/// others is its own piece.
std::vector<Piece> piecesOf(const Signature &call);
/// What the rate of a piece depends on besides its kernel, types and attributes: positive numbers to be compared by their
/// ratios, as many for every call of a kernel.
std::vector<double> extentsOf(const Signature &call);
/// Scratch bytes of a call that `check` passed (0 if none); a scratch operand that it has already changes nothing.
uint64_t workspaceBytes(const Signature &call, Backend backend);
/// Empty if `call` is a valid use of a kernel of the catalogue, else what is wrong with it. How much scratch it has is
/// another question.
std::string check(const Signature &call);
/// Empty if a call that `check` passed has the scratch that `backend` needs, else what is missing.
std::string checkWorkspace(const Signature &call, Backend backend);

} // namespace mt::kernels
#endif
