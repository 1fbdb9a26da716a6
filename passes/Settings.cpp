// Attributes of Settings.h: a table of fields serves reading and writing.
#include "passes/Settings.h"

#include "compiler/nn/KernelCall.h"
#include "compiler/nn/Nn.h"

#include "mlir/IR/Builders.h"

#include <variant>

using namespace mlir;

namespace mt::passes {
namespace {
constexpr llvm::StringLiteral kSettingsAttr = "mt.settings";

using plan::Settings;
struct Field {
  StringRef name;
  std::variant<std::string Settings::*, bool Settings::*, int64_t Settings::*, double Settings::*,
               std::vector<std::string> Settings::*>
      member;
};
const Field kFields[] = {{"batch", &Settings::batch},
                         {"micro_batch", &Settings::microBatch},
                         {"sequence", &Settings::sequence},
                         {"precision", &Settings::precision},
                         {"label_smoothing", &Settings::labelSmoothing},
                         {"z_loss", &Settings::zLoss},
                         {"optimizer", &Settings::optimizer},
                         {"groups", &Settings::groups},
                         {"clip", &Settings::clip},
                         {"average", &Settings::average},
                         {"narrow_exchange", &Settings::narrowExchange},
                         {"saved_activations", &Settings::savedActivations},
                         {"weights", &Settings::weights},
                         {"parked", &Settings::parked},
                         {"updates", &Settings::updates}};

void read(Attribute from, std::string &into) {
  if (auto text = dyn_cast_or_null<StringAttr>(from))
    into = text.str();
}
void read(Attribute from, bool &into) {
  if (auto flag = dyn_cast_or_null<BoolAttr>(from))
    into = flag.getValue();
}
template <typename Integer> void read(Attribute from, Integer &into) {
  if (auto number = dyn_cast_or_null<IntegerAttr>(from); number && number.getType().isInteger(64))
    into = static_cast<Integer>(number.getInt());
}
void read(Attribute from, double &into) {
  if (auto number = dyn_cast_or_null<FloatAttr>(from))
    into = number.getValueAsDouble();
}

void read(Attribute from, std::vector<std::string> &into) {
  if (auto lines = dyn_cast_or_null<ArrayAttr>(from))
    for (Attribute line : lines)
      read(line, into.emplace_back());
}

Attribute write(Builder &builder, const std::vector<std::string> &value) {
  return builder.getStrArrayAttr(SmallVector<StringRef>(value.begin(), value.end()));
}
Attribute write(Builder &builder, const std::string &value) { return builder.getStringAttr(value); }
Attribute write(Builder &builder, bool value) { return builder.getBoolAttr(value); }
Attribute write(Builder &builder, int64_t value) { return builder.getI64IntegerAttr(value); }
Attribute write(Builder &builder, uint32_t value) { return builder.getI64IntegerAttr(value); }
Attribute write(Builder &builder, uint64_t value) { return builder.getI64IntegerAttr(static_cast<int64_t>(value)); }
Attribute write(Builder &builder, double value) { return builder.getF64FloatAttr(value); }

template <typename Fields, typename Struct> void readFields(const Fields &fields, DictionaryAttr from, Struct &into) {
  for (const auto &field : fields)
    std::visit([&](auto member) { read(from.get(StringRef(field.name)), into.*member); }, field.member);
}
template <typename Fields, typename Struct>
DictionaryAttr writeFields(MLIRContext *context, const Fields &fields, const Struct &from) {
  Builder builder(context);
  NamedAttrList list;
  for (const auto &field : fields)
    std::visit([&](auto member) { list.append(StringRef(field.name), write(builder, from.*member)); }, field.member);
  return list.getDictionary(context);
}
} // namespace

void readSettings(ModuleOp module, Settings &settings) {
  if (auto stated = module->getAttrOfType<DictionaryAttr>(kSettingsAttr))
    readFields(kFields, stated, settings);
  read(module->getAttr(nn::kLossAttr), settings.loss);
}

void stateSettings(ModuleOp module, const Settings &settings) {
  module->setAttr(kSettingsAttr, writeFields(module.getContext(), kFields, settings));
}

template <typename Value> static void state(ModuleOp module, Value Settings::*choice, const Value &value) {
  NamedAttrList list(module->getAttrOfType<DictionaryAttr>(kSettingsAttr));
  Builder builder(module.getContext());
  for (const Field &field : kFields)
    if (auto *member = std::get_if<Value Settings::*>(&field.member); member && *member == choice)
      list.set(field.name, write(builder, value));
  module->setAttr(kSettingsAttr, list.getDictionary(module.getContext()));
}
void stateSetting(ModuleOp module, std::string Settings::*choice, const std::string &value) { state(module, choice, value); }
void stateSetting(ModuleOp module, int64_t Settings::*choice, int64_t value) { state(module, choice, value); }
void stateSetting(ModuleOp module, double Settings::*choice, double value) { state(module, choice, value); }
void stateSetting(ModuleOp module, bool Settings::*choice, bool value) { state(module, choice, value); }
void stateSetting(ModuleOp module, std::vector<std::string> Settings::*choice, const std::vector<std::string> &value) {
  state(module, choice, value);
}

std::string optimizerOf(ModuleOp module, size_t parameter) {
  std::string name;
  if (auto all = module->getAttrOfType<ArrayAttr>("mt.parameters"); all && parameter < all.size())
    if (auto entry = dyn_cast<DictionaryAttr>(all[parameter]))
      read(entry.get("optimizer"), name);
  return name;
}

FailureOr<target::Target> readTarget(ModuleOp module) {
  auto stated = module->getAttrOfType<DictionaryAttr>(nn::kTargetAttr);
  if (!stated)
    return module.emitError() << "names no target (" << nn::kTargetAttr << "); give mt-build-schedule one: target=cpu";
  target::Target target;
  readFields(target::targetFields(), stated, target);
  if (Status status = target::completeTarget(target); !status.ok())
    return module.emitError() << nn::kTargetAttr << ": " << status.message();
  return target;
}

void stateTarget(ModuleOp module, const target::Target &target) {
  module->setAttr(nn::kTargetAttr, writeFields(module.getContext(), target::targetFields(), target));
}

} // namespace mt::passes
