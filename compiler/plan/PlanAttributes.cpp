// Attributes of PlanAttributes.h.
#include "compiler/plan/PlanAttributes.h"

#include "passes/Settings.h"
#include "passes/nn/Packing.h"
#include "runtime/plan/Dump.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace mt {
namespace {
/// Builds a dictionary from C++ values.
struct Writer {
  Builder builder;
  NamedAttrList list = {};
  Writer &add(StringRef name, StringRef value) { return list.append(name, builder.getStringAttr(value)), *this; }
  Writer &add(StringRef name, int64_t value) { return list.append(name, builder.getI64IntegerAttr(value)), *this; }
  Writer &real(StringRef name, double value) { return list.append(name, builder.getF64FloatAttr(value)), *this; }
  DictionaryAttr get() { return list.getDictionary(builder.getContext()); }
};

struct Reader {
  DictionaryAttr dictionary;
  std::string text(StringRef name) const {
    auto value = dictionary.getAs<StringAttr>(name);
    return value ? value.str() : "";
  }
  int64_t integer(StringRef name) const {
    auto value = dictionary.getAs<IntegerAttr>(name);
    return value ? value.getValue().getSExtValue() : 0;
  }
  double real(StringRef name) const {
    auto value = dictionary.getAs<FloatAttr>(name);
    return value ? value.getValueAsDouble() : 0;
  }
};

/// Bytes of a file, or a generator.
void writeSource(Writer &writer, const plan::Initial &initial) {
  if (initial.generator.empty())
    writer.add("path", initial.path)
        .add("offset", int64_t(initial.offset))
        .add("length", int64_t(initial.length))
        .add("type", kernels::name(initial.type))
        .add("sample", int64_t(initial.sample));
  else
    writer.add("generator", initial.generator).add("seed", int64_t(initial.seed)).real("deviation", initial.deviation)
        .real("value", initial.value);
}

plan::Initial readSource(const Reader &r) {
  return {r.text("path"),
          uint64_t(r.integer("offset")),
          uint64_t(r.integer("length")),
          kernels::dtypeFromName(r.text("type")).value_or(kernels::DType::f32),
          r.text("generator"),
          uint64_t(r.integer("seed")),
          r.real("deviation"),
          r.real("value"),
          {},
          {},
          uint64_t(r.integer("sample"))};
}
} // namespace

void setPlanAttributes(ModuleOp module, const plan::Plan &plan) {
  Builder builder(module.getContext());
  module->setAttr("mt.model", Writer{builder}.add("file", plan.model.file).add("name", plan.model.name)
                                  .add("digest", int64_t(plan.model.digest)).add("vocabulary", plan.model.vocabulary).get());
  SmallVector<Attribute> parameters;
  for (const plan::Parameter &parameter : plan.parameters) {
    const plan::Initial &initial = parameter.initial;
    Writer writer{builder};
    writer.add("name", parameter.name);
    if (!parameter.optimizer.empty())
      writer.add("optimizer", parameter.optimizer);
    SmallVector<Attribute> aliases;
    for (const plan::Alias &alias : parameter.aliases)
      aliases.push_back(Writer{builder}.add("kind", plan::name(alias.kind)).add("name", alias.name)
                            .add("transposed", int64_t(alias.transposed)).get());
    if (!aliases.empty())
      writer.list.append("aliases", builder.getArrayAttr(aliases));
    if (!initial.pieces.empty()) {
      SmallVector<Attribute> pieces;
      for (const plan::Piece &piece : initial.pieces) {
        Writer one{builder};
        one.add("name", piece.name);
        writeSource(one, piece.initial);
        pieces.push_back(one.get());
      }
      writer.list.append("pieces", builder.getArrayAttr(pieces));
    } else {
      writeSource(writer, initial);
    }
    if (initial.packing)
      writer.list.append(passes::kPackingAttr, passes::attributeOf(builder, *initial.packing));
    parameters.push_back(writer.get());
  }
  module->setAttr("mt.parameters", builder.getArrayAttr(parameters));
}

LogicalResult readPlanAttributes(ModuleOp module, plan::Plan &plan) {
  auto model = module->getAttrOfType<DictionaryAttr>("mt.model");
  auto parameters = module->getAttrOfType<ArrayAttr>("mt.parameters");
  if (!model || !parameters)
    return module.emitError() << "lacks mt.model or mt.parameters; emit plans from the schedule that mtc compile "
                                 "--emit=schedule prints";
  auto target = passes::readTarget(module);
  if (failed(target))
    return failure();
  passes::readSettings(module, plan.settings);
  plan.target = {target->name, target->device, target->unified, target->shares, target->isa};
  plan.ranks = target->ranks;
  Reader m{model};
  plan.model = {m.text("file"), m.text("name"), uint64_t(m.integer("digest")), 0, m.integer("vocabulary")};
  for (Attribute entry : parameters) {
    auto dictionary = dyn_cast<DictionaryAttr>(entry);
    if (!dictionary)
      return module.emitError() << "mt.parameters must hold dictionaries";
    Reader r{dictionary};
    plan::Parameter parameter;
    parameter.name = r.text("name");
    parameter.optimizer = r.text("optimizer");
    if (auto aliases = dictionary.getAs<ArrayAttr>("aliases"))
      for (Attribute alias : aliases) {
        Reader a{dyn_cast<DictionaryAttr>(alias)};
        if (!a.dictionary)
          return module.emitError() << "the aliases of parameter '" << parameter.name << "' must be dictionaries";
        bool ofModule = a.text("kind") == plan::name(plan::Alias::Kind::module);
        parameter.aliases.push_back({ofModule ? plan::Alias::Kind::module : plan::Alias::Kind::initializer, a.text("name"),
                                     a.integer("transposed") != 0});
      }
    parameter.initial = readSource(r);
    if (auto pieces = dictionary.getAs<ArrayAttr>("pieces"))
      for (Attribute piece : pieces) {
        Reader one{dyn_cast<DictionaryAttr>(piece)};
        if (!one.dictionary)
          return module.emitError() << "the pieces of parameter '" << parameter.name << "' must be dictionaries";
        parameter.initial.pieces.push_back({one.text("name"), readSource(one)});
      }
    parameter.initial.packing = passes::packingOf(dictionary.getAs<DictionaryAttr>(passes::kPackingAttr));
    plan.parameters.push_back(std::move(parameter));
  }
  return success();
}

} // namespace mt
