// The search of Planner.h.
#include "compiler/pipeline/Planner.h"

#include "compiler/pipeline/Phases.h"
#include "passes/Settings.h"
#include "runtime/base/Sizes.h"

using namespace mlir;

namespace mt::pipeline {
namespace {
/// Candidates from the fastest to the smallest, beside what is `given`.
std::vector<plan::Settings> candidatesOf(const plan::Settings &given, const Options &options, const target::Target &target) {
  std::vector<std::string> rungs = {"all", "attention", "input"};
  if (options.savedActivations)
    rungs = {*options.savedActivations};
  std::vector<bool> residencies = {true, false};
  if (options.resident || target.unified)
    residencies = {options.resident.value_or(false)};
  std::vector<int64_t> distances = {2, 1, 0};
  if (options.prefetchDistance || target.unified)
    distances = {options.prefetchDistance.value_or(1)};
  std::vector<plan::Settings> candidates;
  for (const std::string &rung : rungs)
    for (bool resident : residencies)
      for (int64_t distance : distances) {
        bool last = rung == rungs.back() && resident == residencies.back();
        if (distance != distances.front() && !last)
          continue; // shorter distances only where nothing else fits
        plan::Settings settings = given;
        settings.savedActivations = rung;
        settings.resident = resident;
        settings.park = options.park;
        settings.prefetchDistance = distance;
        candidates.push_back(settings);
      }
  return candidates;
}

std::string describe(const plan::Settings &settings) {
  return fmt::format("saved activations {}, weights {}, prefetch distance {}", settings.savedActivations,
                     settings.resident ? "resident" : "streamed", settings.prefetchDistance);
}

/// Bytes and busy times of a module after addSearchPasses.
void measure(ModuleOp module, Choice &choice) {
  for (auto entry : module->getAttrOfType<ArrayAttr>(schedule::kSpacesAttr).getAsRange<DictionaryAttr>()) {
    uint64_t bytes = entry.getAs<IntegerAttr>("bytes").getInt();
    (entry.getAs<StringAttr>("kind").getValue() == "device" ? choice.deviceBytes : choice.hostBytes) += bytes;
  }
  std::map<int64_t, double> busy;
  auto function = module.lookupSymbol<func::FuncOp>(schedule::kScheduleName);
  for (Operation *command : schedule::commandsOf(function, schedule::Program::step))
    busy[schedule::streamOf(command)] += cast<FloatAttr>(command->getAttr("seconds")).getValueAsDouble();
  for (auto [stream, seconds] : busy)
    choice.seconds = std::max(choice.seconds, seconds);
}
} // namespace

Search searchSchedules(ModuleOp layers, const Options &options, const target::Target &target, Messages &messages) {
  Search search;
  Messages said; // of one candidate: those of the choice come when it is run
  plan::Settings given;
  passes::readSettings(layers, given);
  for (const plan::Settings &settings : candidatesOf(given, options, target)) {
    Choice choice;
    choice.settings = settings;
    choice.memory.deviceMemory = options.deviceMemory.value_or(target.deviceMemory);
    choice.memory.hostMemory = options.hostMemory.value_or(target.hostMemory);
    OwningOpRef<ModuleOp> module = layers.clone();
    passes::stateSettings(*module, settings);
    said = Messages();
    Collector collector(*layers.getContext(), said);
    PassManager manager(layers.getContext());
    addSearchPasses(manager, choice.memory);
    if (failed(manager.run(*module))) {
      search.problem = collector.failure(options.model).message();
      search.considered.push_back(describe(settings) + ": does not fit");
      continue;
    }
    measure(*module, choice);
    uint64_t both = choice.deviceBytes + choice.hostBytes;
    if (target.unified && !options.deviceMemory && both > uint64_t(choice.memory.hostMemory)) {
      search.problem = fmt::format("the plan needs {} ({} B) of memory, which device and host share here, and --host-memory "
                                   "allows {}; the smallest budget for these choices is --host-memory {}B",
                                   formatSize(both), both, formatSize(choice.memory.hostMemory), both);
      search.considered.push_back(describe(settings) + ": does not fit");
      continue;
    }
    choice.text = fmt::format("{}: device {}, host {}, {:.3g} s at least", describe(settings), formatSize(choice.deviceBytes),
                              formatSize(choice.hostBytes), choice.seconds);
    search.considered.push_back(choice.text);
    search.choice = choice;
    return search;
  }
  messages.add(said);
  return search;
}

} // namespace mt::pipeline
